"""The items of a question on a terminal: side by side, or one above the other if narrow."""

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
    """What an annotator sees of a question: lines without control characters."""

    question: Sequence[str]
    context: Sequence[str]
    items: Sequence[Sequence[str]]

    @property
    def is_set(self) -> bool:
        """Whether there are more than two items."""
        return len(self.items) > 2


def pair_of(items: Items, pair: Question, question: str) -> Pair:
    """The items of a question, two or more, and the question about them."""
    context = text_lines(items.context(pair.left) or "")
    whole = "the question" if pair.further else "the pair"
    shown = [facts_of(items, item, k, whole) for k, item in enumerate(pair.items, 1)]
    return Pair(text_lines(question), context, shown)


def facts_of(items: Items, k: int, side: int, whole: str = "the pair") -> list[str]:
    """The lines of an item; its name only if it has nothing else, and never that of a file."""
    content = items.content(k)
    media = {"image": content.image, "sound": content.audio}
    lines = [
        f"{kind} {side} of {whole} (sortnet serve {'shows' if kind == 'image' else 'plays'} it)"
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


def draw_pair(
    console: Console, pair: Pair, height: int, best: int | None = None
) -> tuple[RenderableType, bool]:
    """The items in a given number of lines, and whether anything was cut.

    Args:
        best: the place of the item that is marked as the best.
    """
    n_columns = 2 if console.width >= NARROW else 1
    n_rows = math.ceil(len(pair.items) / n_columns)
    wide = console.width // n_columns
    if height < 3 * n_rows:  # no room for frames
        return _listed(console, pair, best)
    rows = max(height // n_rows - 2, 1)
    panels, any_cut = [], False
    for title, lines in zip(_titles(console, pair, best), pair.items, strict=True):
        text, cut = fitted(console, lines, wide - 4, rows)
        any_cut = any_cut or cut
        panels.append(Panel(text, title=title, title_align="left", width=wide, height=rows + 2))
    grid = Table.grid()
    for first in range(0, len(panels), n_columns):
        grid.add_row(*panels[first : first + n_columns])
    return grid, any_cut


def _titles(console: Console, pair: Pair, best: int | None) -> list[str]:
    """The keys of the items, and which item is the best."""
    if not pair.is_set:
        return ["1 or <-", "2 or ->"] if console.options.ascii_only else ["1 or ←", "2 or →"]
    return [f"{k + 1}{' best' * (k == best)}" for k in range(len(pair.items))]


def _listed(console: Console, pair: Pair, best: int | None) -> tuple[RenderableType, bool]:
    """The first line of each item after its number, and whether there is more of any."""
    rows = []
    for title, lines in zip(_titles(console, pair, best), pair.items, strict=True):
        first = next((line for line in lines if line.strip()), "")
        rows.append(Text(f"{title}  {first}", no_wrap=True, overflow="ellipsis"))
    fits = [len(row.plain) <= console.width for row in rows]
    is_whole = all(fits) and all(len(lines) == 1 for lines in pair.items)
    return Group(*rows), not is_whole


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
    """The question, the context and the items, one above the other, as rows."""
    rows: list[Text] = []
    parts = {"question": pair.question, "context": pair.context}
    parts |= {str(k): lines for k, lines in enumerate(pair.items, 1)}
    for title, lines in parts.items():
        if title == "context" and not lines:
            continue
        most = 20 * LONGEST // max(console.width, 1)
        rows += [heading(console, title), *wrapped(console, lines, console.width, most), Text()]
    return rows


def heading(console: Console, title: str) -> Text:
    return Text(f"-- {title} ".ljust(console.width, "-"), style="bold")
