"""User interface at a terminal, where each answer is a single key."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

import click
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.markdown import Markdown
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from cli.printing.items import ranking_lines
from cli.terminal.front import COMMENT, QUIT, Front, Part, harmless
from sortnet.messages import printable
from sortnet.preference.study import Study
from store.service.collection_items import ranking_frame
from store.service.labelling import LabellingService

NARROW = 80  # width in characters that a terminal needs for two items side by side
HELD = 0.1  # seconds; a key that comes again sooner is held down, and is ignored
_LINES_OF_FRAME = 2  # lines that the frame of an item takes, above and below
_COLUMNS_OF_FRAME = 4  # characters of a line that the frame and its padding take
_LINES_BESIDE_TEXTS = 5  # the status, two lines about the keys, a message and the cursor
_LEAST_LINES = 3  # lines of a text that are shown even if the terminal has fewer
# {what a terminal sends for a key: the name of the key}.
_NAMES = {
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[C": "2",
    "\x1bOC": "2",
    "\x1b[D": "1",
    "\x1bOD": "1",
    " ": "space",
    "\r": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x1a": "z",  # Ctrl-Z means undo
}
_FURTHER = ("z undo", "c comment", "f flag", "a all text", "r ranking", "h help", "q quit")
_PAIR_BAR = ("1 left", "2 right", "0 tie", "space skip", "? can't say", *_FURTHER)
_SET_BAR = ("1 2 ... best, worst", "0 all the same", "space skip", "? can't say", *_FURTHER)
_HELP = """\
Each answer is stored before the next question is shown.

  1 or left arrow     the left item (narrow terminals: the upper item)
  2 or right arrow    the right item (the lower item)
  1 2 3 ...           of more than two items: the best, then perhaps the worst
  0, = or down arrow  a tie; all are the same
  space or s          skip: ask me later
  ?                   I can't say
  z, u or Backspace   undo the last answer; again: the one before

  c                   write a comment, which is stored with the answer
  f                   flag the question for the administrator, or unflag it
  a                   show all of the text
  r                   the current ranking
  h                   this help, and the instructions
  Enter               show the question again
  q, Ctrl-C, Ctrl-D   quit; the next session resumes here"""


class Screen(Front):
    """User interface that reads single keys, and prints to stderr.

    Args:
        service: labelling service, which has the items and the study.
    """

    def __init__(self, service: LabellingService) -> None:
        super().__init__(service)
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._parts: Sequence[Part] = ()
        self._status_line = ""
        self._last_typed = ""
        self._last_time = 0.0  # `time.monotonic()` at the last key or question

    def show_instructions(self, study: Study) -> None:
        self._show(*_instructions(study))

    def show(self, parts: Sequence[Part], status_line: str, explanation: str) -> None:
        self._parts = parts
        self._status_line = printable(status_line)
        self._draw()

    def read(self) -> str:
        """Return the next key that is an answer; other keys show something first."""
        while True:
            key = self._read_key()
            if key == "c":
                return self._read_comment()
            if key == "a":
                texts = [f"-- {title}\n{text}\n" for title, text in self._parts if text]
                self._show(Text("\n".join(texts)))
            elif key == "r":
                items = self._service.items
                frame = ranking_frame(self._service.ranking, items)
                lines = ranking_lines(frame, items, self._console.width, files=False)
                self._show(Text("\n".join(lines)))
            elif key == "h":
                self._show(Text(_HELP), *_instructions(self._service.study))
            elif key != "enter":
                return key
            self._draw()

    def notify(self, text: str) -> None:
        self._console.print(Text(printable(text)))

    def _read_key(self) -> str:
        """Wait for a key and return its name; QUIT at Ctrl-D, or if the terminal is gone.

        The terminal throws away keys that are typed while nothing waits for them.
        """
        while True:
            try:
                typed = click.getchar()
            except (EOFError, OSError, RuntimeError):  # click's RuntimeError: no terminal any more
                return QUIT
            if not typed:
                return QUIT
            if not typed.startswith("\x1b"):
                typed = typed[0]
            now = time.monotonic()
            is_held = typed == self._last_typed and now - self._last_time < HELD
            self._last_typed = typed
            self._last_time = now
            if not is_held:
                return _NAMES.get(typed, typed.lower())

    def _read_comment(self) -> str:
        """Let the annotator type a comment; return it as a word."""
        try:
            comment = self._console.input("comment (Enter without a text: none): ")
        except EOFError:
            return QUIT
        return COMMENT + printable(comment)

    def _show(self, *parts: RenderableType) -> None:
        """Print parts until a key is pressed; a pager shows more lines than the terminal has."""
        console = self._console
        group = Group(*parts)
        n_lines = len(console.render_lines(group))
        if n_lines < console.height or not sys.stdout.isatty():
            console.print(group)
            self.notify("any key: continue")
            self._read_key()
            return
        with console.pager():
            console.print(group, "q: continue")

    def _draw(self) -> None:
        """Print the status, the question, its items, and an explanation of the keys."""
        console = self._console
        (_, text), context, *items = self._parts
        question = Text(text, "bold")
        console.print(Rule(Text(self._status_line, "bold"), style="dim", align="left"))
        console.print(question)
        n_lines = console.height - _LINES_BESIDE_TEXTS - len(question.wrap(console, console.width))
        if context[1]:
            console.print(*_panels(console, [context], console.width, n_lines // 4))
            n_lines -= n_lines // 4
        n_columns = 2 if console.width >= NARROW else 1
        n_rows = math.ceil(len(items) / n_columns)
        panels = _panels(console, items, console.width // n_columns, n_lines // n_rows)
        grid = Table.grid()
        for first in range(0, len(panels), n_columns):
            grid.add_row(*panels[first : first + n_columns])
        console.print(grid)
        keys = _PAIR_BAR if len(items) == 2 else _SET_BAR
        console.print(Columns([Text(key, "dim") for key in keys], padding=(0, 2)))
        self._last_time = time.monotonic()


def _instructions(study: Study) -> list[RenderableType]:
    """Render the question and the instructions of a study, which are Markdown."""
    # An entity of HTML could stand for a character that changes the writing direction. Hyperlinks
    # would hide their addresses.
    markdown = harmless(study.instructions).replace("&", "&amp;")
    title = Rule("what is asked", style="dim", align="left")
    question = Text(harmless(study.question), "bold")
    return [title, question, Markdown(markdown, hyperlinks=False)]


def _panels(console: Console, parts: Sequence[Part], width: int, height: int) -> list[Panel]:
    """Draw texts in frames of the same size, as high as the longest text needs.

    Args:
        console: terminal to draw on.
        parts: the texts, which are cut if they need more than `height` lines.
        width: characters of a line, including the frame.
        height: most lines of a text, including the frame.
    """
    n_lines = max(height - _LINES_OF_FRAME, _LEAST_LINES)
    text_width = max(width - _COLUMNS_OF_FRAME, 1)
    # The part of a text that cannot be shown is not wrapped, because wrapping is slow.
    visible = [Text(text[: text_width * (n_lines + 1)]) for _, text in parts]
    n_needed = [len(text.wrap(console, text_width)) for text in visible]
    n_shown = min(max(n_needed), n_lines)
    return [
        Panel(
            text,
            title=title,
            title_align="left",
            subtitle="a: show all" if n > n_shown else None,
            width=width,
            height=n_shown + _LINES_OF_FRAME,
        )
        for (title, _), text, n in zip(parts, visible, n_needed, strict=True)
    ]
