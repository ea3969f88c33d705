"""Two items on a terminal: side by side, or one above the other where it is narrow."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from cli.output import printable
from sortnet.items import Items

NARROW = 80  # least columns for two items side by side
LONGEST = 200_000  # maximum characters of a text
_MANY = 20  # features shown of an item without text or media


def facts_of(items: Items, k: int) -> list[str]:
    """The lines of an item without control characters; its name only if it has nothing else."""
    lines = [
        f"{kind}: {printable(str(items.root / file if items.root else file))}"
        for kind, file in (("image", items.images[k]), ("sound", items.audio[k]))
        if file is not None
    ]
    text = items.texts[k]
    if text is not None:
        lines += ([""] if lines else []) + _text_lines(text)
    return lines or _features(items, k)


def context_of(items: Items, k: int) -> list[str]:
    """The lines of the context of an item's group; none without one."""
    context = None if items.contexts is None else items.contexts[k]
    return [] if context is None else _text_lines(context)


def _text_lines(text: str) -> list[str]:
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


def draw_pair(
    console: Console, left: Sequence[str], right: Sequence[str], height: int
) -> tuple[RenderableType, bool]:
    """Two items in a given number of lines, and whether anything was cut."""
    side_by_side = console.width >= NARROW
    wide = console.width // 2 if side_by_side else console.width
    rows = max((height if side_by_side else height // 2) - 2, 1)
    drawn = [fitted(console, lines, wide - 4, rows) for lines in (left, right)]
    arrows = ("1 or <-", "2 or ->") if console.options.ascii_only else ("1 or ←", "2 or →")
    panels = [
        Panel(text, title=title, title_align="left", width=wide, height=rows + 2)
        for (text, _), title in zip(drawn, arrows, strict=True)
    ]
    cut = any(cut for _, cut in drawn)
    if not side_by_side:
        return Group(*panels), cut
    grid = Table.grid()
    grid.add_row(*panels)
    return grid, cut


def fitted(console: Console, lines: Sequence[str], wide: int, rows: int) -> tuple[Text, bool]:
    """The lines that fit into the rows, with a mark if some are missing; and whether they are."""
    kept = wrapped(console, lines, wide, rows + 1)
    cut = len(kept) > rows
    if cut:
        kept = [*kept[: rows - 1], Text("... f: show all", style="dim")]
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


def both_whole(
    console: Console, context: Sequence[str], left: Sequence[str], right: Sequence[str]
) -> list[Text]:
    """The context and two items, one above the other, as rows."""
    rows: list[Text] = []
    parts = [("context", context)] if context else []
    for title, lines in (*parts, ("1", left), ("2", right)):
        most = 20 * LONGEST // max(console.width, 1)
        rows += [Text(f"-- {title} ".ljust(console.width, "-"), style="bold")]
        rows += [*wrapped(console, lines, console.width, most), Text()]
    return rows
