"""A result of a command: its text, its JSON document and its CSV, as the reference says."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import done, invoke
from reading_commands import OF_MODEL, OF_STORE, add_collection
from result_helpers import value_of

from cli.printing.results import (
    Bold,
    Column,
    Result,
    Step,
    Table,
    print_result,
    text_of,
    write_result,
)
from sortnet import __version__

ROWS = [{"id": "a", "n": 3}, {"id": "bb", "n": 10}]
COLUMNS = [Column("id", lambda row: row["id"]), Column("n", lambda row: str(row["n"]))]
REFERENCE = Path(__file__).resolve().parent.parent / "docs/reference/json.md"
PRINTING = [args for args in (*OF_STORE, *OF_MODEL) if "--json" in args]


def result_of(**facts) -> Result:
    return Result("things", ROWS, text=[Table(COLUMNS, ROWS), "two things"], **facts)


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
        (Step("sortnet runs", is_in_text=True), []),
    ],
)
def test_the_text_is_on_stdout_and_notes_and_the_next_step_on_stderr(capsys, step, lines):
    print_result(result_of(notes=["one is short"], next=step), as_json=False)
    printed = capsys.readouterr()
    assert printed.out == "id   n\na    3\nbb  10\ntwo things\n"
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
    result = Result("things", ROWS, text=[Table(COLUMNS, ROWS), Bold("broken:"), "an arm"])
    assert [line for line in result.lines() if isinstance(line, Bold)] == ["id   n", "broken:"]


def test_the_end_of_a_cell_or_the_start_of_a_path_is_cut_where_there_is_no_room(monkeypatch):
    rows = [{"name": "a name that is quite long", "place": "/a/folder/in/a/folder/model"}]
    name = Column("name", lambda row: row["name"], cut="end")
    place = Column("model", lambda row: row["place"], cut="start")
    monkeypatch.setenv("COLUMNS", "20")
    assert max(map(len, Table([name], rows).lines())) <= 20
    (_, line) = Table([place], rows).lines()
    assert len(line) == 20 and line.startswith("...")
    assert rows[0]["place"].endswith(line.removeprefix("..."))
    monkeypatch.delenv("COLUMNS")
    assert Table([place], rows).lines()[1] == rows[0]["place"]


def test_bars_are_behind_the_first_rows_below_the_longest_title_that_fits(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    titles = ("more than any bar is long, by far", "+ or -")
    rows = [*ROWS, {"id": "sum", "n": 13}]
    lines = Table(COLUMNS, rows, bars=[2, -1], bar_titles=titles).lines()
    assert lines[0].split() == ["id", "n", "+", "or", "-"]
    assert [line.split()[2:] for line in lines[1:]] == [["+" * 20], ["-" * 10], []]


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
