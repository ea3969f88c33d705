"""Full-screen user interface, where each answer is a single key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from textwrap import wrap

from rich.console import Console, Group
from rich.text import Text

from cli.printing.items import ranking_lines
from cli.terminal.asking import KEYS, LATE, SET_KEYS, UNDO, Reply
from cli.terminal.keys import END, Keys, keys_of
from cli.terminal.question_view import (
    QuestionView,
    draw_items,
    fit_lines,
    full_rows,
    heading,
    text_lines,
    view_question,
)
from cli.terminal.set_choice import SetChoice, choice_among
from sortnet.messages import printable
from sortnet.preference.base import LONGEST_COMMENT
from store import Lease
from store.service.item_ranking import ranking_frame
from store.service.labelling import LabellingService

TICK = 0.5  # seconds of waiting for a key, until size and lease are checked again
_COMMENT = "comment (Enter: keep, Escape: drop the change): "
_SCROLL = "space, arrows, PgUp, PgDn: scroll"  # shown if there are more rows than the screen has
_LINES_OF_STATUS_AND_NOTE = 2  # the line above the question, and the message below the items
_LEAST_LINES_OF_ITEMS = 3  # the items get this many lines even if the screen has fewer
_SET_HELP = """\
Choose the best and, if it is asked for, the worst, by their numbers. The answer
is stored before the next question is shown.

  1 to 6              the best, then the worst; the best again: take it back
  = or 0 or down      all are the same
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
  0 or down arrow     both are equally good
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
    """Break explanations of keys, which are separated by `|`, into lines.

    No explanation is broken in two.
    """
    # Spaces within an explanation become no-break spaces, at which `wrap` does not break a line.
    unbroken = keys.replace(" ", "\xa0").replace("|", "   ")
    return [line.replace("\xa0", " ") for line in wrap(unbroken, width)]


@dataclass
class _Remarks:
    """Comment and flag that are stored with the answer to the question on the screen."""

    comment: str = ""
    flagged: bool = False

    def text(self) -> str:
        """Describe the flag and the comment; empty if there is neither."""
        flag = "flagged   " if self.flagged else ""
        return f"{flag}comment: {self.comment}" if self.comment else flag


