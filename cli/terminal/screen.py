"""The full-screen interface with single-key answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

from rich.console import Console, Group
from rich.text import Text

from cli.printing.item_rankings import ranking_frame, ranking_lines
from cli.terminal.asking import LATE, QUIT, UNDO
from cli.terminal.keys import END, Keys, keys_of
from cli.terminal.pair_view import both_whole, context_of, draw_pair, facts_of, fitted
from store import Lease
from store.service.labelling import LabellingService

Sides: TypeAlias = tuple[Sequence[str], Sequence[str], Sequence[str]]  # context, left, right

TICK = 0.5  # seconds between two checks of the terminal's size
_BELOW = 3  # lines below the items
_REPLIES = {
    **dict.fromkeys(("1", "left"), "left"),
    **dict.fromkeys(("2", "right"), "right"),
    **dict.fromkeys(("0", "down"), "tie"),
    **{"space": "skip", "?": "cant-say"},
    **dict.fromkeys(("z", "backspace"), UNDO),
    **dict.fromkeys(("q", END), QUIT),
}
_HELP = """\
Which of the two is better? Each key is one answer, stored before the next pair is shown.

  1 or left arrow     the left one (narrow terminals: the upper one)
  2 or right arrow    the right one (the lower one)
  0 or down arrow     a tie: they are equally good
  space               skip: ask me later
  ?                   I can't say
  z or Backspace      undo the last answer; again: the one before
  f                   show both texts in full, if they are cut
  r                   the current ranking
  q or Ctrl-C         quit; the next session resumes here"""


class Screen:
    """The terminal screen: two items, the keys, and a progress line."""

    def __init__(self, console: Console, keys: Keys, service: LabellingService) -> None:
        self._console, self._keys, self._service = console, keys, service
        self._draw, self._note = console.update_screen, ""

    def ask(self, lease: Lease, standing: str, still: Callable[[], bool]) -> tuple[str, int]:
        """See `cli.terminal.asking.Front`."""
        items = self._service.items
        left, right = lease.question.left, lease.question.right
        sides = context_of(items, left), facts_of(items, left), facts_of(items, right)
        self._keys.drop()
        size = self._show_pair(sides, standing)
        started = renewed = time.monotonic()
        while True:
            key = self._keys.read(TICK)
            if key in _REPLIES:
                self._note = ""
                return _REPLIES[key], round(1000 * (time.monotonic() - started))
            if key in ("f", "r", "h"):
                looked = time.monotonic()
                self._page(partial(self._rows, key, sides))
                if key != "f":  # reading the full text counts as answering time
                    started += time.monotonic() - looked
            if time.monotonic() - renewed > self._service.lease_seconds / 3:
                renewed = time.monotonic()
                if not still():
                    return LATE, 0
            if key is not None or size != self._console.size:
                size = self._show_pair(sides, standing)

    def notify(self, text: str) -> None:
        self._note = text

    def enough(self, why: str) -> bool:
        text = f"Enough: {why}.\n\nEnter: continue   q: quit"
        return self._key_below(text, "enter", "q", END) == "enter"

    def over(self, why: str) -> bool:
        self._keys.drop()
        text = f"That was all: {why}.\n\nz: undo the last answer   any other key: end"
        return _REPLIES.get(self._key_below(text)) == UNDO

    def _key_below(self, text: str, *known: str) -> str:
        """Show a text until one of the keys is pressed; any key, if none is named."""
        while True:
            self._draw(Text(text))
            key = self._keys.read(TICK)
            if key is not None and (key in known or not known):
                return key

    def _show_pair(self, sides: Sides, standing: str) -> tuple[int, int]:
        size = self._console.size
        (context, left, right), height = sides, size.height - 1 - _BELOW
        above, cut_above = fitted(self._console, context, size.width, max(height // 4, 1))
        height -= above.plain.count("\n") + 1 if context else 0
        drawn, cut = draw_pair(self._console, left, right, max(height, 3))
        cut = cut or cut_above
        plain = self._console.options.ascii_only
        marks = ("<-", "->", "v") if plain else ("←", "→", "↓")
        keys = "1 {} left   2 {} right   0 {} tie   space skip   ? can't say".format(*marks)
        more = f"z undo   r ranking   {'f show all   ' if cut else ''}h help   q quit"
        below = (f"Which is better?   {self._note}", keys, more)
        line = partial(Text, no_wrap=True, overflow="ellipsis")
        top = [line(standing, style="bold"), *([above] if context else [])]
        self._draw(Group(*top, drawn, *map(line, below)))
        return size

    def _rows(self, key: str, sides: Sides) -> list[Text]:
        if key == "f":
            return both_whole(self._console, *sides)
        if key == "h":
            return [Text(line) for line in _HELP.splitlines()]
        items = self._service.items
        frame = ranking_frame(self._service.ranking, items)
        lines = ranking_lines(frame, items, self._console.width)
        return [Text(line, no_wrap=True, overflow="crop") for line in lines]

    def _page(self, make: Callable[[], list[Text]]) -> None:
        """Show rows that scroll; any other key closes them."""
        at, rows, size = 0, make(), self._console.size
        while True:
            height = self._console.height - 1
            last = max(len(rows) - height, 0)
            at = min(max(at, 0), last)
            keys = "space, arrows: scroll   any other key: back" if last else "any key: back"
            self._draw(Text("\n").join([*rows[at : at + height], Text(keys, style="bold")]))
            key = self._keys.read(TICK)
            moves = {"down": 1, "up": -1, "space": height, "page down": height, "page up": -height}
            if key is not None and (key not in moves or not last):
                return
            at += moves.get(key or "", 0)
            if size != self._console.size:
                rows, size = make(), self._console.size


@contextmanager
def screen_of(service: LabellingService, fd: int) -> Iterator[Screen]:
    """Use the terminal on stderr as an alternate screen, and restore it afterwards."""
    console = Console(stderr=True)
    with keys_of(fd) as keys, console.screen():
        yield Screen(console, keys, service)
