"""The writer of CSV, and every command that writes CSV by it."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from cli_helpers import FAST, done, fault, invoke
from collection_helpers import made_items
from hypothesis import given
from hypothesis import strategies as st

from sortnet.preference import Judgement
from sortnet.tables.read_rows import read_rows
from store import open_store
from store.csv_file import (
    ESCAPED_COLUMN,
    _escaped_unless_number,
    _line,
    without_escapes,
    write_csv,
)

HOSTILE = ("=cmd|' /C calc'!A0", "@SUM(A1)", "+1+1", "-1+cmd", "\t=1", "\uff1dA1", "'=1", 'a,"b"')
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


NUMBERS = st.sampled_from([-0.5, 1e-9, 7, -7, True, float("nan"), float("-inf"), None])


@given(st.lists(st.lists(CELLS | NUMBERS, min_size=1, max_size=3), min_size=1))
def test_a_line_that_needs_no_care_is_written_as_cell_by_cell(rows):
    careful = "".join(_line(row, _escaped_unless_number) for row in rows)
    assert written(*rows, names=("a",)) == f"a\n{careful}"


@given(st.lists(CELLS.filter(str.strip), min_size=1))
def test_a_reader_removes_what_the_writer_has_added(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    rows = [[text, True] for text in texts]
    path.write_bytes(written(*rows, names=("a", ESCAPED_COLUMN)).encode())
    read = without_escapes(read_rows(path, keep=lambda name: True))
    assert read.columns["a"] == texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A store with hostile items, answers and annotators, and a model of hostile documents."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SORTNET_STORE", "s.db")
        n = len(HOSTILE)
        with open_store("s.db") as store:
            items = made_items(n, ids=HOSTILE, texts=HOSTILE, groups=("=g",) * n)
            bad = store.add_items("bad", items)
            store.add_items("copy", items)
            for k, text in enumerate(HOSTILE):
                name = "=ann" if k % 2 else "@bo"
                bad.append([Judgement.of(name, (k, (k + 1) % n), "left", comment=text.strip())])
        rows = [
            [f"=q{q}", (q + d) % 3, d - q, q * d, f"{id.strip()} {q}"]
            for q in range(8)
            for d, id in enumerate(HOSTILE)
        ]
        Path("t.csv").write_text(
            written(*rows, names=("qid", "label", "=f", "g", "docid"), raw=True)
        )
        done("train", "t.csv", "t.csv", "--out", "m", *FAST)
    return folder


@pytest.fixture
def inside(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SORTNET_STORE", "s.db")


COMMANDS = {
    "ranking": ("ranking", "bad", "--format", "csv"),
    "judgements": ("judgements", "export", "bad", "--format", "csv"),
    "rank": ("rank", "m", "t.csv", "--format", "csv"),
    "evaluate": ("evaluate", "m", "t.csv", "--per-query", "-"),
    "importance": ("importance", "m", "t.csv", "--repeats", "1", "-o", "-"),
    "pairs": ("pairs", "last", "--format", "csv"),
}


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_a_formula(name):
    rows = cells_of(done(*COMMANDS[name]))
    texts = [cell for row in rows for cell in row]
    assert len(rows) > 1
    assert any(cell.startswith("'") for cell in texts)
    assert [cell for cell in texts if cell.startswith(FORMULA) and not is_number(cell)] == []


@pytest.mark.usefixtures("inside")
def test_an_export_is_imported_as_it_was():
    done("judgements", "export", "bad", "--output", "j.csv")
    done("judgements", "import", "copy", "j.csv")
    forms = [done("judgements", "export", name, "--format", "jsonl") for name in ("bad", "copy")]
    assert forms[0] == forms[1]


@pytest.mark.usefixtures("inside")
def test_the_name_of_the_output_says_the_format_unless_it_is_typed():
    firsts = {
        ("judgements", "export", "bad"): {"j.csv": "id,", "j.jsonl": "{", "j.NDJSON": "{"},
        ("ranking", "bad"): {"r.csv": "group,", "r.json": "{", "r.txt": "group"},
        ("rank", "m", "t.csv"): {"d.csv": "qid,", "d.jsonl": "{", "d.trec": "=q"},
        ("pairs", "last"): {"p.csv": "split,", "p.jsonl": "{", "p": "split,", "p.parquet": "PAR1"},
    }  # fmt: skip
    for command, names in firsts.items():
        for name, first in names.items():
            if name == "d.trec":  # an id with a space
                assert "trec ids cannot contain spaces" in fault(*command, "-o", name)
                continue
            done(*command, "-o", name)
            head = Path(name).read_bytes()[:200].decode("utf-8", "replace").lstrip()
            assert head.startswith(first), (command, name, head)
    result = invoke("judgements", "export", "bad", "--format", "jsonl", "-o", "j.csv")
    assert result.stderr.startswith("j.csv: written as jsonl, as --format says\n")
    assert Path("j.csv").read_text().startswith("{")
    for name in ("x.parquet", "x.xlsx", "x.csv.gz"):
        line = fault("ranking", "bad", "-o", name)
        assert f"--output '{name}': the formats are table, csv, json" in line
        assert not Path(name).exists()
