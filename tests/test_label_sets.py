"""Questions about more than two items in the terminal: by keys on its screen, and by lines."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from cli_helpers import runner
from click.testing import Result
from collection_helpers import made_items, sets_of
from rich.console import Console
from terminal_helpers import Terminal

from cli.main import main
from cli.terminal.asking import Reply
from cli.terminal.question_view import QuestionView, draw_items
from cli.terminal.set_choice import SetChoice
from sortnet.preference.study import Decision
from store import open_store

WHICH = "Which is better?"
WORDS = [f"{word} {k}" for k, word in enumerate(("apple", "bread", "cake", "dates") * 3)]
BEST = "which is the best?"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working folder; the store is s.db in it, with a collection asked about fours."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    with open_store("s.db") as store:
        sets_of(store, made_items(len(WORDS), d=1, texts=tuple(WORDS)))
    return tmp_path


def label(**options) -> Terminal:
    return Terminal("label", "sets", "--as", "ana", **options)


def stored() -> list[tuple[object, ...]]:
    """Answer and the numbers, from 1, of the best and the worst, of every judgement."""
    with open_store("s.db") as store:
        judgements = [*store.collection("sets").judgements()]
    return [
        (one.word, *(None if item is None else one.items.index(item) + 1 for item in chosen))
        for one in judgements
        for chosen in [(one.best, one.worst)]
    ]


def texts_of(screen: str) -> list[str]:
    """The four texts that are shown."""
    texts = re.findall(r"(?:apple|bread|cake|dates) \d+", screen)
    assert len(texts) == 4
    return texts


def by_lines(lines: str, *args: str) -> Result:
    result = runner().invoke(main, ["label", "sets", "--as", "ana", *args], input=lines)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.mark.parametrize("columns", [80, 40])
def test_a_session_by_keys(columns):
    with label(columns=columns, rows=30) as terminal:
        first = terminal.until(WHICH, "0 answered", BEST)
        assert all(len(line) <= columns for line in first.splitlines())
        shown = texts_of(first)
        terminal.press("2")
        terminal.until("2 is the best: which is the worst", "2 best")
        terminal.press("=")  # not all the same, as one is the best
        terminal.press("2")
        terminal.until(BEST)
        terminal.press("3")
        terminal.until("3 is the best")
        terminal.press("u")
        terminal.until(BEST)
        assert stored() == []
        terminal.press("4")
        terminal.until("4 is the best")
        terminal.press("1")
        second = terminal.until("1 answered", "stored: best 4, worst 1", BEST)
        assert texts_of(second) != shown
        terminal.press("=")
        terminal.until("2 answered", "stored: same")
        terminal.press("s")
        terminal.until("2 answered", "stored: skip")
        terminal.press("u")
        terminal.until("2 answered", "undone")
        terminal.press("z")  # another key, or it could count as held down
        again = terminal.until("1 answered", "undone")
        assert texts_of(again) == texts_of(second)
        terminal.press("5")  # there is no such item
        terminal.press("h")
        terminal.until("all are the")
        terminal.press("x")
        terminal.until(BEST)
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_as_before()
    answers = [("best", 4, 1), ("same", None, None), ("skip", None, None)]
    assert stored() == [*answers, ("undo", None, None), ("undo", None, None)]
    with open_store("s.db") as store:
        (first_answer, *_) = store.collection("sets").judgements()
    assert [WORDS[item] for item in first_answer.items] == shown
    assert 0 <= first_answer.milliseconds < 600_000


def test_a_kill_between_the_best_and_the_worst_loses_no_answer():
    with label() as terminal:
        terminal.until("0 answered", BEST)
        terminal.press("1")
        terminal.until("1 is the best")
        terminal.press("2")
        shown = terminal.until("1 answered", BEST)
        terminal.press("3")
        terminal.until("3 is the best")
        terminal.send(signal.SIGKILL)
        assert terminal.ended() == -signal.SIGKILL
    assert stored() == [("best", 1, 2)]
    with label() as terminal:
        assert texts_of(terminal.until("1 answered", BEST)) == texts_of(shown)
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


@pytest.mark.parametrize("line", ["5", "0 1", "2 2", "1 2 3", "1 9", "left", "tie", "best", "x"])
def test_a_line_that_is_no_answer_is_asked_again_in_one_line(line):
    stderr = by_lines(f"{line}\n").stderr
    refused = [said for said in stderr.splitlines() if "; known are " in said]
    if line == "0 1":
        assert "unknown answer '0 1'" in refused[0]
    assert len(refused) == 1
    assert stored() == []


def test_only_the_best_is_named_where_nobody_asks_for_the_worst():
    with open_store("s.db") as store:
        store.collection("sets").decide(Decision("worst", amount=0))
    said = by_lines("1 2\n3\n4\n", "--number", "2").stderr
    assert "only the best is asked for" in said
    assert stored() == [("best", 3, None), ("best", 4, None)]


def test_a_choice_is_complete_with_two_places_and_the_best_again_takes_it_back():
    for first in range(6):
        for second in range(6):
            choice = SetChoice(6, is_worst_asked=True)
            assert choice.choose(first) is None and choice.best == first
            reply = choice.choose(second)
            expected = None if first == second else Reply("best", best=first, worst=second)
            assert reply == expected and choice.best is None


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
@pytest.mark.parametrize(("width", "height"), [(120, 20), (80, 9), (79, 40), (40, 12), (20, 4)])
def test_items_fit_into_the_lines_that_there_are_for_them(n, width, height):
    console = Console(width=width, height=height, force_terminal=False)
    pair = QuestionView(["q"], [], [[f"item{k} of many words " * 9] for k in range(n)])
    drawn, cut = draw_items(console, pair, height, 1)
    rows = console.render_lines(drawn, pad=False)
    assert len(rows) <= max(height, n)
    text = "\n".join("".join(part.text for part in row) for row in rows)
    assert all(f"item{k}" in text or cut for k in range(n))
    assert ("2 best" in text) == (n > 2)
    assert cut or all(text.count(f"item{k}") == 9 for k in range(n))
