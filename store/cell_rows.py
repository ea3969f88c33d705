"""Store the results of an experiment in the database, and find the results by their keys.

An experiment consists of cells. In each cell, one ranker is fitted to one division of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import select

from sortnet.core import I64
from sortnet.files import Record, plain
from store.database.engine import Database, utc_now
from store.database.schema import CellRow, upsert

_KEYS_AT_ONCE = 500  # keys that one SQL statement looks up


def keep_cell(
    database: Database,
    key: str,
    order: I64,
    about: Mapping[str, Any],
    *,
    ranker: str,
    part: str,
    cell: Mapping[str, Any],
) -> None:
    """Store the result of a cell; an earlier result of the same cell is replaced.

    Args:
        database: the database.
        key: identifies the cell and its data.
        order: (n_docs,) numbers of the test documents, query by query, the best first.
        about: settings, quality, seconds and observations, see `sortnet.lab.cells.Result`.
        ranker: name of the cell's ranker.
        part: name of the cell's division of the data.
        cell: description of the cell as JSON.
    """
    row = {
        "key": key,
        "created": utc_now(),
        "ranker": ranker,
        "part": part,
        "cell": plain(cell),
        "about": plain(about),
        "ranking": order.astype("<i4").tobytes(),
    }
    changed = [name for name in row if name != "key"]
    with database.transaction(write=True) as connection:
        connection.execute(upsert(database.dialect, CellRow, ["key"], changed), row)


def kept_cells(database: Database, keys: Sequence[str]) -> dict[str, tuple[I64, Record]]:
    """Load the stored results of cells: {key: (order, about)}, without keys that have none.

    Each statement looks up 500 keys, because databases limit the length of a statement.
    """
    results = {}
    all_rows = select(CellRow.key, CellRow.about, CellRow.ranking)
    with database.transaction() as connection:
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            keys_at_once = keys[start : start + _KEYS_AT_ONCE]
            rows = all_rows.where(CellRow.key.in_(keys_at_once))
            for row in connection.execute(rows):
                order = np.frombuffer(row.ranking, "<i4").astype(np.int64)
                results[row.key] = (order, row.about)
    return results
