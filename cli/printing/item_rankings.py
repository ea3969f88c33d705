"""The ranking of a collection as a frame and as text lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from cli.output import fit_cells, table
from sortnet.items.base import file_of, words_of
from sortnet.messages import cut, printable

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.items import Items
    from sortnet.preference.intervals import Ranking

COLUMNS = ("rank", "id", "score", "low", "high", "judgements")
TOP = "among_top"  # a column if the goal is a number of top items
_LEAST = 12  # least number of characters of a text to show
_TEXT = 24  # characters of a text for which long ids are cut


def ranking_frame(ranked: Ranking, items: Items) -> pd.DataFrame:
    """One row per item, best first, group by group; indexed by the items' numbers."""
    import pandas as pd

    columns = {c: getattr(ranked, c)[ranked.order] for c in COLUMNS if c != "id"}
    columns["id"] = [items.ids[k] for k in ranked.order]
    frame = pd.DataFrame(columns, index=ranked.order, columns=list(COLUMNS))
    if ranked.among_top is not None:
        frame[TOP] = ranked.among_top[ranked.order]
    if items.groups is not None:
        frame.insert(0, "group", [items.groups[k] for k in ranked.order])
    return frame


class CollectionRanking(NamedTuple):
    """The ranking of a collection or of one criterion, and notes about it."""

    name: str
    frame: pd.DataFrame
    items: Items
    notes: list[str]


def joined(rankings: Sequence[CollectionRanking]) -> pd.DataFrame:
    """The rows of all rankings, one behind the other."""
    import pandas as pd

    return pd.concat([ranking.frame for ranking in rankings])


def ranking_lines(
    frame: pd.DataFrame, items: Items, width: int, *, files: bool = True
) -> list[str]:
    """A header and one line per item, at most `width` long, with as much of its text as fits.

    Ids are cut where they leave less than 24 characters to the texts, or do not fit.
    Each group begins with a line that names it.

    Args:
        files: whether the names of files are shown, and the ids of items that have one: these may
            give the answer away to an annotator.
    """
    known = zip(frame.index, frame["id"], strict=True)
    ids = [id if files or not file_of(items, k) else "-" for k, id in known]
    facts = frame[[name for name in COLUMNS if name != "id"]].itertuples(index=False)
    head = ["rank", "id", "score", "90 %", "judged"]
    rows = [
        [str(rank), printable(str(id)), f"{score:.2f}", f"{low}-{high}", str(judged)]
        for id, (rank, score, low, high, judged) in zip(ids, facts, strict=True)
    ]
    if TOP in frame:
        head.append("in top")
        rows = [[*row, f"{p:.0%}"] for row, p in zip(rows, frame[TOP], strict=True)]
    what = [words_of(items, k, files=files) for k in frame.index]
    for_texts = min(max(map(len, what), default=0), _TEXT)
    lines = table(head, fit_cells(head, rows, [1], width - for_texts - 2 * (for_texts > 0)), left=2)
    over = width - max(map(len, lines)) - 2
    if over >= _LEAST and any(what):
        wide = max(map(len, lines))
        lines = [f"{line.ljust(wide)}  {cut(text, over)}".rstrip()
                 for line, text in zip(lines, ["", *what], strict=True)]  # fmt: skip
    if items.groups is None:
        return lines
    return [lines[0], *_with_headings(frame["group"].tolist(), lines[1:], width)]


def _with_headings(groups: Sequence[str], lines: Sequence[str], width: int) -> Iterator[str]:
    for group, rows in groupby(zip(groups, lines, strict=True), key=itemgetter(0)):
        yield ""
        yield cut(printable(group), width)
        yield from (line for _, line in rows)
