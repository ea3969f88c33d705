"""sortnet label by a person: whole sessions by keys, under a pseudo-terminal, and by lines."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import fault, invoke
from click.testing import Result
from collection_helpers import answer_lease, made_items
from result_helpers import value_of
from terminal_helpers import Terminal

from cli.terminal.asking import ANSWERED, ELSEWHERE, LATE, TOO_LATE, Asking
from cli.terminal.front import MORE, QUIT, UNDO, item_text
from sortnet.preference import Judgement
from sortnet.preference.stopping import Standing
from sortnet.preference.study import Decision
from store import open_store
from store.service.labelling import LabellingService

WHICH = "Which is better?"
WORDS = ["apple pie", "brown bread", "carrot cake", "dried dates"]
BIG = 151  # items, of which a fit is felt


@pytest.fixture(autouse=True)
def folder(here) -> None:
    """An empty working folder; the store is s.db in it, with four items that are words."""

    add("words", WORDS)


def add(name: str, texts: list[str | None], **changes) -> None:
    with open_store("s.db") as store:
        store.add_items(name, made_items(len(texts), d=0, texts=tuple(texts), **changes))


def label(*args: str, **options) -> Terminal:
    return Terminal("label", *args, **options)


def stored(name: str = "words") -> list[Judgement]:
    """Every judgement that is stored; no question may be on loan any more."""
    with open_store("s.db") as store:
        assert store.collection(name).leases() == []
        return [*store.collection(name).judgements()]


def said() -> list[str]:
    return [judgement.word for judgement in stored()]


def texts_of(screen: str) -> list[str]:
    """The texts of the question that was shown last, from left to right."""
    return re.findall("|".join(WORDS), screen)[-2:]


@pytest.fixture
def service() -> Iterator[LabellingService]:
    with open_store("s.db") as store:
        yield LabellingService(store.collection("words"))


def invoke_with(lines: str, *args: str) -> Result:
    result = invoke("label", "words", *args, lines=lines)
    assert result.exit_code == 0, result.stderr
    return result


class AlwaysLeft:
    """Somebody who answers every question with left; `before` is called before each answer."""

    def __init__(self, before=lambda question: None) -> None:
        self._before, self.notes, self.replies = before, [], []

    def ask(self, question, annotator, status_line):
        self._before(question)
        return question.answered(annotator, "left")

    def notify(self, text: str) -> None:
        self.notes.append(text)

    def confirm(self, text: str, *expected: str) -> str:
        self.notes.append(text)
        return self.replies.pop(0) if self.replies else QUIT


def test_a_session_by_keys():
    with label("words", "--as", "ana", columns=80, PAGER="cat", MANPAGER="cat") as terminal:
        screen = terminal.until(WHICH, "ana   0 answered", "h help")
        assert all(len(line) <= 80 for line in screen.splitlines())
        two = texts_of(screen)
        assert any(two[0] in line and two[1] in line for line in screen.splitlines())
        terminal.press("\x1b[D")
        terminal.until("1 answered", "stored: left")
        terminal.press("\x1bOB")
        terminal.until("2 answered", "stored: tie")
        before = terminal.waiting()
        terminal.press(" ")
        terminal.until("stored: skip")
        terminal.press("\x7f")
        terminal.until("2 answered", "undone")
        assert texts_of(terminal.waiting()) == texts_of(before)
        terminal.press("\x1b[1;5A")
        terminal.until("unknown answer")
        terminal.press("h")
        terminal.until("h                   this help", "any key: continue")
        terminal.press("x")
        terminal.press("r")
        terminal.until("rank", "judged", "any key: continue")
        terminal.press("x")
        terminal.press("2" * 20)  # keys typed ahead, or held down
        terminal.until("3 answered", "stored: right")
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_as_before()
    assert terminal.shown().splitlines()[-2] == "ana: 3 answered, 3 in all"
    assert said() == ["left", "tie", "skip", "undo", "right"]
    first, *_ = stored()
    assert 0 <= first.milliseconds < 600_000
    assert [WORDS[first.left], WORDS[first.right]] == two


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGINT", "SIGTERM", "SIGHUP", "Ctrl-C in a comment"])
@pytest.mark.usefixtures("hangups")
def test_an_interrupt_ends_the_session_and_leaves_the_terminal_as_it_was(how):
    with label("words", "--as", "ana") as terminal:
        terminal.until("0 answered")
        terminal.press("1")
        terminal.until("1 answered", "stored")
        if how.startswith("SIG"):
            terminal.send(signal.Signals[how])
        elif how == "Ctrl-C":
            terminal.press("\x03")
        else:
            terminal.press("c")
            terminal.until("comment (")
            terminal.send(signal.SIGINT)
        assert terminal.ended() == 0
        assert terminal.is_as_before()
    assert b"interrupted" in terminal.raw
    assert said() == ["left"]


def test_texts_cannot_send_control_sequences_to_the_terminal():
    evil = "\x1b]0;owned\x07 \x1b[31mred \x9b2J \u202egnol\x00 \x08\x08 [bold]end"
    add("evil", [evil, f"second\r{evil}"], ids=("\x1b[2Ja", "b"))
    with label("evil", "--as", "ana") as terminal:
        screen = terminal.until(WHICH, "second", "h help")
        assert "\ufffd[31mred" in screen and screen.count("[bold]end") == 2
        terminal.press("r")
        terminal.until("rank", "\ufffd[2Ja", "any key")
        terminal.press("x")
        terminal.press("a")
        terminal.until("-- left")
        terminal.press("x")
        terminal.press("q")
        assert terminal.ended() == 0
    text = terminal.raw.decode()
    assert not any(bad in text for bad in ("\x1b]0", "\x07", "\x1b[31m", "\x9b", "\u202e", "\x00"))


def test_who_wants_to_go_on_behind_the_goal_is_told_once(service):
    service.settle()
    reached = replace(service.remaining, standing=Standing.REACHED)
    service.keep_fitted = lambda wait: setattr(service, "remaining", reached)
    front, asking = AlwaysLeft(), Asking(service, "ana")
    front.replies = [MORE]
    asking.run(front, 3)
    assert asking.n_new == 3 and sum(note.startswith("enough: ") for note in front.notes) == 1
    for replies, n_stored in (([], 1), ([UNDO], 3)):  # an undone answer is given again
        front.replies = replies
        service.remaining = replace(service.remaining, standing=Standing.ASKING)
        asking, n_before = Asking(service, "ana"), service.collection.n_judgements
        asking.run(front, 3)
        assert asking.n_new == 1
        assert service.collection.n_judgements == n_before + n_stored


@pytest.mark.parametrize("what", ["answered elsewhere", "release", "exclude", "pause"])
def test_an_answer_too_late_or_given_elsewhere_too_does_not_count_and_says_so(service, what):
    def before(question):
        if what == "answered elsewhere":
            answer_lease(service.collection, lease, "ana")
        elif what == "release":
            service.collection.release("ana")
        else:
            service.collection.decide(Decision(what, "ana"))

    front, asking = AlwaysLeft(before), Asking(service, "ana")
    (lease,) = service.next("ana")
    elsewhere = what == "answered elsewhere"
    expected = (ELSEWHERE, ANSWERED) if elsewhere else (LATE, TOO_LATE)
    assert asking.ask(front, lease) == expected[0]
    assert front.notes == [expected[1]] and asking.n_new == 0
    words = [judgement.word for judgement in service.collection.judgements()]
    assert words == ["left"] * elsewhere


def test_a_fault_of_the_fitting_is_told_and_nothing_is_lost(monkeypatch):
    with open_store("s.db") as store:
        service = LabellingService(store.add_items("many", made_items(BIG, d=0)))
        service.settle()
        asking = Asking(service, "ana")
        monkeypatch.setattr(service.session, "refit", lambda **how: 1 / 0)
        asking.ask(AlwaysLeft(), service.next("ana")[0])
        service.keep_fitted()
        service._fitting.join()
        assert "ZeroDivisionError" in asking._status_line()
    assert len(stored("many")) == 1


def test_items_are_shown_by_what_they_have():
    bare = made_items(2, d=2, texts=(None, None), features=np.array([[1.5, np.nan], [0, 1e9]]))
    assert item_text(bare, 0, 1) == "i0\n\nf0: 1.5\nf1: nan"
    seen = made_items(1, texts=("a\tb\nc",), images=("x/y.png",), audio=("z.wav",), root=Path("/r"))
    media = "image 2 (sortnet serve shows it)\nsound 2 (sortnet serve plays it)"
    assert item_text(seen, 0, 2) == f"{media}\n\na   b\nc"
    shown = made_items(2, d=1, texts=("a", None), shown=({"price": "1\n2"}, {"x": "\x1b[2J"}))
    assert item_text(shown, 0, 1) == "a\n\nprice: 1\n2"
    assert item_text(shown, 1, 2) == "x: \ufffd[2J"
    wide = item_text(made_items(1, d=30, texts=(None,)), 0, 1)
    assert len(wide.splitlines()) == 23 and wide.endswith("\n... 10 more")


def test_lines_of_stdin_are_answers_or_keys_of_the_screen():
    lines = "left\nup\n\x1b[2J\n0\nundo\nskip\n?\nz\nspace\n"
    result = invoke_with(lines, "--as", "ana", "--json")
    (summary,) = value_of(result.stdout)
    assert (summary["answered"], summary["in_all"], summary["enough"]) == (1, 1, False)
    told = "left (1), right (2), tie (0), skip (s), cant-say (?), undo (z), quit (q), flag (f), "
    assert result.stderr.count(f"-- answer with {told}") == 1
    assert f"unknown answer 'up'; known are {told}" in result.stderr
    assert "\x1b" not in result.stderr
    assert said() == ["left", "tie", "undo", "skip", "cant-say", "undo", "skip"]
    assert invoke_with("q\nleft\n", "--as", "ben").stdout.startswith("ben: 0 answered")
    two = invoke_with("1\n" * 6, "--as", "di", "--number", "2").stdout
    assert two.startswith("di: 2 answered, 2 in all")


def test_what_cannot_be_is_one_line():
    assert "no collection 'wrods'" in fault("label", "wrods")
    assert "annotator 'a\\nb'" in fault("label", "words", "--as", "a\nb")
    assert "has no item 'i9'" in fault("label", "words", "--as", "ana", "--place", "i9")


ASKED = "Which dish is \x1b[31mhotter?"
TOLD = (
    "# How to judge\n\nTaste **both**, see [the rules](https://x.org). A&B &#x202e;\n"
    + "- one\n" * 8
)


def decide(*decisions: Decision) -> None:
    with open_store("s.db") as store:
        store.collection("words").decide(*decisions)


def test_the_question_the_instructions_a_comment_and_a_flag():
    decide(Decision("question", reason=ASKED), Decision("instructions", reason=TOLD))
    with label("words", "--as", "ana", rows=60, PAGER="cat", MANPAGER="cat") as terminal:
        screen = terminal.until("How to judge", "Taste both", "any key: continue")
        assert "Which dish is \ufffd[31mhotter?" in screen and "\u202e" not in screen
        assert "the rules (https://x.org)" in screen, "nobody is sent to an address unseen"
        terminal.press("x")
        terminal.until("0 answered", "\ufffd[31mhotter?", "c comment")
        terminal.press("c")
        terminal.until("comment (")
        terminal.type("Too ALL alike!")
        terminal.press("f")
        terminal.until("flagged")
        terminal.press("1")
        terminal.until("1 answered", "stored: left")
        decide(Decision("instructions", reason="Only the look.\n\n" + "Look again.\n\n" * 50))
        terminal.press("2")
        terminal.until_so(lambda: b"Only the look." in terminal.raw, "the pager")
        terminal.until("2 answered")
        terminal.press("q")
        assert terminal.ended() == 0
    facts = [(j.comment, j.flagged, j.milliseconds is None) for j in stored()]
    assert facts == [("Too ALL alike!", True, True), (None, None, False)]


def test_lines_may_comment_and_flag_before_an_answer():
    decide(Decision("question", reason="Hotter?"), Decision("instructions", reason="Taste."))
    long = "comment " + "x" * 1_000_000
    lines = (
        f"comment  too\x1b[2J alike\nflag\nleft\n{long}\nflag\nflag\nright\ncomment gone\nundo\n"
    )
    said = invoke_with(lines, "--as", "ana").stderr
    assert said.count("-- instructions\nTaste.\n") == 1 and said.count("-- question\nHotter?") == 4
    assert said.count("the comment is too long and not kept: 2,000 characters") == 1
    assert "unknown answer" not in said
    facts = [(j.word, j.comment, j.flagged) for j in stored()]
    assert facts == [
        ("left", "too\ufffd[2J alike", True), ("right", None, None), ("undo", None, None)
    ]  # fmt: skip


def test_the_last_answer_to_the_last_pair_can_be_taken_back():
    result = invoke_with("right\n" * 6 + "undo\nleft\nquit\nleft\n", "--as", "ana")
    first, status = result.stdout.splitlines()
    assert first == "ana: 6 answered, 6 in all; all pairs were asked"
    assert "more annotators are needed" in status
    assert "all pairs were asked; undo (z) withdraws the last answer" in result.stderr
    assert said() == ["right"] * 6 + ["undo", "left"]
    assert "undo (z) withdraws" not in invoke_with("undo\n", "--as", "ana").stderr, (
        "nothing was answered"
    )
    assert invoke_with("undo\nquit\n", "--as", "bo").stderr.count("there is nothing to undo") == 1
