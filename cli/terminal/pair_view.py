"""Two items on a terminal: side by side, or one above the other where it is narrow."""

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

NARROW = 80  # least columns for two items side by side
LONGEST = 200_000  # maximum characters of a text
_MANY = 20  # features shown of an item without text or media


class Pair(NamedTuple):
    """What an annotator sees: lines without control characters."""

    question: Sequence[str]
    context: Sequence[str]
    left: Sequence[str]
    right: Sequence[str]


def pair_of(items: Items, pair: Question, question: str) -> Pair:
    """A pair and the question about it."""
    left, right = pair.left, pair.right
    context = text_lines(items.context(left) or "")
    sides = facts_of(items, left, 1), facts_of(items, right, 2)
    return Pair(text_lines(question), context, *sides)


def facts_of(items: Items, k: int, side: int) -> list[str]:
    """The lines of an item; its name only if it has nothing else, and never that of a file."""
    content = items.content(k)
    media = {"image": content.image, "sound": content.audio}
    lines = [
        f"{kind} {side} of the pair (sortnet serve {'shows' if kind == 'image' else 'plays'} it)"
        for kind, file in media.items()
        if file is not None
    ]
    beside = [
        line for name, value in content.shown.items() for line in text_lines(f"{name}: {value}")
    ]
    for part in (text_lines(content.text or ""), beside):
        lines += [*([""] if lines and part else []), *part]
    return lines or _features(items, k)


def text_lines(text: str) -> list[str]:
    """The lines of a text without control characters."""
    more = f"\n... {len(text) - LONGEST:,} characters more" if len(text) > LONGEST else ""
    lines = (text[:LONGEST] + more).splitlines()
    return [printable(line.expandtabs(4)) for line in lines]


def _features(items: Items, k: int) -> list[str]:
    names = [printable(name) for name in items.feature_names[:_MANY]]
    wide = max(map(len, names), default=0)
    values = items.features[k].tolist()
    lines = [
        f"{name.ljust(wide)}  {'-' if math.isnan(value) else f'{value:.6g}'}"
        for name, value in zip(names, values, strict=False)
    ]
    more = len(items.feature_names) - len(names)
    return [printable(items.ids[k]), "", *lines, *([f"... {more} more"] if more else [])]


def draw_pair(console: Console, pair: Pair, height: int) -> tuple[RenderableType, bool]:
    """Two items in a given number of lines, and whether anything was cut."""
    side_by_side = console.width >= NARROW
    wide = console.width // 2 if side_by_side else console.width
    rows = max((height if side_by_side else height // 2) - 2, 1)
    arrows = ("1 or <-", "2 or ->") if console.options.ascii_only else ("1 or ←", "2 or →")
    panels, any_cut = [], False
    for title, lines in zip(arrows, (pair.left, pair.right), strict=True):
        text, cut = fitted(console, lines, wide - 4, rows)
        any_cut = any_cut or cut
        panels.append(Panel(text, title=title, title_align="left", width=wide, height=rows + 2))
    if not side_by_side:
        return Group(*panels), any_cut
    grid = Table.grid()
    grid.add_row(*panels)
    return grid, any_cut


def fitted(console: Console, lines: Sequence[str], wide: int, rows: int) -> tuple[Text, bool]:
    """The lines that fit into the rows, with a mark if some are missing; and whether they are."""
    kept = wrapped(console, lines, wide, rows + 1)
    cut = len(kept) > rows
    if cut:
        kept = [*kept[: max(rows - 1, 0)], Text("... a: show all", style="dim")]
    return Text("\n").join(kept), cut


def wrapped(console: Console, lines: Sequence[str], wide: int, most: int) -> list[Text]:
    """At most `most` rows of lines wrapped at words."""
    rows: list[Text] = []
    for line in lines:
        if len(rows) >= most:
            break
        # Wrapping a long line is slow, so wrap only what can be shown.
        rows += Text(line[: wide * (most - len(rows) + 1)]).wrap(console, wide) or [Text()]
    return rows[:most]


def pair_whole(console: Console, pair: Pair) -> list[Text]:
    """The question, the context and two items, one above the other, as rows."""
    rows: list[Text] = []
    parts = {"question": pair.question, "context": pair.context, "1": pair.left, "2": pair.right}
    for title, lines in parts.items():
        if title == "context" and not lines:
            continue
        most = 20 * LONGEST // max(console.width, 1)
        rows += [heading(console, title), *wrapped(console, lines, console.width, most), Text()]
    return rows


def heading(console: Console, title: str) -> Text:
    return Text(f"-- {title} ".ljust(console.width, "-"), style="bold")
