"""Read votes from a table with two items and an answer in each row, as `judgements import` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import I64
from sortnet.errors import DataError
from sortnet.items import Items
from sortnet.preference.base import TARGETS
from sortnet.preference.comparisons import Comparisons
from sortnet.preference.judgement_table import Judgements
from sortnet.tables.rows import no_column
from store.collections.judgement_lines import read_lines


def read_votes(path: Path, items: Items, by: str | None = None) -> tuple[Comparisons, I64 | None]:
    """Read the votes of a CSV, TSV, JSONL or Parquet file, without undone votes.

    Args:
        path: the file.
        items: the items that the votes are about.
        by: name of a column that divides the votes into groups; None: there are no groups.

    Returns:
        The n votes, and the numbers (n,) of their groups or None.

    Raises:
        DataError: on an invalid line, naming the line; if there are no votes, or no such column.
    """
    lines = read_lines(path, items, annotator="file")
    undone = {line.judgement.undoes for line in lines}
    vote_lines = [
        line
        for line in lines
        if line.judgement.word in TARGETS and line.judgement.number not in undone
    ]
    if not vote_lines:
        raise DataError(f"{path}: has no votes")
    table = Judgements([line.judgement for line in vote_lines])
    votes = Comparisons.of_table(table)
    if by is None:
        return votes, None
    column = _column_named(by, vote_lines[0].row, path)
    group_names = [str(line.row[column]) for line in vote_lines]
    _, group_of_vote = np.unique(group_names, return_inverse=True)
    return votes, group_of_vote


def _column_named(typed_name: str, row: Mapping[str, Any], path: Path) -> str:
    """Find the column that the user named; upper and lower case may differ.

    Args:
        typed_name: the name as it was typed.
        row: a row of the file, {column: cell}.
        path: the file, for the message.

    Raises:
        DataError: if the file has no such column.
    """
    column_of_lower_name = {name.lower(): name for name in row}
    column = column_of_lower_name.get(typed_name.lower())
    if column is None:
        raise DataError(f"{path}: {no_column(typed_name, row)}")
    return column
