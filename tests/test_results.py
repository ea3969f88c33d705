"""A result of a command: its text, its JSON document and its CSV, as the reference says."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import done, invoke
from hypothesis import given
from hypothesis import strategies as st
from reading_commands import OF_MODEL, OF_STORE, add_collection
from result_helpers import value_of
from rich.cells import cell_len

from cli.printing.results import (
    Bold,
    Facts,
    Result,
    Step,
    Table,
    print_result,
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


def test_the_document_has_the_version_the_value_the_notes_and_the_next_command(capsys):
    result = result_of(notes=["one is short"], next=Step("sortnet runs", "look at sortnet runs"))
    print_result(result, as_json=True)
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "version": __version__,
        "things": ROWS,
        "notes": ["one is short"],
        "next": "sortnet runs",
    }
    assert printed.err == "", "notes and the next step are in the document"


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        (None, []),
        (Step("sortnet runs"), ["next: sortnet runs"]),
        (Step("sortnet runs", "look at sortnet runs"), ["look at sortnet runs"]),
    ],
)
def test_the_text_is_on_stdout_and_notes_and_the_next_step_on_stderr(capsys, step, lines):
    print_result(result_of(notes=["one is short"], next=step), as_json=False)
    printed = capsys.readouterr()
    assert printed.out == "id  rank\na      3\nbb    10\ntwo things\n"
    assert printed.err.splitlines() == ["one is short", *lines]


def test_notes_that_the_text_has_are_not_printed_again(capsys):
    print_result(result_of(notes=["two things"], is_noted_in_text=True), as_json=False)
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == "two things" and printed.err == ""


def test_csv_has_the_value_or_columns_of_its_own():
    assert pd.read_csv(io.StringIO(text_of(result_of(), "csv"))).to_dict("records") == ROWS
    result = result_of(csv={"q": ["x", "y"], "mean": [0.1, float("nan")]})
    assert text_of(result, "csv") == "q,mean\nx,0.1\ny,\n"


def test_a_file_gets_one_form_and_notes_that_it_lacks_are_printed(tmp_path, capsys):
    result = result_of(notes=["one is short"])
    for form, err in (("table", "one is short\n"), ("csv", "one is short\n"), ("json", "")):
        write_result(result, form, str(tmp_path / form))
        assert (tmp_path / form).read_text() == text_of(result, form)
        assert capsys.readouterr() == ("", err)


def test_only_the_header_of_a_table_and_what_is_marked_are_bold():
    result = Result("things", ROWS, text=[table_of(ROWS, ["id"]), Bold("broken:"), "an arm"])
    assert [line for line in result.lines() if isinstance(line, Bold)] == ["id", "broken:"]


def test_a_row_is_one_line_whatever_its_texts_are():
    rows = [{"id": "a\nb\x1b[2J", "rank": 1}]
    facts = Facts({"id": "a\x1b[2J", "from": ""})
    result = Result("things", rows, text=[table_of(rows, ["id", "rank"]), facts])
    assert [*result.lines()][1:] == ["a\ufffdb\ufffd[2J     1", "id  a\ufffd[2J"]


CELLS = st.lists(st.lists(st.text("ab 山", max_size=9), min_size=3, max_size=3), max_size=5)


@given(CELLS)
def test_columns_are_aligned_also_below_wide_characters(rows):
    header = ["h1", "h2", "h3", ""]
    lines = Table(header, [[*row, "|"] for row in rows], right=frozenset({1})).lines()
    widths = [max(cell_len(row[k]) for row in [header, *rows]) for k in range(3)]
    for line, (first, second, third) in zip(lines[1:], rows, strict=True):
        assert cell_len(line) == sum(widths) + 2 * 3 + 1
        assert line.startswith(first) and line.endswith("|")
        assert second in line and third in line


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


@pytest.fixture(scope="module")
def made(copy_of_trained: Path) -> Path:
    add_collection(copy_of_trained)
    return copy_of_trained


@pytest.mark.parametrize("args", PRINTING, ids=" ".join)
def test_a_command_that_reads_prints_the_key_that_the_reference_names(made, args, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    printed = invoke(*args).stdout if args[0] == "doctor" else done(*args)
    value_of(printed)
    (name,) = set(json.loads(printed)) - {"version", "notes", "next"}
    words = " ".join(args[:2])
    names = documented()
    assert name in names[words if words in names else args[0]]
