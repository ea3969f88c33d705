"""Answers as lines, for scripts and input without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

from cli.console import say
from cli.terminal.asking import KEYS, QUIT, SET_KEYS, UNDO, Reply
from cli.terminal.pair_view import Pair, pair_of, text_lines
from cli.terminal.set_choice import SetChoice, choice_among
from sortnet.judges.verdicts import REPLIES
from sortnet.messages import printable
from sortnet.preference.base import LONGEST_COMMENT
from store import Lease
from store.service.labelling import LabellingService

_LONGEST = 10_000  # maximum bytes of a line
_COMMENT, _FLAG = "comment ", "flag"  # lines before an answer
# An answer, or its key of the screen if that can be typed.
_SHORT = {said: next(key for key in KEYS if KEYS[key] == said) for said in (*REPLIES, UNDO, QUIT)}
_SET_SHORT = {
    said: next(key for key in SET_KEYS if SET_KEYS[key] == said)
    for said in ("same", "skip", "cant-say", UNDO, QUIT)
}


def _in_words(short: Mapping[str, str]) -> str:
    """Answers with their keys, and what else a line may be."""
    words = [f"{said} ({key})" if len(key) == 1 else said for said, key in short.items()]
    return ", ".join([*words, f"{_FLAG} (f)", "comment TEXT"])


_KNOWN = _in_words(_SHORT)


class Lines:
    """Questions on stderr, answers from stdin."""

    def __init__(self, service: LabellingService) -> None:
        self._service, self._instructions = service, ""
        self._told = ""  # the answers that were explained last

    def ask(self, lease: Lease, standing: str, still: Callable[[], bool]) -> Reply:
        """See `cli.terminal.asking.Front`."""
        say(standing)
        study = self._service.study
        pair = pair_of(self._service.items, lease.question, study.question)
        if study.instructions != self._instructions:
            _say_all("instructions", text_lines(study.instructions))
            self._instructions = study.instructions
        choice = choice_among(len(pair.items), is_worst_asked=study.worst)
        _say_question(pair)
        known = _known(choice, study.worst)
        if self._told != known:
            say(f"-- answer with {known}")
            self._told = known
        started = time.monotonic()
        comment, flagged = "", False
        while read := _line():
            line = printable(read.decode("utf-8", "replace").strip())
            reply = _reply_of(line, choice)
            if isinstance(reply, Reply):
                return reply.after(started, comment, flagged)
            if line in (_FLAG, "f"):
                flagged = not flagged
            elif line.startswith(_COMMENT) and len(line) <= len(_COMMENT) + LONGEST_COMMENT:
                comment = line.removeprefix(_COMMENT).strip()
            elif line.startswith(_COMMENT):
                say(f"the comment is too long and not kept: {LONGEST_COMMENT:,} characters at most")
            elif reply:
                say(f"{reply}; known are {known}")
            else:
                assert choice is not None
                say(choice.asked)
        return Reply(QUIT)

    def notify(self, text: str) -> None:
        say(text)

    def enough(self, why: str) -> bool:
        say(f"enough: {why}")
        return False

    def over(self, why: str) -> bool:
        say(f"{why}; undo (z) withdraws the last answer, anything else quits")
        line = _line().decode("utf-8", "replace").strip()
        return KEYS.get(line, line) == UNDO


def _known(choice: SetChoice | None, is_worst_asked: bool) -> str:
    """The answers to a question, in words."""
    if choice is None:
        return _KNOWN
    best = "the number of the best, then of the worst, or both (2 4)"
    if not is_worst_asked:
        best = "the number of the best"
    return f"{best}, {_in_words(_SET_SHORT)}"


def _reply_of(line: str, choice: SetChoice | None) -> Reply | str | None:
    """The answer of a line; why it is none; None if the worst item is still to be named."""
    if choice is None:
        answer = KEYS.get(line, line)
        return Reply(answer) if answer in _SHORT else f"unknown answer {line[:40]!r}"
    answer = SET_KEYS.get(line, line)
    if answer not in _SET_SHORT:
        return choice.choose_by_line(line)
    if choice.best is None or answer == QUIT:
        return Reply(answer)
    if answer == UNDO:  # of the choice, as there is one
        return choice.choose(choice.best)
    return Reply(answer) if answer != "same" else f"{choice.best + 1} is the best: not all the same"


def _line() -> bytes:
    """The next line; of one that is too long its beginning."""
    read = rest = sys.stdin.buffer.readline(_LONGEST)
    while len(rest) == _LONGEST and not rest.endswith(b"\n"):
        rest = sys.stdin.buffer.readline(_LONGEST)
    return read


def _say_question(pair: Pair) -> None:
    """The question, its context and its items: of a pair by their sides, else by numbers."""
    numbers = [str(k) for k in range(1, len(pair.items) + 1)]
    titles = numbers if pair.is_set else ["left", "right"]
    _say_all("question", pair.question)
    _say_all("context", pair.context)
    for title, lines in zip(titles, pair.items, strict=True):
        _say_all(title, lines)


def _say_all(title: str, lines: Sequence[str]) -> None:
    for line in (f"-- {title}", *lines) if lines else ():
        say(line)
