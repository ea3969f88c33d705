"""Questions about more than two items in the terminal: by keys on its screen, and by lines."""

from __future__ import annotations

import re
import signal

import pytest
from cli_helpers import invoke
from click.testing import Result
from collection_helpers import choices_of, made_items, sets_of
from terminal_helpers import Terminal

from sortnet.preference.study import Decision
from store import open_store

WHICH = "Which is better?"
WORDS = [f"{word} {k}" for k, word in enumerate(("apple", "bread", "cake", "dates") * 3)]


@pytest.fixture(autouse=True)
def folder(here) -> None:
    """An empty working folder; the store is s.db in it, with a collection asked about fours."""

    with open_store("s.db") as store:
        sets_of(store, made_items(len(WORDS), d=1, texts=tuple(WORDS)))


def label(**options) -> Terminal:
    return Terminal("label", "sets", "--as", "ana", **options)


def stored() -> list[tuple[object, ...]]:
    """Answer and the numbers, from 1, of the best and the worst, of every judgement."""
    with open_store("s.db") as store:
        return choices_of(store.collection("sets"))


def texts_of(screen: str) -> list[str]:
    """The four texts that were shown last."""
    return re.findall(r"(?:apple|bread|cake|dates) \d+", screen)[-4:]


def by_lines(lines: str, *args: str) -> Result:
    result = invoke("label", "sets", "--as", "ana", *args, lines=lines)
    assert result.exit_code == 0, result.stderr
    return result


def test_a_session_by_keys():
    with label(columns=40, rows=50) as terminal:
        terminal.until(WHICH, "0 answered")
        first = terminal.waiting()
        assert all(len(line) <= 40 for line in first.splitlines())
        shown = texts_of(first)
        assert len(set(shown)) == 4
        terminal.press("2")
        terminal.until("2 is the best: which is")
        terminal.press("3")
        terminal.until("stored: best 2, worst 3")
        terminal.press("u")
        terminal.until("undone")
        assert texts_of(terminal.waiting()) == shown
        terminal.press("1")
        terminal.until("1 is the best")
        terminal.press("z")  # takes the choice back, and no answer
        terminal.press("4")
        terminal.until("4 is the best")
        terminal.press("1")
        terminal.until("1 answered", "stored: best 4, worst 1")
        terminal.press("5")  # there is no such item
        terminal.until("unknown answer '5'")
        terminal.press("=")
        terminal.until("2 answered", "stored: same")
        terminal.press("q")
        assert terminal.ended() == 0
    given = [("best", 2, 3), ("undo", None, None), ("best", 4, 1), ("same", None, None)]
    assert stored() == given
    with open_store("s.db") as store:
        first_answer = store.collection("sets").judgements()[2]
    assert [WORDS[item] for item in first_answer.items] == shown


def test_a_kill_between_the_best_and_the_worst_loses_no_answer():
    with label() as terminal:
        terminal.until("0 answered")
        terminal.press("1")
        terminal.until("1 is the best")
        terminal.press("2")
        terminal.until("1 answered")
        shown = terminal.waiting()
        terminal.press("3")
        terminal.until("3 is the best")
        terminal.send(signal.SIGKILL)
        assert terminal.ended() == -signal.SIGKILL
    assert stored() == [("best", 1, 2)]
    with label() as terminal:
        terminal.until("1 answered")
        assert texts_of(terminal.waiting()) == texts_of(shown)
        terminal.press("q")
        assert terminal.ended() == 0


def test_lines_name_the_numbers_one_after_the_other_or_at_once():
    lines = ["2", "4", "1 3", "=", "f", "comment why", "3", "3", "4,1", "2", "z", "z", "skip", "q"]
    said = by_lines("\n".join(lines) + "\n").stderr
    assert stored() == [
        *[("best", 2, 4), ("best", 1, 3), ("same", None, None), ("best", 4, 1)],
        *[("undo", None, None), ("skip", None, None)],
    ]
    with open_store("s.db") as store:
        remarked = [*store.collection("sets").judgements()][3]
    assert (remarked.flagged, remarked.comment) == (True, "why")
    parts = ["-- question", "-- 1", "-- 4", "answer with", "2 is the best: which is the worst?"]
    assert sorted(parts, key=said.index) == parts
    assert said.count("-- answer with") == 1


@pytest.mark.parametrize("line", ["5", "0 1", "1 2 3", "1 9", "left", "tie", "best", "x"])
def test_a_line_that_is_no_answer_is_asked_again_in_one_line(line):
    stderr = by_lines(f"{line}\n").stderr
    refused = [said for said in stderr.splitlines() if "; known are " in said]
    assert len(refused) == 1 and f"unknown answer {line!r}" in refused[0]
    assert stored() == []


def test_the_same_item_is_not_the_best_and_the_worst():
    said = by_lines("2 2\n3\n3\n1\n4\n").stderr
    assert said.count("nothing is chosen: name the best, then another item as the worst") == 2
    assert stored() == [("best", 1, 4)]


def test_only_the_best_is_named_where_nobody_asks_for_the_worst():
    with open_store("s.db") as store:
        store.collection("sets").decide(Decision("worst", amount=0))
    said = by_lines("1 2\n3\n4\n", "--number", "2").stderr
    assert "nothing is chosen: name the best\n" in said
    assert stored() == [("best", 3, None), ("best", 4, None)]
