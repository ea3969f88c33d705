"""sortnet label in a terminal: whole sessions by keys, under a pseudo-terminal."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import fault, runner
from click.testing import Result
from collection_helpers import answer_lease, made_items, question
from result_helpers import value_of
from rich.console import Console
from terminal_helpers import Terminal

from cli.main import main
from cli.printing.items import ranking_lines
from cli.terminal.asking import ANSWERED, ELSEWHERE, KEYS, LATE, TOO_LATE, Asking, Reply
from cli.terminal.keys import END, Keys
from cli.terminal.question_view import LONGEST, item_lines, view_question, wrap_lines
from cli.terminal.screen import _HELP, Screen
from sortnet.preference import Judgement
from sortnet.preference.stopping import Standing
from sortnet.preference.study import Decision
from store import open_store
from store.service.item_ranking import ranking_frame
from store.service.labelling import LabellingService

WHICH = "Which is better?"
WORDS = ["apple pie", "brown bread", "carrot cake", "dried dates"]
BIG = 151  # items, of which a fit is felt


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty working folder; the store is s.db in it, with four items that are words."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SORTNET_STORE", "s.db")
    add("words", WORDS)
    return tmp_path


def add(name: str, texts: list[str | None], **changes) -> None:
    with open_store("s.db") as store:
        store.add_items(name, made_items(len(texts), d=0, texts=tuple(texts), **changes))


def label(*args: str, **options) -> Terminal:
    return Terminal("label", *args, **options)


def said(name: str = "words") -> list[str]:
    """Every answer that is stored."""
    with open_store("s.db") as store:
        return [judgement.word for judgement in store.collection(name).judgements()]


def texts_of(screen: str) -> list[str]:
    """The texts that are shown, from left to right."""
    texts = re.findall("|".join(WORDS), screen)
    assert len(texts) == 2
    return texts


@pytest.fixture
def service() -> Iterator[LabellingService]:
    with open_store("s.db") as store:
        yield LabellingService(store.collection("words"))


@contextmanager
def at_a_screen(collection) -> Iterator[tuple]:
    """A screen that is a string, a function that presses its keys, and the service."""
    theirs, ours = os.pipe()
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24)
    console.set_alt_screen(True)
    service = LabellingService(collection)
    service.settle()
    try:
        yield (
            Screen(console, Keys(theirs), service),
            lambda keys: os.write(ours, keys.encode()),
            service,
        )
    finally:
        os.close(theirs)
        os.close(ours)


def invoke_with(lines: str, *args: str) -> Result:
    result = runner().invoke(main, ["label", "words", *args], input=lines)
    assert result.exit_code == 0, result.stderr
    return result


class Front:
    """Somebody who does what the test says."""

    def __init__(self, ask) -> None:
        self._ask, self.notes = ask, []

    def ask(self, lease, status_line, renew):
        return Reply(self._ask(lease, renew), 1000)

    def notify(self, text: str) -> None:
        self.notes.append(text)

    def wants_more(self, why: str) -> bool:
        return False

    def wants_undo(self, why: str) -> bool:
        return False


def test_a_session_by_keys():
    with label("words", "--as", "ana", columns=80) as terminal:
        first = terminal.until(WHICH, "ana   0 answered")
        assert all(len(line) <= 80 for line in first.splitlines())
        two = texts_of(first)
        assert any(two[0] in line and two[1] in line for line in first.splitlines())
        terminal.press("\x1b[D")
        terminal.until("1 answered", "stored: left")
        terminal.press("\x1bOB")
        before = terminal.until("2 answered", "stored: tie")
        terminal.press(" ")
        terminal.until("2 answered", "stored: skip")
        terminal.press("\x7f")
        again = terminal.until("2 answered", "undone")
        assert texts_of(again) == texts_of(before)
        terminal.press("?")
        terminal.until("2 answered", "stored: cant-say")
        terminal.press("q")
        assert terminal.ended() == 0
        assert terminal.is_as_before()
    end = terminal.raw[terminal.raw.rindex(b"\x1b[?1049l") :]
    assert b"ana: 2 answered, 2 in all\r\n" in end
    with open_store("s.db") as store:
        stored = store.collection("words").judgements()
        assert store.collection("words").leases() == []
    assert [j.word for j in stored] == ["left", "tie", "skip", "undo", "cant-say"]
    assert all(0 <= j.milliseconds < 600_000 for j in stored if j.word != "undo")
    assert [WORDS[stored[0].left], WORDS[stored[0].right]] == two


def test_a_killed_session_goes_on_where_it_was():
    with label("words", "--as", "ana") as terminal:
        terminal.until("0 answered")
        terminal.press("1")
        shown = terminal.until("1 answered")
        terminal.send(signal.SIGKILL)
        assert terminal.ended() == -signal.SIGKILL
    assert said() == ["left"]
    with label("words", "--as", "ana") as terminal:
        assert texts_of(terminal.until("1 answered")) == texts_of(shown)
        terminal.press("2")
        terminal.until("2 answered")
        terminal.press("\x04")
        assert terminal.ended() == 0
    assert said() == ["left", "right"]


def test_ctrl_c_quits_and_leaves_the_terminal_as_it_was():
    with label("words", "--as", "ana") as terminal:
        terminal.until("0 answered")
        terminal.send(signal.SIGINT)
        assert terminal.ended() == 0
        assert terminal.is_as_before()
    assert terminal.raw.rindex(b"\x1b[?1049l") > terminal.raw.rindex(b"\x1b[?1049h")
    assert b"interrupted" in terminal.raw


def test_texts_cannot_send_control_sequences_to_the_terminal():
    evil = "\x1b]0;owned\x07 \x1b[31mred \x9b2J \u202egnol\x00 \x08\x08 end"
    add("evil", [evil, f"second\r{evil}"], ids=("\x1b[2Ja", "b"))
    with label("evil", "--as", "ana") as terminal:
        screen = terminal.until(WHICH, "second")
        assert "\ufffd[31mred" in screen and screen.count("end") == 2
        terminal.press("r")
        terminal.until("rank", "\ufffd[2Ja")
        terminal.press("a")
        terminal.until(WHICH)
        terminal.press("q")
        assert terminal.ended() == 0
    text = terminal.raw.decode()
    assert not any(bad in text for bad in ("\x1b]0", "\x07", "\x1b[31m", "\x9b", "\u202e", "\x00"))


def test_a_narrow_terminal_has_one_item_above_the_other_and_may_grow_wide():
    with label("words", "--as", "ana", columns=40, NO_COLOR="1") as terminal:
        screen = terminal.until("0 answered", WHICH)
        lines = screen.splitlines()
        at = [next(k for k, line in enumerate(lines) if text in line) for text in texts_of(screen)]
        assert at[0] < at[1]
        terminal.resize(100, 30)
        two = texts_of(screen)
        wide = re.compile(f"{two[0]}.*{two[1]}|{two[1]}.*{two[0]}")
        terminal.until_so(lambda: wide.search(terminal.shown()) is not None, "wide")
    assert re.search(rb"\x1b\[(\d+;)*[349]\dm", terminal.raw) is None  # no colour was asked for


def test_a_long_text_is_cut_and_a_key_shows_all_of_it():
    add("long", ["\n".join(f"line {k}" for k in range(200)), "short"])
    with label("long", "--as", "ana") as terminal:
        screen = terminal.until(WHICH, "... a: show all", "short")
        assert "line 3" in screen and "line 199" not in screen
        terminal.press("a")
        assert "0 answered" not in terminal.until("-- question", "line 0")
        for _ in range(10):
            terminal.press("\x1b[6~")
            terminal.press("\x1b[A")  # else it would count as held
            terminal.press("\x1b[B")
        terminal.until("line 199")
        terminal.press("1")
        terminal.until("0 answered")
        assert said("long") == []


def test_the_context_is_above_the_pair():
    context = "\n".join(["Which is \x1b[31mbetter?", *(f"line {k}" for k in range(99))])
    items = made_items(2, texts=("first", "second"), groups=("q", "q"), contexts=(context,) * 2)
    pair = view_question(items, question(0, 1), WHICH)
    with open_store("s.db") as store, at_a_screen(store.add_items("g", items)) as (screen, _, _):
        screen._show_question(pair, "0 answered")
        shown = screen._console.file.getvalue()
        whole = [line.plain for line in screen._rows_of_key("a", pair)]
    parts = [
        "0 answered",
        WHICH,
        "Which is \ufffd[31mbetter?",
        "line 1",
        "... a: show all",
        "first",
    ]
    assert sorted(parts, key=shown.index) == parts and "line 9" not in shown
    assert whole[3].startswith("-- context") and "line 98" in whole
    lines = runner().invoke(main, ["label", "g", "--as", "ben"], input="left\n").stderr
    assert lines.index("-- context") < lines.index("line 98") < lines.index("-- left")


def test_help_and_ranking_are_shown_on_demand_and_answer_nothing():
    with label("words", "--as", "ana") as terminal:
        terminal.until("0 answered")
        terminal.press("h")
        terminal.until("undo the last answer", "any key: back")
        terminal.press("1")
        terminal.until(WHICH)
        terminal.press("r")
        screen = terminal.until("rank", "judged")
        assert [line.split()[:2] for line in screen.splitlines()[1:5]] == [
            [str(rank), name] for rank, name in enumerate(re.findall(r"i\d", screen), 1)
        ]
        terminal.press("2")
        terminal.until(WHICH, "0 answered")
    assert said() == []


def test_keys_typed_ahead_and_a_key_held_down_answer_one_question():
    with label("words", "--as", "ana") as terminal:
        terminal.until("0 answered")
        terminal.press("2" * 20)
        terminal.until("1 answered")
        terminal.press("q")
        assert terminal.ended() == 0
    assert said() == ["right"]


@pytest.fixture
def at():
    """A screen for the words, a function that presses its keys, and the service."""
    with open_store("s.db") as store, at_a_screen(store.collection("words")) as found:
        yield found


def test_it_says_that_it_is_enough_and_goes_on_if_one_likes(at):
    screen, press, _ = at
    press("x\n")
    assert screen.wants_more("it is good")
    press("1q")
    assert not screen.wants_more("it is good")
    assert "Enough: it is good." in screen._console.file.getvalue()


@pytest.mark.parametrize("lost", [True, False])
def test_a_lease_is_renewed_also_while_help_or_a_comment_is_open(at, monkeypatch, lost):
    monkeypatch.setattr("cli.terminal.screen.TICK", 0.01)
    screen, press, service = at
    service.lease_seconds = 0.0  # so that it looks at once
    lease = service.collection.lease("ana", service.session.ask("ana"), 60)[0]
    steps = iter(["h", "", "", "xc", "", "", "\r", "1"])

    def still() -> bool:
        press("" if lost else next(steps, ""))
        return not lost

    reply = screen.ask(lease, "", still)
    assert reply == Reply(LATE) if lost else (reply.outcome, [*steps]) == ("left", [])


def test_the_ranking_of_images_names_no_file_to_an_annotator():
    with open_store("s.db") as store:
        names = ("best.png", "worst.png", None)
        items = made_items(
            3, images=names, ids=("best", "worst", "t"), texts=(None, "One.", "Two.")
        )
        with at_a_screen(store.add_items("pictures", items)) as (screen, _, service):
            shown = "\n".join(row.plain for row in screen._rows_of_key("r", None))
            assert "best" not in shown and "worst" not in shown
            assert "image" in shown and "One." in shown and "Two." in shown
            frame = ranking_frame(service.ranking, service.items)
            assert "best.png" in "\n".join(ranking_lines(frame, service.items, 80))


def test_who_wants_to_go_on_behind_the_goal_is_told_once(service):
    asked, reasons = [], []

    def ask(lease, still):
        asked.append(lease.id)
        return "left"

    front = Front(ask)
    service.settle()
    front.wants_more = lambda why: reasons.append(why) or len(reasons) < 9
    reached = replace(service.remaining, standing=Standing.REACHED)
    service.keep_fitted = lambda wait: setattr(service, "remaining", reached)
    Asking(service, "ana").run(front, 3)
    assert (len(asked), len(reasons)) == (3, 1)
    front.wants_more = lambda why: False
    service.remaining = replace(service.remaining, standing=Standing.ASKING)
    Asking(service, "ana").run(front, 3)
    assert len(asked) == 4


@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_answer_too_late_or_given_elsewhere_too_does_not_count_and_says_so(service, elsewhere):
    def ask(lease, still):
        assert still()
        if elsewhere:
            answer_lease(service.collection, lease, "ana")
            return "left"
        service.collection.release("ana")
        assert not still()
        return "left"

    front, asking = Front(ask), Asking(service, "ana")
    expected = (ELSEWHERE, ANSWERED) if elsewhere else (LATE, TOO_LATE)
    assert asking.ask(front, service.next("ana")[0]) == expected[0]
    assert front.notes == [expected[1]] and asking.answered == 0
    assert said() == ["left"] * elsewhere


def test_a_big_problem_is_fitted_while_the_answers_go_on(monkeypatch):
    many = made_items(BIG, d=0)
    with open_store("s.db") as store:
        service = LabellingService(store.add_items("many", many))
        service.settle()
        may, fit = threading.Event(), service.session.refit
        monkeypatch.setattr(service.session, "refit", lambda **how: (may.wait(600), fit(**how)))
        for _ in range(3):
            answer_lease(service, service.next("ana")[0], "ana")
            service.keep_fitted()
        assert service.ranking.judgements.sum() == 0
        may.set()
        service._fitting.join()
        assert service.ranking.judgements.sum() > 0
        service.settle()
        assert service.ranking.judgements.sum() == 6 and service.fault == ""


def test_nobody_waits_for_the_first_fit_of_a_big_problem(monkeypatch):
    with open_store("s.db") as store:
        service = LabellingService(store.add_items("many", made_items(BIG, d=0)))
        service.collection.append([Judgement.of("bo", (0, 1), "left")])
        service.sync()
        may, fit = threading.Event(), service.session.refit
        monkeypatch.setattr(service.session, "refit", lambda **how: (may.wait(600), fit(**how)))
        service.keep_fitted()
        asking = Asking(service, "ana")
        assert asking._status_line() == "many   ana   0 answered   fitting the answers"
        may.set()
        service._fitting.join()
        assert "learning" not in asking._status_line() and " left" in asking._status_line()


def test_a_fault_of_the_fitting_is_told_and_nothing_is_lost(monkeypatch):
    with open_store("s.db") as store:
        service = LabellingService(store.add_items("many", made_items(BIG, d=0)))
        service.settle()
        asking = Asking(service, "ana")
        monkeypatch.setattr(service.session, "refit", lambda **how: 1 / 0)
        asking.ask(Front(lambda lease, renew: "left"), service.next("ana")[0])
        service.keep_fitted()
        service._fitting.join()
        assert "ZeroDivisionError" in asking._status_line()
    assert said("many") == ["left"]


def test_items_are_shown_by_what_they_have():
    bare = made_items(2, d=2, texts=(None, None), features=np.array([[1.5, np.nan], [0, 1e9]]))
    assert item_lines(bare, 0, 1) == ["i0", "", "f0  1.5", "f1  -"]
    seen = made_items(1, texts=("a\tb\nc",), images=("x/y.png",), audio=("z.wav",), root=Path("/r"))
    media = ["image 2 of the pair (sortnet serve shows it)"]
    media += ["sound 2 of the pair (sortnet serve plays it)"]
    assert item_lines(seen, 0, 2) == [*media, "", "a   b", "c"]
    shown = made_items(2, d=1, texts=("a", None), shown=({"price": "1\n2"}, {"x": "\x1b[2J"}))
    assert item_lines(shown, 0, 1) == ["a", "", "price: 1", "2"]
    assert item_lines(shown, 1, 2) == ["x: \ufffd[2J"]
    wide = made_items(1, d=30, texts=(None,))
    assert len(item_lines(wide, 0, 1)) == 23 and item_lines(wide, 0, 1)[-1] == "... 10 more"
    huge = made_items(1, texts=("x" * 10_000_000,))
    shown = item_lines(huge, 0, 1)
    assert [len(shown[0]), shown[1]] == [LONGEST, "... 9,800,000 characters more"]


def test_lines_are_wrapped_by_the_cells_they_take():
    console = Console(width=80)
    rows = wrap_lines(console, ["漢字" * 10, "", "one two three"], 8, 100)
    assert [row.plain.rstrip() for row in rows] == [
        *["漢字漢字"] * 5, "", "one two", "three"
    ]  # fmt: skip
    assert len(wrap_lines(console, ["x" * 10**6], 8, 5)) == 5


def test_keys_without_a_name_are_none():
    reading, writing = os.pipe()
    os.write(writing, b"\x1a\x1b[D\x1bOC\x1b[1;5A\x00\x15Z\x1b")
    os.close(writing)
    keys = Keys(reading)
    assert [*iter(lambda: keys.read(0), END)] == ["z", "left", "right", "z", "escape"]
    os.close(reading)


def test_lines_of_stdin_are_answers():
    result = invoke_with("left\nup\n\x1b[2J\ntie\nundo\nskip\ncant-say\n", "--as", "ana", "--json")
    (summary,) = value_of(result.stdout)
    assert (summary["answered"], summary["in_all"], summary["enough"]) == (1, 1, False)
    assert "unknown answer 'up'; known are left (1), right (2), tie (0), skip, " in result.stderr
    assert "\x1b" not in result.stderr
    assert said() == ["left", "tie", "undo", "skip", "cant-say"]


def test_lines_may_be_any_key_of_the_screen_and_are_told_once():
    pressed = ("1", "z", "left", "backspace", "2", "right", "0", "down", "space", "?")
    assert {*KEYS} == {*pressed, "q", END}
    result = invoke_with("\n".join(pressed) + "\n", "--as", "ana")
    told = "-- answer with left (1), right (2), tie (0), skip, cant-say (?), undo (z), quit (q), "
    assert result.stderr.count(told) == 1
    assert "unknown answer" not in result.stderr
    assert said() == [KEYS[key] for key in pressed]
    assert invoke_with("q\nleft\n", "--as", "ben").stdout.startswith("ben: 0 answered")
    assert invoke_with("1\n" * 6 + "z\n", "--as", "cy").stdout.startswith("cy: 5")
    two = invoke_with("1\n" * 6, "--as", "di", "--number", "2").stdout
    assert two.startswith("di: 2 answered, 2 in all")


def test_help_tells_every_key_and_the_bar_fits_every_width(at):
    first = {line.split()[0].rstrip(",") for line in _HELP.splitlines()[2:] if line}
    assert first == {"1", "2", "0", "space", "?", "z", "c", "f", "a", "r", "h", "q"}
    assert {KEYS.get(key) for key in first} >= {*KEYS.values()}
    screen, _, _ = at
    for width in (200, 80, 40, 24):
        screen._console.size = (width, 24)
        rows = screen._bar(is_cut=True)
        assert max(map(len, rows)) <= width and (width < 80 or len(rows) == 2)
        assert " ".join(" ".join(rows).split()) == (
            "1 ← left 2 → right 0 ↓ tie space skip ? can't say "
            "z undo r ranking a show all c comment f flag h help q quit"
        )


def test_a_narrow_page_tells_how_to_scroll_and_how_to_close_it():
    with label("words", "--as", "ana", columns=36, rows=16) as terminal:
        terminal.until("0 answered", "q quit")
        terminal.press("h")
        terminal.until("Each of these", "PgDn: scroll", "any other key: back")
        terminal.press("\x1b[6~")
        terminal.until("resumes here", "any other key: back")


def test_lines_end_when_every_pair_was_asked_and_nothing_is_held_back():
    result = invoke_with("right\n" * 20, "--as", "ana")
    first, status = result.stdout.splitlines()
    assert first == "ana: 6 answered, 6 in all; all pairs were asked"
    assert "more annotators are needed" in status
    assert invoke_with("undo\nquit\n", "--as", "bo").stderr.count("there is nothing to undo") == 1


def test_the_last_answer_to_the_last_pair_can_be_taken_back():
    lines = "right\n" * 6 + "undo\nleft\nno\nleft\n"
    result = invoke_with(lines, "--as", "ana")
    first, status = result.stdout.splitlines()
    assert first == "ana: 6 answered, 6 in all; all pairs were asked"
    assert "more annotators are needed" in status
    assert "all pairs were asked; undo (z) withdraws the last answer" in result.stderr
    assert said() == ["right"] * 6 + ["undo", "left"]
    assert "undo (z) withdraws" not in invoke_with("undo\n", "--as", "ana").stderr, (
        "nothing was answered"
    )


def test_on_a_screen_one_key_takes_the_last_answer_back():
    add("two", ["apple pie", "brown bread"])
    with label("two", "--as", "ana") as terminal:
        terminal.until(WHICH)
        terminal.press("1")
        terminal.until("That was all: all pairs were asked.", "z: undo the last answer")
        terminal.press("z")
        terminal.until(WHICH, "0 answered")
        terminal.press("2")
        terminal.until("That was all")
        terminal.press("q")
        assert terminal.ended() == 0
    assert said("two") == ["left", "undo", "right"]


def test_who_answers_is_by_default_who_is_logged_in(monkeypatch):
    monkeypatch.setenv("LOGNAME", "carla")
    assert invoke_with("left\n").stdout.startswith("carla: 1 answered")


def test_what_cannot_be_is_one_line():
    assert "no collection 'wrods'" in fault("label", "wrods")
    assert "annotator 'a\\nb'" in fault("label", "words", "--as", "a\nb")
    assert "has no item 'i9'" in fault("label", "words", "--as", "ana", "--place", "i9")
    assert "--place is for people" in fault("label", "words", "--place", "i1", "--judge", "x")
    with open_store("s.db") as store:
        store.add_items("one", made_items(1))
    assert "there must be two" in fault("label", "one")


ASKED = "Which dish is \x1b[31mhotter?"
TOLD = (
    "# How to judge\n\nTaste **both**, see [the rules](https://x.org). &#x202e;\n" + "- one\n" * 40
)


def decide(*decisions: Decision) -> None:
    with open_store("s.db") as store:
        store.collection("words").decide(*decisions)


def test_the_question_the_instructions_a_comment_and_a_flag():
    decide(Decision("question", reason=ASKED), Decision("instructions", reason=TOLD))
    with label("words", "--as", "ana") as terminal:
        screen = terminal.until("How to judge", "Taste both", "any other key: go on")
        assert "Which dish is \ufffd[31mhotter?" in screen and "\u202e" not in screen
        assert "the rules (https://x.org)" in screen, "nobody is sent to an address unseen"
        terminal.press("x")
        screen = terminal.until("0 answered", "\ufffd[31mhotter?", "c comment")
        assert screen.index("hotter?") < screen.index(texts_of(screen)[0]) and WHICH not in screen
        terminal.press("f")
        terminal.until("flagged")
        terminal.press("c")
        terminal.until("comment (Enter")
        terminal.press("Too ALL alike!\x1b[A?\x7f\n")
        terminal.until("flagged   comment: Too ALL alike!")
        terminal.press("f")  # between two c: a key that comes again at once is held down
        terminal.until_so(lambda: "flagged" not in terminal.shown(), "no flag")
        terminal.press("c")
        terminal.until("alike!_")
        terminal.press("more\x1b")
        terminal.until("comment: Too ALL alike!", "h help")
        terminal.press("f")
        terminal.until("flagged   comment: Too ALL alike!")
        terminal.press("1")
        assert "alike" not in terminal.until("1 answered", "stored: left")
        terminal.press("h")
        terminal.until("undo the last answer", "any other key: back")
        terminal.press(" ")
        terminal.until("How to judge")
        terminal.press("x")
        terminal.until("1 answered", "hotter?")
        terminal.press("2")
        terminal.until("2 answered")
        decide(Decision("instructions", reason="Only the look."))
        terminal.press("1")
        terminal.until("Only the look.", "any key: go on")
        terminal.press("x")
        terminal.until("3 answered")
        terminal.press("q")
        assert terminal.ended() == 0
    with open_store("s.db") as store:
        stored = store.collection("words").judgements()
    assert [(j.comment, j.flagged) for j in stored] == [
        *[("Too ALL alike!", True)], *[(None, None)] * 2
    ]  # fmt: skip


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
    with open_store("s.db") as store:
        stored = store.collection("words").judgements()
    facts = [(j.word, j.comment, j.flagged) for j in stored]
    assert facts == [
        ("left", "too\ufffd[2J alike", True), ("right", None, None), ("undo", None, None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("left", "standing", "told"),
    [
        ((63, 142), Standing.ASKING, "60 to 150 left"),
        ((None, None), Standing.UNCHECKED, "a few left to check"),
        ((0, 0), Standing.REACHED, "goal is reached"),
    ],
)
def test_a_range_of_the_questions_left_is_shown_and_never_0(service, left, standing, told):
    service.settle()
    fewest, most = left
    service.remaining = replace(service.remaining, fewest=fewest, most=most, standing=standing)
    line = Asking(service, "ana")._status_line()
    assert told in line and "0 left" not in line.replace("150 left", "")
