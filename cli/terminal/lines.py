"""Answers as lines, for scripts and input without a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from cli.output import printable, say
from cli.terminal.asking import QUIT, REPLIES, UNDO
from cli.terminal.pair_view import context_of, facts_of
from sortnet.items import Items
from store import Lease

_LONGEST = 10_000  # maximum bytes of a line
_KNOWN = (*REPLIES, UNDO, QUIT)


class Lines:
    """Questions on stderr, answers from stdin."""

    def __init__(self, items: Items) -> None:
        self._items = items

    def ask(self, lease: Lease, standing: str, still: Callable[[], bool]) -> tuple[str, int]:
        """See `cli.terminal.asking.Front`."""
        say(standing)
        if context := context_of(self._items, lease.question.left):
            say("-- context")
            for line in context:
                say(line)
        for side, k in (("left", lease.question.left), ("right", lease.question.right)):
            say(f"-- {side}")
            for line in facts_of(self._items, k):
                say(line)
        started = time.monotonic()
        while True:
            read = sys.stdin.buffer.readline(_LONGEST)
            reply = read.decode("utf-8", "replace").strip()
            if not read:
                return QUIT, 0
            if reply in _KNOWN:
                return reply, round(1000 * (time.monotonic() - started))
            say(f"unknown answer {printable(reply[:40])!r}; known are {', '.join(_KNOWN)}")

    def notify(self, text: str) -> None:
        say(text)

    def enough(self, why: str) -> bool:
        say(f"enough: {why}")
        return False

    def over(self, why: str) -> bool:
        say(f"{why}; undo withdraws the last answer, anything else quits")
        return sys.stdin.buffer.readline(_LONGEST).strip() == UNDO.encode()
