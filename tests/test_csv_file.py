"""The writer of CSV, and every command that writes CSV by it."""

from __future__ import annotations

import csv
import io
import re

from hypothesis import given
from hypothesis import strategies as st

from sortnet.tables.read_rows import read_rows
from store.csv_file import (
    ESCAPED_COLUMN,
    without_escapes,
    write_csv,
)

FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
CELLS = st.text(st.sampled_from("=+-@'\t\r\n\",;aé1.\uff1d "), max_size=6)


def written(*rows: list[object], names: tuple[str, ...] = ("a",), raw: bool = False) -> str:
    file = io.StringIO(newline="")
    write_csv(file, names, rows, raw=raw)
    return file.getvalue()


def cells_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.ASCII) is not None


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), min_size=1))
def test_no_text_is_a_formula_and_each_is_read_back_as_it_was(rows):
    cells = cells_of(written(*rows, names=("a", "b")))[1:]
    for row, read in zip(rows, cells, strict=True):
        for text, cell in zip(row, read, strict=True):
            assert not cell.startswith(FORMULA) or is_number(cell)
            assert cell in (text, f"'{text}")
    assert cells_of(written(*rows, names=("a", "b"), raw=True))[1:] == rows


@given(st.lists(CELLS.filter(str.strip), min_size=1))
def test_a_reader_removes_what_the_writer_has_added(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    rows = [[text, True] for text in texts]
    path.write_bytes(written(*rows, names=("a", ESCAPED_COLUMN)).encode())
    read = without_escapes(read_rows(path, keep=lambda name: True))
    assert read.columns["a"] == texts
