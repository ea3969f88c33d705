"""Answers as lines, for scripts and input without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from cli.console import say
from cli.terminal.asking import KEYS, QUIT, UNDO, Reply
from cli.terminal.pair_view import pair_of, text_lines
from sortnet.judges.verdicts import REPLIES
from sortnet.messages import printable
from sortnet.preference.base import LONGEST_COMMENT
from store import Lease
from store.service.labelling import LabellingService

_LONGEST = 10_000  # maximum bytes of a line
_COMMENT, _FLAG = "comment ", "flag"  # lines before an answer
# An answer, or its key of the screen if that can be typed.
_SHORT = {said: next(key for key in KEYS if KEYS[key] == said) for said in (*REPLIES, UNDO, QUIT)}
_KNOWN = ", ".join(
    [f"{said} ({key})" if len(key) == 1 else said for said, key in _SHORT.items()]
    + [f"{_FLAG} (f)", "comment TEXT"]
)


class Lines:
    """Questions on stderr, answers from stdin."""

    def __init__(self, service: LabellingService) -> None:
        self._service, self._instructions, self._told = service, "", False

    def ask(self, lease: Lease, standing: str, still: Callable[[], bool]) -> Reply:
        """See `cli.terminal.asking.Front`."""
        say(standing)
        study = self._service.study
        pair = pair_of(self._service.items, lease.question, study.question)
        if study.instructions != self._instructions:
            _say_all("instructions", text_lines(study.instructions))
            self._instructions = study.instructions
        for title in ("question", "context", "left", "right"):
            _say_all(title, getattr(pair, title))
        if not self._told:
            say(f"-- answer with {_KNOWN}")
            self._told = True
        started = time.monotonic()
        comment, flagged = "", False
        while read := _line():
            line = printable(read.decode("utf-8", "replace").strip())
            if (answer := KEYS.get(line, line)) in _SHORT:
                milliseconds = round(1000 * (time.monotonic() - started))
                return Reply(answer, milliseconds, comment or None, flagged or None)
            if line in (_FLAG, "f"):
                flagged = not flagged
            elif line.startswith(_COMMENT) and len(line) <= len(_COMMENT) + LONGEST_COMMENT:
                comment = line.removeprefix(_COMMENT).strip()
            elif line.startswith(_COMMENT):
                say(f"the comment is too long and not kept: {LONGEST_COMMENT:,} characters at most")
            else:
                say(f"unknown answer {line[:40]!r}; known are {_KNOWN}")
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


def _line() -> bytes:
    """The next line; of one that is too long its beginning."""
    read = rest = sys.stdin.buffer.readline(_LONGEST)
    while len(rest) == _LONGEST and not rest.endswith(b"\n"):
        rest = sys.stdin.buffer.readline(_LONGEST)
    return read


def _say_all(title: str, lines: Sequence[str]) -> None:
    for line in (f"-- {title}", *lines) if lines else ():
        say(line)
