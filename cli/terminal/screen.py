"""The full-screen interface with single-key answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from textwrap import wrap

from rich.console import Console, Group
from rich.text import Text

from cli.printing.item_rankings import ranking_lines
from cli.terminal.asking import KEYS, LATE, SET_KEYS, UNDO, Reply
from cli.terminal.keys import END, Keys, keys_of
from cli.terminal.pair_view import Pair, draw_pair, fitted, heading, pair_of, pair_whole, text_lines
from cli.terminal.set_choice import SetChoice, choice_among
from sortnet.messages import printable
from sortnet.preference.base import LONGEST_COMMENT
from store import Lease
from store.service.item_ranking import ranking_frame
from store.service.labelling import LabellingService

TICK = 0.5  # seconds between two checks of the terminal's size
_COMMENT = "comment (Enter: keep, Escape: drop the change): "
_SCROLL = "space, arrows, PgUp, PgDn: scroll"  # of what is longer than the screen
_SET_HELP = """\
Choose the best and, if it is asked for, the worst, by their numbers. The answer
is stored before the next question is shown.

  1 to 6              the best, then the worst; the best again: take it back
  = or 0 or down      they are all the same
  s or space          skip: ask me later
  ?                   I can't say
  u, z or Backspace   take back the choice, or the last answer; again: the one before

  c                   write a comment, which is stored with the answer
  f                   flag the question for the administrator, or unflag it
  a                   show all of the texts, if they are cut
  r                   the current ranking
  h                   this help
  q, Ctrl-C, Ctrl-D   quit; the next session resumes here"""
_HELP = """\
Each of these keys is one answer, stored before the next pair is shown.

  1 or left arrow     the left one (narrow terminals: the upper one)
  2 or right arrow    the right one (the lower one)
  0 or down arrow     a tie: they are equally good
  space               skip: ask me later
  ?                   I can't say
  z or Backspace      undo the last answer; again: the one before

  c                   write a comment, which is stored with the answer
  f                   flag the pair for the administrator, or unflag it
  a                   show all of both texts, if they are cut
  r                   the current ranking
  h                   this help
  q, Ctrl-C, Ctrl-D   quit; the next session resumes here"""


def _key_lines(keys: str, width: int) -> list[str]:
    """Keys that `|` divides, in as many lines as they need; broken only between them."""
    lines = wrap(keys.replace(" ", "\xa0").replace("|", "   "), width)
    return [line.replace("\xa0", " ") for line in lines]


class Screen:
    """The terminal screen: the items of a question, the keys, and a progress line."""

    def __init__(self, console: Console, keys: Keys, service: LabellingService) -> None:
        self._console, self._keys, self._service = console, keys, service
        self._note, self._instructions = "", ""
        self._still: Callable[[], bool] = lambda: True
        self._renewed, self._late = 0.0, False

    def ask(self, lease: Lease, standing: str, still: Callable[[], bool]) -> Reply:
        """See `cli.terminal.asking.Front`."""
        self._still, self._renewed, self._late = still, time.monotonic(), False
        self._show_instructions()
        self._keys.drop()
        pair = pair_of(self._service.items, lease.question, self._service.study.question)
        choice = choice_among(len(pair.items), is_worst_asked=self._service.study.worst)
        comment, flagged = "", False
        size = self._show_pair(pair, standing, self._note, choice)
        started = time.monotonic()
        while True:
            key = self._keys.read(TICK)
            reply = _reply_of(key, choice)
            if reply is not None:
                self._note = ""
                return reply.after(started, comment, flagged)
            looked = time.monotonic()
            if key == "c":
                show = partial(self._show_pair, pair, standing, choice=choice)
                comment = self._typed(comment, show)
            elif key == "f":
                flagged = not flagged
            elif key in ("a", "r", "h"):
                self._page(partial(self._rows, key, pair))
            if key != "a":  # reading the full text counts as answering time
                started += time.monotonic() - looked
            self._renew()
            if self._late:
                return Reply(LATE)
            if key is not None or size != self._console.size:
                note = _remarked(comment, flagged) or self._note
                size = self._show_pair(pair, standing, note, choice)

    def _renew(self) -> None:
        """Renew the lease of the pair if it is time to, also while something else is shown."""
        if time.monotonic() - self._renewed > self._service.lease_seconds / 3 and not self._late:
            self._renewed = time.monotonic()
            self._late = not self._still()

    def _show_instructions(self) -> None:
        before, self._instructions = self._instructions, self._service.study.instructions
        if self._instructions and self._instructions != before:
            self._keys.drop()
            self._page(self._told, "go on")

    def _told(self) -> list[Text]:
        width = self._console.width
        asked = Text("\n".join(text_lines(self._service.study.question)), style="bold")
        return [*asked.wrap(self._console, width), Text(), *self._markdown()]

    def _markdown(self) -> list[Text]:
        from rich.markdown import Markdown  # takes a tenth of a second

        text = "\n".join(text_lines(self._service.study.instructions))
        # Without hyperlinks, which hide where they lead to.
        drawn = self._console.render_lines(Markdown(text, hyperlinks=False), pad=False)
        # An entity may stand for a character that changes the writing direction.
        parts = ([(printable(part.text), part.style or "") for part in row] for row in drawn)
        return [Text.assemble(*row) for row in parts]

    def _typed(self, before: str, show: Callable[[str], object]) -> str:
        text = before
        while True:
            room = max(self._console.width - len(_COMMENT) - 1, 1)
            show(f"{_COMMENT}{text[-room:]}_")
            part = self._keys.part(TICK) or ""
            self._renew()
            if part in ("\r", "\n"):
                return text.strip()
            if part in ("\x1b", "\x04"):
                return before
            if part in ("\x7f", "\x08"):
                text = text[:-1]
            elif part.isprintable():
                text = (text + part)[:LONGEST_COMMENT]

    def notify(self, text: str) -> None:
        self._note = text

    def enough(self, why: str) -> bool:
        text = f"Enough: {why}.\n\nEnter: continue   q: quit"
        return self._key_below(text, "enter", "q", END) == "enter"

    def over(self, why: str) -> bool:
        self._keys.drop()
        text = f"That was all: {why}.\n\nz: undo the last answer   any other key: end"
        return KEYS.get(self._key_below(text)) == UNDO

    def _key_below(self, text: str, *known: str) -> str:
        """Show a text until one of the keys is pressed; any key, if none is named."""
        while True:
            self._console.update_screen(Text(text))
            key = self._keys.read(TICK)
            if key is not None and (key in known or not known):
                return key

    def _show_pair(
        self, pair: Pair, standing: str, note: str = "", choice: SetChoice | None = None
    ) -> tuple[int, int]:
        size = self._console.size
        best = None if choice is None else choice.best
        asked = () if choice is None else (choice.asked,)
        line = partial(Text, no_wrap=True, overflow="ellipsis")
        top, any_cut = [line(standing, style="bold")], False
        height = size.height - 2 - len(asked) - len(self._bar(is_set=pair.is_set, more=True))
        for lines in filter(None, (pair.question, pair.context)):
            above, cut = fitted(self._console, lines, size.width, max(height // 4, 1))
            top.append(above)
            height, any_cut = height - 1 - above.plain.count("\n"), any_cut or cut
        drawn, cut = draw_pair(self._console, pair, max(height, 3), best)
        bar = self._bar(is_set=pair.is_set, more=cut or any_cut)
        self._console.update_screen(Group(*top, drawn, *map(line, (*asked, note, *bar))))
        return size

    def _bar(self, *, more: bool, is_set: bool = False) -> list[str]:
        """The keys, in as many lines as the width needs; `more`: whether a text is cut."""
        plain = self._console.options.ascii_only
        marks = ("<-", "->", "v") if plain else ("←", "→", "↓")
        answers = "1 {} left|2 {} right|0 {} tie|space skip|? can't say".format(*marks)
        if is_set:
            answers = "1 2 ... best, worst|= all the same|s skip|? can't say"
        undo = "u undo" if is_set else "z undo"
        others = f"{undo}|r ranking|{'a show all|' * more}c comment|f flag|h help|q quit"
        width = self._console.width
        return [*_key_lines(answers, width), *_key_lines(others, width)]

    def _rows(self, key: str, pair: Pair) -> list[Text]:
        if key == "a":
            return pair_whole(self._console, pair)
        if key == "h":
            keys = Text(_SET_HELP if pair.is_set else _HELP).wrap(
                self._console, self._console.width
            )
            return [*keys, Text(), heading(self._console, "what is asked"), *self._told()]
        items = self._service.items
        frame = ranking_frame(self._service.ranking, items)
        lines = ranking_lines(frame, items, self._console.width, files=False)
        return [Text(line, no_wrap=True, overflow="crop") for line in lines]

    def _page(self, make: Callable[[], list[Text]], then: str = "back") -> None:
        """Show rows that scroll; any other key closes them."""
        at, rows, size = 0, make(), self._console.size
        while True:
            keys = _key_lines(f"{_SCROLL}|any other key: {then}", self._console.width)
            height = self._console.height - len(keys)
            last = max(len(rows) - height, 0)
            at = min(max(at, 0), last)
            below = Text("\n".join(keys) if last else f"any key: {then}", style="bold")
            self._console.update_screen(Text("\n").join([*rows[at : at + height], below]))
            key = self._keys.read(TICK)
            self._renew()
            moves = {"down": 1, "up": -1, "space": height, "page down": height, "page up": -height}
            if key is not None and (key not in moves or not last):
                return
            at += moves.get(key or "", 0)
            if size != self._console.size:
                rows, size = make(), self._console.size


def _remarked(comment: str, flagged: bool) -> str:
    """What is stored with the answer, in words."""
    note = "flagged   " if flagged else ""
    return f"{note}comment: {comment}" if comment else note


def _reply_of(key: str | None, choice: SetChoice | None) -> Reply | None:
    """The answer of a key, if it completes one; what it chooses is kept in `choice`."""
    if choice is None:
        return Reply(KEYS[key]) if key in KEYS else None
    if choice.has_place(key):
        return choice.choose_by_key(key)
    said = SET_KEYS.get(key or "")
    if said == UNDO and choice.best is not None:
        return choice.choose(choice.best)
    if said is None or (said == "same" and choice.best is not None):
        return None
    return Reply(said)


@contextmanager
def screen_of(service: LabellingService, fd: int) -> Iterator[Screen]:
    """Use the terminal on stderr as an alternate screen, and restore it afterwards."""
    console = Console(stderr=True)
    with keys_of(fd) as keys, console.screen():
        yield Screen(console, keys, service)
