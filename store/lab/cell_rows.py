"""Stored results of the cells of experiments, each found by its key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from sortnet.files import plain
from store.database.engine import Database, utc_now
from store.database.schema import CellRow, upsert

_AT_ONCE = 500  # keys of one statement


class StoredCell(NamedTuple):
    """Result of a cell.

    Attributes:
        order: (n_docs,) the test documents' numbers, query by query, the best first.
        about: settings, qualities, seconds and observations.
    """

    order: NDArray[np.int64]
    about: dict[str, Any]


def keep_cell(
    database: Database,
    key: str,
    result: StoredCell,
    *,
    ranker: str,
    part: str,
    cell: Mapping[str, Any],
) -> None:
    """Store the result of a cell; an earlier result of the same cell is replaced.

    Args:
        key: identifies the cell and its data.
        ranker, part: the names of the cell's ranker and of its part of the data.
        cell: the description of the cell, as plain values.
    """
    row = {
        "key": key,
        "created": utc_now(),
        "ranker": ranker,
        "part": part,
        "cell": plain(cell),
        "about": plain(result.about),
        "ranking": result.order.astype("<i4").tobytes(),
    }
    changed = [name for name in row if name != "key"]
    with database.transaction(write=True) as connection:
        connection.execute(upsert(database.dialect, CellRow, ["key"], changed), row)


def kept_cells(database: Database, keys: Sequence[str]) -> dict[str, StoredCell]:
    """Stored results of cells, by key; keys without a result are left out."""
    stored_cells: dict[str, StoredCell] = {}
    columns = select(CellRow.key, CellRow.about, CellRow.ranking)
    with database.transaction() as connection:
        for start in range(0, len(keys), _AT_ONCE):
            batch = columns.where(CellRow.key.in_(keys[start : start + _AT_ONCE]))
            for row in connection.execute(batch):
                order = np.frombuffer(row.ranking, "<i4").astype(np.int64)
                stored_cells[row.key] = StoredCell(order, row.about)
    return stored_cells
