"""Draw the items of a question on a terminal: side by side, or one below the other if narrow."""

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

NARROW = 80  # width in characters that a terminal needs for two items side by side
LONGEST = 200_000  # characters of a text that are shown
_LINES_OF_FRAME = 2  # lines that the frame of an item takes, above and below
_COLUMNS_OF_FRAME = 4  # characters of a line that the frame and its padding take
_MOST_FEATURES = 20  # number of features that are shown of an item without text or media


class QuestionView(NamedTuple):
    """Texts of a question as an annotator sees them: lines without control characters.

    Attributes:
        question: lines of the question.
        context: lines of the text of the items' group; empty without such a text.
        items: lines of each item, in the order of the places.
    """

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
        question: the question, which has the numbers of its items.
        text: text of the question, such as "Which is better?".
    """
    context = text_lines(items.context(question.left) or "")
    owner = "the question" if len(question.items) > 2 else "the pair"
    lines = [item_lines(items, item, place, owner) for place, item in enumerate(question.items, 1)]
    return QuestionView(text_lines(text), context, lines)


def item_lines(items: Items, item: int, place: int, owner: str = "the pair") -> list[str]:
    """Make the lines that show an item: its image or sound, its text and further columns.

    An item without these is shown by its name and its first features.
    Names of files are not shown, because they might give the answer away.

    Args:
        items: all items.
        item: number of the item among all items.
        place: number of the item in the question, from 1.
        owner: words for the question in a line such as "image 1 of the pair".
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
    for paragraph in (media, text_lines(content.text or ""), columns):
        if lines and paragraph:
            lines.append("")
        lines += paragraph
    return lines or _feature_lines(items, item)


def text_lines(text: str) -> list[str]:
    """Split a text into lines without control characters; a very long text is cut."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}\n... {len(text) - LONGEST:,} characters more"
    return [printable(line.expandtabs(4)) for line in text.splitlines()]


def _feature_lines(items: Items, item: int) -> list[str]:
    """Make the lines with the name of an item and its first features."""
    names = [printable(name) for name in items.feature_names[:_MOST_FEATURES]]
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
        console: terminal to draw on.
        view: texts of the question.
        height: number of lines for the drawing.
        best: place, from 0, of the item that is marked as the best; None: no item is marked.
    """
    n_columns = 2 if console.width >= NARROW else 1
    n_rows = math.ceil(len(view.items) / n_columns)
    least_height = n_rows * (_LINES_OF_FRAME + 1)
    if height < least_height:
        return _list_items(console, view, best)
    panels, any_cut = _panels(
        console, view, best, width=console.width // n_columns, height=height // n_rows
    )
    grid = Table.grid()
    for first in range(0, len(panels), n_columns):
        grid.add_row(*panels[first : first + n_columns])
    return grid, any_cut


def _panels(
    console: Console, view: QuestionView, best: int | None, *, width: int, height: int
) -> tuple[list[Panel], bool]:
    """Draw each item in a frame; return the frames, and whether any text was cut.

    Args:
        console: terminal to draw on.
        view: texts of the question.
        best: place, from 0, of the item that is marked as the best; None: no item is marked.
        width: characters of a line, including the frame.
        height: number of lines of an item, including the frame.
    """
    n_lines = max(height - _LINES_OF_FRAME, 1)
    panels = []
    any_cut = False
    for title, lines in zip(_titles(console, view, best), view.items, strict=True):
        text, is_cut = fit_lines(console, lines, width - _COLUMNS_OF_FRAME, n_lines)
        any_cut = any_cut or is_cut
        panel = Panel(
            text,
            title=title,
            title_align="left",
            width=width,
            height=n_lines + _LINES_OF_FRAME,
        )
        panels.append(panel)
    return panels, any_cut


def _titles(console: Console, view: QuestionView, best: int | None) -> list[str]:
    """Make the titles of the items: the keys that choose the items, and a mark at the best item."""
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

    The last row of a cut text tells the key that shows the whole text.
    """
    rows = wrap_lines(console, lines, width, n_rows + 1)
    is_cut = len(rows) > n_rows
    if is_cut:
        rows = [*rows[: max(n_rows - 1, 0)], Text("... a: show all", style="dim")]
    return Text("\n").join(rows), is_cut


def wrap_lines(console: Console, lines: Sequence[str], width: int, most: int) -> list[Text]:
    """Wrap lines at words to rows of `width` characters; return the first `most` rows."""
    rows: list[Text] = []
    for line in lines:
        if len(rows) >= most:
            break
        # The part of a line that cannot be shown is not wrapped, because wrapping is slow.
        n_rows_left = most - len(rows)
        visible_part = line[: width * (n_rows_left + 1)]
        rows += Text(visible_part).wrap(console, width) or [Text()]  # an empty line is a row, too
    return rows[:most]


def full_rows(console: Console, view: QuestionView) -> list[Text]:
    """Wrap the whole question, context and items to rows, one below the other, with headings."""
    parts = {"question": view.question}
    if view.context:
        parts["context"] = view.context
    for number, lines in enumerate(view.items, 1):
        parts[str(number)] = lines
    most = 20 * LONGEST // max(console.width, 1)  # far more rows than the longest text needs
    rows: list[Text] = []
    for title, lines in parts.items():
        rows += [heading(console, title), *wrap_lines(console, lines, console.width, most), Text()]
    return rows


def heading(console: Console, title: str) -> Text:
    """Draw a line across the screen with a title."""
    return Text(f"-- {title} ".ljust(console.width, "-"), style="bold")
