"""Read vote files: two items and an answer per row, as `judgements import` reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sortnet.core import I64
from sortnet.errors import DataError
from sortnet.items import Items
from sortnet.preference.base import TARGETS
from sortnet.preference.vote_arrays import Votes
from sortnet.tables.rows import no_column
from store.collections.judgement_lines import read_lines


def read_votes(path: Path, items: Items, by: str | None = None) -> tuple[Votes, I64 | None]:
    """Votes of a CSV, TSV, JSONL or Parquet file; those undone are left out.

    Args:
        items: that the votes are about.
        by: a column of group names.

    Returns:
        The votes, and with `by` the number of each one's group.

    Raises:
        DataError: on the first error, with its line; if there are no votes, or no such column.
    """
    lines = read_lines(path, items, annotator="file")
    undone = {line.judgement.undoes for line in lines}
    lines = [
        line
        for line in lines
        if line.judgement.answer in TARGETS and line.judgement.number not in undone
    ]
    if not lines:
        raise DataError(f"{path}: has no votes")
    known = Votes.of_judgements([line.judgement for line in lines])
    if by is None:
        return known, None
    column = {name.lower(): name for name in lines[0].row}.get(by.lower())
    if column is None:
        raise DataError(f"{path}: {no_column(by, lines[0].row)}")
    return known, np.unique([str(line.row[column]) for line in lines], return_inverse=True)[1]