class Screen:
    """User interface on the whole screen of a terminal: items, status and an explanation of keys.

    Args:
        console: the terminal to draw on.
        keys: reader of the keys.
        service: labelling service, which has the items and the study.
    """

    def __init__(self, console: Console, keys: Keys, service: LabellingService) -> None:
        self._console = console
        self._keys = keys
        self._service = service
        self._note = ""  # message that is shown below the items
        self._shown_instructions = ""
        self._renew: Callable[[], bool] = lambda: True  # renews the lease of the question
        self._renewed_at = 0.0  # value of `time.monotonic()` at the last renewal
        self._is_late = False  # whether the lease is lost

    def ask(self, lease: Lease, status_line: str, renew: Callable[[], bool]) -> Reply:
        """Show a question and wait for the keys of an answer.

        New instructions are shown before the question. The time of the answer leaves out the time
        in which the annotator writes a comment or looks at the ranking or the help.
        """
        self._renew = renew
        self._renewed_at = time.monotonic()
        self._is_late = False
        self._show_new_instructions()
        self._keys.discard()
        study = self._service.study
        view = view_question(self._service.items, lease.question, study.question)
        choice = choice_among(len(view.items), is_worst_asked=study.worst)
        remarks = _Remarks()
        draw = partial(self._show_question, view, status_line, choice=choice)
        drawn_size = draw(self._note)
        started = time.monotonic()  # a later time if other work than answering came between
        while True:
            key = self._keys.read(TICK)
            reply = _completed_reply(key, choice)
            if reply is not None:
                self._note = ""
                return reply.after(started, remarks.comment, remarks.flagged)
            started += self._act_on_key(key, view, remarks, draw)
            self._renew_lease()
            if self._is_late:
                return Reply(LATE)
            if key is not None or drawn_size != self._console.size:
                drawn_size = draw(remarks.text() or self._note)

    def _act_on_key(
        self,
        key: str | None,
        view: QuestionView,
        remarks: _Remarks,
        show: Callable[[str], object],
    ) -> float:
        """Act on a key that is no answer: edit the comment, flag the question, or show rows.

        Args:
            key: name of the key; any other key, or None, does nothing.
            view: texts of the question.
            remarks: comment and flag, which a key may change.
            show: function that draws the question with a note.

        Returns:
            The seconds that do not count as time of the answer. Reading the full texts counts.
        """
        began = time.monotonic()
        if key == "c":
            remarks.comment = self._edit_comment(remarks.comment, show)
        elif key == "f":
            remarks.flagged = not remarks.flagged
        elif key in ("a", "r", "h"):
            self._show_rows(partial(self._rows_of_key, key, view))
        return 0.0 if key == "a" else time.monotonic() - began

    def _renew_lease(self) -> None:
        """Renew the lease of the question if a third of its time is over.

        If the lease is lost, `_is_late` becomes true. Each loop that waits for a key calls this
        method.
        """
        age = time.monotonic() - self._renewed_at
        if age > self._service.lease_seconds / 3 and not self._is_late:
            self._renewed_at = time.monotonic()
            self._is_late = not self._renew()

    def _show_new_instructions(self) -> None:
        """Show the instructions if they are new or have changed since they were shown last."""
        instructions = self._service.study.instructions
        if instructions and instructions != self._shown_instructions:
            self._keys.discard()
            self._show_rows(self._study_rows, "go on")
        self._shown_instructions = instructions

    def _study_rows(self) -> list[Text]:
        """Wrap the question and the instructions of the study to rows."""
        width = self._console.width
        question = Text("\n".join(text_lines(self._service.study.question)), style="bold")
        return [*question.wrap(self._console, width), Text(), *self._instruction_rows()]

    def _instruction_rows(self) -> list[Text]:
        """Render the instructions of the study, which are Markdown, as rows."""
        from rich.markdown import Markdown  # imported here: it takes a tenth of a second

        text = "\n".join(text_lines(self._service.study.instructions))
        # Hyperlinks are left out, because they hide their addresses.
        rows = self._console.render_lines(Markdown(text, hyperlinks=False), pad=False)
        # Rendered text is made printable again: an HTML entity in the Markdown may stand for a
        # character that changes the writing direction.
        texts = []
        for row in rows:
            segments = [(printable(segment.text), segment.style or "") for segment in row]
            texts.append(Text.assemble(*segments))
        return texts

    def _edit_comment(self, comment: str, show: Callable[[str], object]) -> str:
        """Let the annotator edit a comment; return the new comment, or the old one after Escape.

        Args:
            comment: the old comment.
            show: function that draws the question with a note, in which the comment is edited.
        """
        text = comment
        while True:
            n_visible = max(self._console.width - len(_COMMENT) - 1, 1)
            show(f"{_COMMENT}{text[-n_visible:]}_")
            typed = self._keys.read_typed(TICK) or ""
            self._renew_lease()
            if typed in ("\r", "\n"):  # Enter
                return text.strip()
            if typed in ("\x1b", "\x04"):  # Escape, Ctrl-D
                return comment
            if typed in ("\x7f", "\x08"):  # Backspace
                text = text[:-1]
            elif typed.isprintable():
                text = (text + typed)[:LONGEST_COMMENT]

    def notify(self, text: str) -> None:
        self._note = text

    def wants_more(self, why: str) -> bool:
        text = f"Enough: {why}.\n\nEnter: continue   q: quit"
        return self._wait_for_key(text, "enter", "q", END) == "enter"

    def wants_undo(self, why: str) -> bool:
        self._keys.discard()
        text = f"That was all: {why}.\n\nz: undo the last answer   any other key: end"
        return KEYS.get(self._wait_for_key(text)) == UNDO

    def _wait_for_key(self, text: str, *keys: str) -> str:
        """Show a text until a key in `keys` is pressed, or any key if `keys` is empty.

        Returns:
            The name of the pressed key.
        """
        while True:
            self._console.update_screen(Text(text))
            key = self._keys.read(TICK)
            if key is not None and (key in keys or not keys):
                return key

    def _show_question(
        self,
        view: QuestionView,
        status_line: str,
        note: str = "",
        choice: SetChoice | None = None,
    ) -> tuple[int, int]:
        """Draw the question between a line of status and the explanation of the keys.

        Args:
            view: texts of the question.
            status_line: line above the question.
            note: message below the items.
            choice: state of a choice among more than two items; None: there are two items.

        Returns:
            The width and height of the screen for which the question was drawn.
        """
        size = self._console.size
        best = None if choice is None else choice.best
        prompt = [] if choice is None else [choice.prompt]
        # The explanation of the keys is longest if a text is cut.
        n_lines_of_keys = len(self._bar(is_set=view.is_set, is_cut=True))
        height = size.height - _LINES_OF_STATUS_AND_NOTE - len(prompt) - n_lines_of_keys
        texts, height_left, is_text_cut = self._fit_question(view, height)
        height_of_items = max(height_left, _LEAST_LINES_OF_ITEMS)
        items, is_item_cut = draw_items(self._console, view, height_of_items, best)
        keys = self._bar(is_set=view.is_set, is_cut=is_item_cut or is_text_cut)
        one_line = partial(Text, no_wrap=True, overflow="ellipsis")
        status = one_line(status_line, style="bold")
        lines_below = [one_line(line) for line in (*prompt, note, *keys)]
        self._console.update_screen(Group(status, *texts, items, *lines_below))
        return size

    def _fit_question(self, view: QuestionView, height: int) -> tuple[list[Text], int, bool]:
        """Wrap the question and the context to lines above the items.

        Args:
            view: texts of the question.
            height: number of lines for question, context and items.

        Returns:
            The wrapped texts, the number of lines that are left, and whether a text was cut.
        """
        texts = []
        height_left = height
        any_cut = False
        for lines in (view.question, view.context):
            if not lines:
                continue
            most_rows = max(height_left // 4, 1)  # so that most lines are left for the items
            text, is_cut = fit_lines(self._console, lines, self._console.width, most_rows)
            texts.append(text)
            height_left -= 1 + text.plain.count("\n")
            any_cut = any_cut or is_cut
        return texts, height_left, any_cut

    def _bar(self, *, is_cut: bool, is_set: bool = False) -> list[str]:
        """Make the lines that explain the keys; a narrow screen needs more lines.

        In the texts, `|` separates the keys.

        Args:
            is_cut: whether a text is cut, so that the key `a` shows all of it.
            is_set: whether the question is about more than two items.
        """
        if is_set:
            answers = "1 2 ... best, worst|= all the same|s skip|? can't say"
        elif self._console.options.ascii_only:
            answers = "1 <- left|2 -> right|0 v tie|space skip|? can't say"
        else:
            answers = "1 ← left|2 → right|0 ↓ tie|space skip|? can't say"
        undo = "u undo" if is_set else "z undo"
        show_all = "a show all|" if is_cut else ""
        further = f"{undo}|r ranking|{show_all}c comment|f flag|h help|q quit"
        width = self._console.width
        return [*_key_lines(answers, width), *_key_lines(further, width)]

    def _rows_of_key(self, key: str, view: QuestionView) -> list[Text]:
        """Make the rows that a key shows: `a` the full texts, `h` the help, `r` the ranking."""
        if key == "a":
            return full_rows(self._console, view)
        width = self._console.width
        if key == "h":
            keys = Text(_SET_HELP if view.is_set else _HELP).wrap(self._console, width)
            return [*keys, Text(), heading(self._console, "what is asked"), *self._study_rows()]
        items = self._service.items
        frame = ranking_frame(self._service.ranking, items)
        lines = ranking_lines(frame, items, width, files=False)
        return [Text(line, no_wrap=True, overflow="crop") for line in lines]

    def _show_rows(self, make_rows: Callable[[], list[Text]], then: str = "back") -> None:
        """Show rows from the first row on, until a key is pressed that does not scroll.

        If all rows fit on the screen, no key scrolls. The rows are made again when the size of the
        screen changes.

        Args:
            make_rows: function that makes the rows for the present size of the screen.
            then: words for what happens when another key is pressed.
        """
        n_above = 0  # rows that are scrolled out of the screen at its top
        rows = make_rows()
        size = self._console.size
        while True:
            key_lines = _key_lines(f"{_SCROLL}|any other key: {then}", self._console.width)
            height = self._console.height - len(key_lines)
            most_above = max(len(rows) - height, 0)
            n_above = min(max(n_above, 0), most_above)
            can_scroll = most_above > 0
            visible_rows = rows[n_above : n_above + height]
            explanation = "\n".join(key_lines) if can_scroll else f"any key: {then}"
            self._draw_rows(visible_rows, explanation)
            key = self._keys.read(TICK)
            self._renew_lease()
            if key is not None:
                n_rows = _rows_to_scroll(key, height)
                if n_rows is None or not can_scroll:
                    return
                n_above += n_rows
            if size != self._console.size:
                size = self._console.size
                rows = make_rows()

    def _draw_rows(self, rows: Sequence[Text], explanation: str) -> None:
        """Draw rows from the top of the screen, and an explanation of the keys below them."""
        bar = Text(explanation, style="bold")
        self._console.update_screen(Text("\n").join([*rows, bar]))


def _rows_to_scroll(key: str, height: int) -> int | None:
    """Return the number of rows by which a key scrolls down; None if the key does not scroll.

    Args:
        key: name of the key.
        height: number of rows on the screen.
    """
    n_rows_of_key = {
        "down": 1,
        "up": -1,
        "space": height,
        "page down": height,
        "page up": -height,
    }
    return n_rows_of_key.get(key)


def _completed_reply(key: str | None, choice: SetChoice | None) -> Reply | None:
    """Return the reply that a key completes; None if the key completes no reply.

    Args:
        key: name of the key; None: no key was pressed.
        choice: state of a choice among more than two items, which the key may change; None: there
            are two items.
    """
    if choice is None:
        return Reply(KEYS[key]) if key in KEYS else None
    if choice.has_place(key):
        return choice.choose_by_key(key)
    outcome = SET_KEYS.get(key or "")
    if outcome == UNDO and choice.best is not None:
        choice.take_back()
        return None
    if outcome is None or (outcome == "same" and choice.best is not None):
        return None
    return Reply(outcome)


@contextmanager
def screen_of(service: LabellingService, fd: int) -> Iterator[Screen]:
    """Draw on the terminal of stderr and read the keys of `fd`; restore the terminal afterwards."""
    console = Console(stderr=True)
    with keys_of(fd) as keys, console.screen():
        yield Screen(console, keys, service)
