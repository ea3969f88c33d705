"""Result of `sortnet ranking`: the ranking of a collection, by all of its criteria."""

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

_LEAST_SPACE = 12  # with fewer characters left in a line, the texts of items are not shown
_GAP = 2  # characters between the table and the texts
_RESERVED_SPACE = 24  # long ids are cut to leave this number of characters for the texts


def ranking_result(rankings: Sequence[ItemRanking], *, verbose: bool) -> Result:
    """Make the result with a line for each item of each ranking; JSON has one list of all rows.

    Args:
        rankings: the ranking of a collection, or one ranking for each of its criteria.
        verbose: whether the notes say more about how sure the ranking is.
    """
    import pandas as pd

    text = list[str]()
    notes = list[str]()
    line_width = width() or DEFAULT_WIDTH
    for ranking in rankings:
        if len(rankings) > 1:
            if text:
                text.append("")
            text.append(printable(ranking.service.collection.name))
        header, *lines = ranking_lines(ranking.frame, ranking.service.items, line_width)
        text += [Bold(header), *lines]
        notes += standing_notes(ranking.service, ranking.group, verbose=verbose)
    frame = pd.concat([ranking.frame for ranking in rankings])
    return Result("ranking", rows_of(frame), text=text, notes=notes, csv=frame)


def ranking_lines(
    frame: pd.DataFrame, items: Items, width: int, *, files: bool = True
) -> list[str]:
    """Write a ranking as lines: a header, and a line for each item with the start of its text.

    Ids are cut if they do not fit, or leave less than 24 characters to the texts. Each group begins
    with a line that names the group.

    Args:
        frame: the ranking, one row for each item.
        items: the items of the collection.
        width: the largest length of a line, in characters.
        files: whether to show the names of files, and the ids of items that have a file. An
            annotator may see from them which item is better.
    """
    header, rows = _cells(frame, items, files=files)
    id_column = header.index("id")
    texts = [words_of(items, item, files=files) for item in frame.index]
    longest_text = max(map(len, texts), default=0)
    has_texts = longest_text > 0
    width_of_table = width
    if has_texts:
        width_of_table -= _GAP + min(longest_text, _RESERVED_SPACE)
    fitted_rows = fit_cells(header, rows, [id_column], width_of_table)
    lines = table(header, fitted_rows, left=2)
    # The table may be wider than `width_of_table`, because some characters of each id are kept.
    space_for_texts = width - max(map(len, lines)) - _GAP
    if has_texts and space_for_texts >= _LEAST_SPACE:
        lines = _with_texts(lines, ["", *texts], space_for_texts)
    if items.groups is None:
        return lines
    header_line, *item_lines = lines
    return [header_line, *_with_headings(frame["group"].tolist(), item_lines, width)]


def _with_texts(lines: Sequence[str], texts: Sequence[str], space: int) -> list[str]:
    """Write the start of a text behind each line of a table, in a column of `space` characters."""
    table_width = max(map(len, lines))
    gap = " " * _GAP
    lines_with_texts = []
    for line, text in zip(lines, texts, strict=True):
        line_with_text = f"{line.ljust(table_width)}{gap}{cut(text, space)}"
        lines_with_texts.append(line_with_text.rstrip())
    return lines_with_texts


def _cells(frame: pd.DataFrame, items: Items, *, files: bool) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns, and the cells of each item's row."""
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
    """Yield the lines of the items, with a heading above the first item of each group."""
    groups_and_lines = zip(groups, lines, strict=True)
    for group, rows in groupby(groups_and_lines, key=itemgetter(0)):
        yield ""
        yield cut(printable(group), width)
        yield from (line for _, line in rows)
