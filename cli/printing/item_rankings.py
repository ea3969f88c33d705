"""The ranking of a collection as text lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from cli.console import DEFAULT_WIDTH, fit_cells, table, width
from cli.printing.labelling_status import standing_notes
from cli.printing.results import Bold, Result
from sortnet.files import rows_of
from sortnet.items.base import file_of, words_of
from sortnet.messages import cut, printable
from store.service.item_ranking import COLUMNS, TOP, ranking_cell

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.items import Items
    from store.service.item_ranking import ItemRanking
_LEAST = 12  # least number of characters of a text to show
_TEXT = 24  # characters of a text for which long ids are cut


def ranking_result(rankings: Sequence[ItemRanking], *, verbose: bool) -> Result:
    """The items of each ranking, a line for each; rows of all rankings, one behind the other.

    Args:
        rankings: of a collection, or of each of its criteria.
        verbose: whether the notes say more of how sure the ranking is.
    """
    import pandas as pd

    text = list[str]()
    for ranking in rankings:
        if len(rankings) > 1:
            name = printable(ranking.service.collection.name)
            text += ["", name] if text else [name]
        wide = width() or DEFAULT_WIDTH
        header, *lines = ranking_lines(ranking.frame, ranking.service.items, wide)
        text += [Bold(header), *lines]
    frame = pd.concat([ranking.frame for ranking in rankings])
    notes = [
        note
        for ranking in rankings
        for note in standing_notes(ranking.service, ranking.group, verbose=verbose)
    ]
    return Result("ranking", rows_of(frame), text=text, notes=notes, csv=frame)


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
        [
            ranking_cell("rank", rank),
            printable(str(id)),
            ranking_cell("score", score),
            f"{low}-{high}",
            ranking_cell("judgements", judged),
        ]
        for id, (rank, score, low, high, judged) in zip(ids, facts, strict=True)
    ]
    if TOP in frame:
        head.append("in top")
        rows = [[*row, ranking_cell(TOP, p)] for row, p in zip(rows, frame[TOP], strict=True)]
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
