"""No text of data moves a terminal's cursor, turns the direction of words, or is a formula."""

from __future__ import annotations

import csv
import io
import logging
import re
from pathlib import Path

import pytest
from cli_helpers import FAST, done, fault, invoke
from collection_helpers import made_items
from terminal_helpers import Terminal

from sortnet.messages import note, printable
from sortnet.preference import Judgement
from store import open_store
from store.csv_file import write_csv

BAD = "\x1b]0;own\x07\x1b[2J\x9b1m\u202eevil\u2066\u200f\u061c\u200e"
FORMULAS = ("=cmd|' /C calc'!A0", "@SUM(A1)", "+1+1", "-1+cmd", "\t=1", "\uff1dA1", "'=1", 'a,"b"')
STARTS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII)
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# Escape sequences of the terminal's own style, and the carriage return before each line feed.
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A store whose items, annotators and comments are hostile, and a model of such documents."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SORTNET_STORE", "s.db")
        ids = (*FORMULAS, f"{BAD}1", f"{BAD}2")
        n = len(ids)
        facts = {"ids": ids, "texts": ids, "groups": (f"={BAD}",) * n, "contexts": (BAD,) * n}
        with open_store("s.db") as store:
            bad = store.add_items("bad", made_items(n, **facts, feature_names=(BAD, "f")))
            store.add_items("copy", made_items(n, **facts))
            for k, comment in enumerate([*FORMULAS, BAD, BAD]):
                name = "=ann" if k % 2 else "@bo"
                bad.append([Judgement.of(name, (k, (k + 1) % n), "left", comment=comment.strip())])
        rows = [
            [f"={BAD}q{q}", (q + d) % 3, d - q, q * d, f"{id.strip()} {q}"]
            for q in range(8)
            for d, id in enumerate(ids)
        ]
        with Path("t.csv").open("w", newline="") as file:
            write_csv(file, ("qid", "label", f"={BAD}f", "g", "docid"), rows, raw=True)
        done("train", "t.csv", "t.csv", "--out", "m", *FAST)
    return folder


@pytest.fixture(autouse=True)
def _inside(folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SORTNET_STORE", "s.db")


COMMANDS = [
    ("items", "show", "bad"), ("items", "show", "bad", f"{BAD}1"), ("items", "list"),
    ("items", "show", "bad", "none"), ("judgements", "list", "bad"),
    *(("judgements", "export", "bad", "--format", form) for form in ("jsonl", "csv", "chosen")),
    *(("ranking", "bad", "--format", form) for form in ("table", "csv", "json")),
    ("ranking", "bad", "--group", "none"), ("annotators", "list", "bad"),
    ("annotators", "agreement", "bad"), ("ask", "bad"),
    *(("rank", "m", "t.csv", "--format", form) for form in ("trec", "csv", "jsonl")),
    ("explain", "m", "t.csv", f"{BAD}1 1", f"{BAD}2 1"), ("explain", "m", "t.csv", BAD, "x"),
    ("importance", "m", "t.csv", "--repeats", "1"), ("evaluate", "m", "t.csv"),
    ("evaluate", "m", "t.csv", "--per-query", "-"), ("show", "m"), ("show", "last"),
    ("pairs", "last"), ("pairs", "last", "--format", "jsonl"), ("report", "bad", "-o", "-"),
    ("report", "last", "-o", "-"), ("items", "retire", "copy", f"{BAD}1"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:24].strip())
def test_no_command_sends_a_control_character_of_the_data_to_a_terminal(command):
    with Terminal(*command, columns=200) as terminal:
        terminal.ended()
        printed = terminal.raw.decode()
    assert "--help'" not in printed  # the line about a wrong command line names the help
    assert UNSAFE.findall(STYLE.sub("", printed)) == []
    assert "\x1b[2J" not in printed


def test_control_characters_are_replaced_in_lines_and_in_notes_of_the_library(caplog):
    assert printable(BAD).count("\ufffd") == len(BAD) - len("]0;own[2J1mevil")
    with caplog.at_level(logging.WARNING, "sortnet"):
        note(f"item {BAD} is left out")
    assert not UNSAFE.search(caplog.text)


CSV_COMMANDS = {
    "ranking": ("ranking", "bad", "--format", "csv"),
    "judgements": ("judgements", "export", "bad", "--format", "csv"),
    "rank": ("rank", "m", "t.csv", "--format", "csv"),
    "evaluate": ("evaluate", "m", "t.csv", "--per-query", "-"),
    "importance": ("importance", "m", "t.csv", "--repeats", "1", "-o", "-"),
    "pairs": ("pairs", "last", "--format", "csv"),
}


@pytest.mark.parametrize("name", CSV_COMMANDS)
def test_no_command_writes_a_formula(name):
    printed = done(*CSV_COMMANDS[name])
    cells = [cell for row in csv.reader(io.StringIO(printed, newline="")) for cell in row]
    assert any(cell.startswith("'") for cell in cells)
    assert [c for c in cells if c.startswith(STARTS) and not NUMBER.fullmatch(c)] == []


def test_an_export_is_imported_as_it_was():
    done("judgements", "export", "bad", "--output", "j.csv")
    done("judgements", "import", "copy", "j.csv")
    forms = [done("judgements", "export", name, "--format", "jsonl") for name in ("bad", "copy")]
    assert forms[0] == forms[1]


def test_the_name_of_the_output_says_the_format_unless_it_is_typed():
    firsts = {
        ("judgements", "export", "bad"): {"k.csv": "id,", "k.jsonl": "{", "k.NDJSON": "{"},
        ("ranking", "bad"): {"r.csv": "group,", "r.json": "{", "r.txt": "group"},
        ("rank", "m", "t.csv"): {"d": "qid,", "d.csv": "qid,", "d.jsonl": "{"},
        ("pairs", "last"): {"p.csv": "split,", "p.jsonl": "{", "p": "split,", "p.parquet": "PAR1"},
    }  # fmt: skip
    for command, names in firsts.items():
        for name, first in names.items():
            done(*command, "-o", name)
            head = Path(name).read_bytes()[:200].decode("utf-8", "replace").lstrip()
            assert head.startswith(first), (command, name, head)
    assert "trec ids cannot contain spaces" in fault("rank", "m", "t.csv", "-o", "d.trec")
    result = invoke("judgements", "export", "bad", "--format", "jsonl", "-o", "k.csv")
    assert result.stderr.startswith("k.csv: written as jsonl, as --format says\n")
    for name in ("x.parquet", "x.xlsx", "x.csv.gz"):
        line = fault("ranking", "bad", "-o", name)
        assert f"--output '{name}': the formats are table, csv, json" in line
        assert not Path(name).exists()
