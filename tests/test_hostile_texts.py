"""No text of data moves the cursor of a terminal, or turns the direction of the words around it."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from cli_helpers import FAST, done
from collection_helpers import made_items
from terminal_helpers import Terminal

from sortnet.messages import note, printable
from sortnet.preference import Judgement
from store import open_store

BAD = "\x1b]0;own\x07\x1b[2J\x9b1m\u202eevil\u2066\u200f\u061c\u200e"
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# Escape sequences of the terminal's own style, and the carriage return before each line feed.
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A store whose items, comments and question are hostile, and a model of hostile documents."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SORTNET_STORE", "s.db")
        ids = tuple(f"{BAD}{k}" for k in range(5))
        facts = {"ids": ids, "texts": ids, "groups": (BAD,) * 5, "contexts": (BAD,) * 5}
        with open_store("s.db") as store:
            bad = store.add_items("bad", made_items(5, **facts, feature_names=(BAD, "f")))
            store.add_items("sure", made_items(5, **facts))
            bad.append(
                [Judgement.of("ana", (k, (k + 1) % 5), "left", comment=BAD) for k in range(5)]
            )
        rows = [f"{BAD}q{q},{(q + d) % 3},{d - q},{BAD}{q}-{d}" for q in range(8) for d in range(4)]
        Path("t.csv").write_text(f"qid,label,{BAD}f,docid\n" + "\n".join(rows) + "\n")
        done("train", "t.csv", "t.csv", "--out", "m", *FAST)
    return folder


COMMANDS = [
    ("items", "show", "bad"), ("items", "show", "bad", f"{BAD}1"), ("items", "list"),
    ("items", "retire", "sure", f"{BAD}1"), ("items", "show", "bad", "none"),
    ("judgements", "list", "bad"),
    *(("judgements", "export", "bad", "--format", form) for form in ("jsonl", "csv", "chosen")),
    *(("ranking", "bad", "--format", form) for form in ("table", "csv", "json")),
    ("ranking", "bad", "--group", "none"), ("annotators", "list", "bad"),
    ("annotators", "agreement", "bad"), ("ask", "bad"),
    *(("rank", "m", "t.csv", "--format", form) for form in ("trec", "csv", "jsonl")),
    ("explain", "m", "t.csv", f"{BAD}1-1", f"{BAD}1-2"), ("explain", "m", "t.csv", BAD, "x"),
    ("importance", "m", "t.csv", "--repeats", "1"), ("evaluate", "m", "t.csv"),
    ("evaluate", "m", "t.csv", "--per-query", "-"), ("show", "m"), ("show", "last"),
    ("pairs", "last"), ("pairs", "last", "--format", "jsonl"), ("report", "bad", "-o", "-"),
    ("report", "last", "-o", "-"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:24].strip())
def test_no_command_sends_a_control_character_of_the_data_to_a_terminal(
    folder, monkeypatch, command
):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with Terminal(*command, columns=200) as terminal:
        terminal.ended()
        printed = terminal.raw.decode()
    assert "--help'" not in printed  # the line about a wrong command line names the help
    assert UNSAFE.findall(STYLE.sub("", printed)) == []
    assert "\x1b[2J" not in printed


def test_marks_of_the_direction_and_control_characters_are_replaced():
    assert printable(BAD).count("\ufffd") == len(BAD) - len("]0;own[2J1mevil")


def test_a_note_of_the_library_has_no_control_characters(caplog):
    with caplog.at_level(logging.WARNING, "sortnet"):
        note(f"item {BAD} is left out")
    assert not UNSAFE.search(caplog.text)
