"""A result of a command: its text, its JSON document and its CSV, as the reference says."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import invoke
from hypothesis import given
from hypothesis import strategies as st
from reading_commands import OF_MODEL, OF_STORE
from result_helpers import value_of
from test_reading import made, there  # noqa: F401  # fixtures

from cli.printing.results import (
    Facts,
    Result,
    Table,
    table_of,
    text_of,
    write_result,
)
from sortnet import __version__

ROWS = [{"id": "a", "rank": 3}, {"id": "bb", "rank": 10}]
REFERENCE = Path(__file__).resolve().parent.parent / "docs/reference/json.md"
PRINTING = [args for args in (*OF_STORE, *OF_MODEL) if "--json" in args]


def result_of(**facts) -> Result:
    return Result("things", ROWS, text=[table_of(ROWS, ["id", "rank"]), "two things"], **facts)


def test_a_row_is_one_line_whatever_its_texts_are():
    rows = [{"id": "a\nb\x1b[2J", "rank": 1}]
    facts = Facts({"id": "a\x1b[2J", "from": ""})
    result = Result("things", rows, text=[table_of(rows, ["id", "rank"]), facts])
    assert [*result.lines()][1:] == ["a\ufffdb\ufffd[2J     1", "id  a\ufffd[2J"]


LONG = st.text(alphabet="ab", min_size=1, max_size=40)


@given(st.lists(st.tuples(LONG, LONG, LONG), min_size=1, max_size=6), st.integers(30, 140))
def test_cells_are_cut_only_if_the_table_is_too_wide_and_never_where_that_misleads(rows, wide):
    table = Table(["id", "n", "name"], rows, cut=frozenset({0, 2}))
    whole = max(map(len, table.lines(10**6)))
    lines = table.lines(wide)
    assert all(row[1] in line for row, line in zip(rows, lines[1:], strict=True))
    if whole <= wide:
        assert lines == table.lines(10**6)
    else:
        number = max(len(row[1]) for row in rows)
        assert max(map(len, lines)) <= max(wide, number + 2 * 8 + 4)
    titles = Table(["long id", "n", "longer name"], rows, cut=frozenset({0, 2})).lines(wide)[0]
    assert "long id" in titles and "longer name" in titles


def test_nothing_is_cut_in_a_pipe_and_long_facts_wrap_in_a_terminal(monkeypatch):
    text = "word " * 40
    result = Result("things", [], text=[table_of([{"id": text}], ["id"]), Facts({"id": text})])
    assert len([*result.lines()]) == 3
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, result.lines())) <= 40 and len([*result.lines()]) > 5


def test_a_bar_is_as_long_as_its_value():
    rows = [{"feature": "x", "mean": 0.5}, {"feature": "y", "mean": -0.25}]
    table = table_of(rows, ["feature", "mean"], bar="mean", bar_title="+ or -")
    assert [row[-1] for row in table.rows] == ["+" * 12, "-" * 6]
    assert table.header[-1] == "+ or -"


def documented() -> dict[str, set[str]]:
    """{command: names of its value} of the reference."""
    names: dict[str, set[str]] = {}
    for commands, keys in re.findall(
        r"^\| (`sortnet .+?) \| (`.+?) \|", REFERENCE.read_text(), re.M
    ):
        for command in re.findall(r"sortnet ((?:[a-z]+ ?)+)", commands):
            names.setdefault(command.strip(), set()).update(re.findall(r"`(\w+)`", keys))
    return names


STEP = {"next": "sortnet runs", "proposal": "look at sortnet runs"}


@pytest.mark.parametrize("form", ["table", "json", "csv"])
@pytest.mark.parametrize("to", ["-", "file"])
@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"next": None}, ["one is short"]),
        ({"next": "sortnet runs"}, ["one is short", "next: sortnet runs"]),
        (STEP, ["one is short", "look at sortnet runs"]),
        ({**STEP, "is_noted_in_text": True}, ["look at sortnet runs"]),
    ],
)
def test_a_result_is_written_once_and_its_notes_are_told_once(
    tmp_path, monkeypatch, capsys, form, to, facts, said
):
    monkeypatch.chdir(tmp_path)
    result = result_of(notes=["one is short"], **facts)
    write_result(result, form, to)
    printed = capsys.readouterr()
    text = printed.out if to == "-" else Path(to).read_text()
    if form == "table":
        assert text == "id  rank\na      3\nbb    10\ntwo things\n"
    elif form == "csv":
        assert pd.read_csv(io.StringIO(text)).to_dict("records") == ROWS
    else:
        step = facts["next"] and "sortnet runs"
        document = {"things": ROWS, "notes": ["one is short"], "next": step}
        assert json.loads(text) == {"version": __version__, **document}
    assert printed.err.splitlines() == ([] if form == "json" else said)


def test_csv_may_have_columns_of_its_own():
    result = result_of(csv={"q": ["x", "y"], "mean": [0.1, float("nan")]})
    assert text_of(result, "csv") == "q,mean\nx,0.1\ny,\n"


@pytest.mark.parametrize("args", PRINTING, ids=" ".join)
@pytest.mark.usefixtures("there")
def test_json_has_the_key_of_the_reference_and_the_rows_of_the_text(args):
    printed = invoke(*args).stdout
    value = value_of(printed)
    (name,) = set(json.loads(printed)) - {"version", "notes", "next"}
    words = " ".join(args[:2])
    names = documented()
    assert name in names[words if words in names else args[0]]
    text = invoke(*(arg for arg in args if arg != "--json")).stdout
    for row in value if isinstance(value, list) else ():
        identity = next(row[key] for key in ("id", "name", "number") if key in row)
        assert str(identity) in text
