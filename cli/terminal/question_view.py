"""Draw the items of a question on a terminal: side by side, or below each other if it is narrow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sortnet.items import Items
from sortnet.messages import printable
from sortnet.preference import Question

NARROW = 80  # columns that a terminal needs for two items side by side
LONGEST = 200_000  # maximum characters of a text
_MANY = 20  # features shown of an item without text or media


class QuestionView(NamedTuple):
    """The texts of a question as an annotator sees them: lines without control characters."""

    question: Sequence[str]
    context: Sequence[str]
    items: Sequence[Sequence[str]]

    @property
    def is_set(self) -> bool:
        """Whether there are more than two items."""
        return len(self.items) > 2


def view_question(items: Items, question: Question, text: str) -> QuestionView:
    """Collect the texts of a question about two or more items.

    Args:
        items: all items.
        question: the question.
        text: what is asked about the items.
    """
    context = text_lines(items.context(question.left) or "")
    owner = "the question" if question.further else "the pair"
    lines = [item_lines(items, item, place, owner) for place, item in enumerate(question.items, 1)]
    return QuestionView(text_lines(text), context, lines)


def item_lines(items: Items, item: int, place: int, owner: str = "the pair") -> list[str]:
    """The lines that show an item: media, text and columns, or if it has none, name and features.

    Names of files are not shown, because they might give the answer away.

    Args:
        items: all items.
        item: the number of the item among all items.
        place: the number of the item in the question, from 1.
        owner: a word for the question, in lines such as "image 1 of the pair".
    """
    content = items.content(item)
    media = []
    if content.image is not None:
        media.append(f"image {place} of {owner} (sortnet serve shows it)")
    if content.audio is not None:
        media.append(f"sound {place} of {owner} (sortnet serve plays it)")
    columns = []
    for name, value in content.shown.items():
        columns += text_lines(f"{name}: {value}")
    lines: list[str] = []
    for part in (media, text_lines(content.text or ""), columns):
        if lines and part:
            lines.append("")
        lines += part
    return lines or _feature_lines(items, item)


def text_lines(text: str) -> list[str]:
    """Split a text into lines without control characters; a very long text is cut."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n... {len(text) - LONGEST:,} characters more"
    return [printable(line.expandtabs(4)) for line in text.splitlines()]


def _feature_lines(items: Items, item: int) -> list[str]:
    """The lines with the name of an item and its first features."""
    names = [printable(name) for name in items.feature_names[:_MANY]]
    name_width = max(map(len, names), default=0)
    lines = [printable(items.ids[item]), ""]
    for name, value in zip(names, items.features[item].tolist(), strict=False):
        figure = "-" if math.isnan(value) else f"{value:.6g}"
        lines.append(f"{name.ljust(name_width)}  {figure}")
    n_more = len(items.feature_names) - len(names)
    if n_more:
        lines.append(f"... {n_more} more")
    return lines


def draw_items(
    console: Console, view: QuestionView, height: int, best: int | None = None
) -> tuple[RenderableType, bool]:
    """Draw the items in `height` lines; return the drawing, and whether any text was cut.

    Args:
        best: the place of the item that is marked as the best; None: no item is marked.
    """
    n_columns = 2 if console.width >= NARROW else 1
    n_rows = math.ceil(len(view.items) / n_columns)
    if height < 3 * n_rows:  # no room for frames
        return _list_items(console, view, best)
    width = console.width // n_columns
    n_lines = max(height // n_rows - 2, 1)
    panels = []
    any_cut = False
    for title, lines in zip(_titles(console, view, best), view.items, strict=True):
        text, is_cut = fit_lines(console, lines, width - 4, n_lines)
        any_cut = any_cut or is_cut
        panels.append(Panel(text, title=title, title_align="left", width=width, height=n_lines + 2))
    grid = Table.grid()
    for first in range(0, len(panels), n_columns):
        grid.add_row(*panels[first : first + n_columns])
    return grid, any_cut


def _titles(console: Console, view: QuestionView, best: int | None) -> list[str]:
    """The titles of the items: the keys that choose them, and a mark at the best item."""
    if not view.is_set:
        return ["1 or <-", "2 or ->"] if console.options.ascii_only else ["1 or ←", "2 or →"]
    titles = [str(number) for number in range(1, len(view.items) + 1)]
    if best is not None:
        titles[best] += " best"
    return titles


def _list_items(
    console: Console, view: QuestionView, best: int | None
) -> tuple[RenderableType, bool]:
    """Draw each item as one line: its title and first line; also return whether text was cut."""
    rows = []
    for title, lines in zip(_titles(console, view, best), view.items, strict=True):
        first_line = next((line for line in lines if line.strip()), "")
        rows.append(Text(f"{title}  {first_line}", no_wrap=True, overflow="ellipsis"))
    fits = all(len(row.plain) <= console.width for row in rows)
    is_complete = fits and all(len(lines) == 1 for lines in view.items)
    return Group(*rows), not is_complete


def fit_lines(console: Console, lines: Sequence[str], width: int, n_rows: int) -> tuple[Text, bool]:
    """Wrap lines to at most `n_rows` rows; return the text, and whether it was cut.

    A cut text ends with a row that says so.
    """
    rows = wrap_lines(console, lines, width, n_rows + 1)
    is_cut = len(rows) > n_rows
    if is_cut:
        rows = [*rows[: max(n_rows - 1, 0)], Text("... a: show all", style="dim")]
    return Text("\n").join(rows), is_cut


def wrap_lines(console: Console, lines: Sequence[str], width: int, most: int) -> list[Text]:
    """Wrap lines at words; return the first `most` rows."""
    rows: list[Text] = []
    for line in lines:
        if len(rows) >= most:
            break
        # The part of a line that cannot be shown is not wrapped, because wrapping is slow.
        rows += Text(line[: width * (most - len(rows) + 1)]).wrap(console, width) or [Text()]
    return rows[:most]


def full_rows(console: Console, view: QuestionView) -> list[Text]:
    """The question, the context and the items in full, one below the other, as rows."""
    parts = {"question": view.question}
    if view.context:
        parts["context"] = view.context
    for number, lines in enumerate(view.items, 1):
        parts[str(number)] = lines
    most = 20 * LONGEST // max(console.width, 1)
    rows: list[Text] = []
    for title, lines in parts.items():
        rows += [heading(console, title), *wrap_lines(console, lines, console.width, most), Text()]
    return rows


def heading(console: Console, title: str) -> Text:
    """Draw a line across the screen with a title."""
    return Text(f"-- {title} ".ljust(console.width, "-"), style="bold")
