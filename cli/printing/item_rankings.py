"""Result of `sortnet ranking`: the ranking of a collection as lines of text."""

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
from store.service.item_ranking import TOP, ranking_cell

if TYPE_CHECKING:
    import pandas as pd

    from sortnet.items import Items
    from store.service.item_ranking import ItemRanking

_LEAST_SPACE = 12  # characters of a line: if fewer are left for the texts, no texts are shown
_RESERVED_SPACE = 24  # characters of a line that are kept for the texts by cutting long ids


def ranking_result(rankings: Sequence[ItemRanking], *, verbose: bool) -> Result:
    """Result with a line for each item of each ranking; its JSON is one list of all rows.

    Args:
        rankings: the ranking of a collection, or of each of its criteria.
        verbose: whether the notes say more about how sure the ranking is.
    """
    import pandas as pd

    text = list[str]()
    for ranking in rankings:
        if len(rankings) > 1:
            name = printable(ranking.service.collection.name)
            text += ["", name] if text else [name]
        line_width = width() or DEFAULT_WIDTH
        header, *lines = ranking_lines(ranking.frame, ranking.service.items, line_width)
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
    """Lines of a ranking: a header and a line for each item, with the start of its text.

    Lines are at most `width` long. Ids are cut if they do not fit, or leave less than 24 characters
    to the texts. Each group begins with a line that names the group.

    Args:
        files: whether to show the names of files, and the ids of items that have a file. These
            may give the answer away to an annotator.
    """
    header, rows = _cells(frame, items, files=files)
    id_column = header.index("id")
    texts = [words_of(items, item, files=files) for item in frame.index]
    longest_text = max(map(len, texts), default=0)
    reserved = min(longest_text, _RESERVED_SPACE) + 2 if longest_text else 0
    lines = table(header, fit_cells(header, rows, [id_column], width - reserved), left=2)
    table_width = max(map(len, lines))
    space = width - table_width - 2
    if space >= _LEAST_SPACE and longest_text:
        lines = [
            f"{line.ljust(table_width)}  {cut(text, space)}".rstrip()
            for line, text in zip(lines, ["", *texts], strict=True)
        ]
    if items.groups is None:
        return lines
    return [lines[0], *_with_headings(frame["group"].tolist(), lines[1:], width)]


def _cells(frame: pd.DataFrame, items: Items, *, files: bool) -> tuple[list[str], list[list[str]]]:
    """The header of the ranking's table, and the cells of each row."""
    header = ["rank", "id", "score", "90 %", "judged"]
    if TOP in frame:
        header.append("in top")
    rows = []
    for item, row in zip(frame.index, frame.itertuples(), strict=True):
        is_shown = files or not file_of(items, item)
        cells = [
            ranking_cell("rank", row.rank),
            printable(str(row.id)) if is_shown else "-",
            ranking_cell("score", row.score),
            f"{row.low}-{row.high}",
            ranking_cell("judgements", row.judgements),
        ]
        if TOP in frame:
            cells.append(ranking_cell(TOP, row.among_top))
        rows.append(cells)
    return header, rows


def _with_headings(groups: Sequence[str], lines: Sequence[str], width: int) -> Iterator[str]:
    for group, rows in groupby(zip(groups, lines, strict=True), key=itemgetter(0)):
        yield ""
        yield cut(printable(group), width)
        yield from (line for _, line in rows)
