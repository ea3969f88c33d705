"""The cells of experiments that were worked out, each once, found by its key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sqlalchemy import select

from sortnet.experiments.cells import Cell, Result
from store.database.engine import Database, plain, utc_now
from store.database.tables import CellRow, upsert

_AT_ONCE = 500  # keys of one statement


def keep_cell(database: Database, key: str, cell: Cell, result: Result) -> None:
    """Keep what came of a cell; in place of what an earlier run of it gave."""
    row = {
        "key": key,
        "created": utc_now(),
        "ranker": cell.ranker.name,
        "part": cell.split.name,
        "cell": plain(cell.to_json()),
        "about": plain(result.about),
        "ranking": result.order.astype("<i4").tobytes(),
    }
    changed = [name for name in row if name != "key"]
    with database.transaction(write=True) as connection:
        connection.execute(upsert(database.dialect, CellRow, ["key"], changed), row)


def kept_cells(database: Database, keys: Sequence[str]) -> dict[str, Result]:
    """The results of those of these cells that were worked out, by key."""
    found: dict[str, Result] = {}
    columns = select(CellRow.key, CellRow.about, CellRow.ranking)
    with database.transaction() as connection:
        for start in range(0, len(keys), _AT_ONCE):
            some = columns.where(CellRow.key.in_(keys[start : start + _AT_ONCE]))
            for row in connection.execute(some):
                order = np.frombuffer(row.ranking, "<i4").astype(np.int64)
                found[row.key] = Result(order, row.about)
    return found
