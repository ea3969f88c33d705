"""Pairs into the database and out again, whole arrays at a time."""

from __future__ import annotations

from itertools import chain

import numpy as np
from sqlalchemy import ColumnElement, Connection, func, select

from sortnet.memory import pairs_of_keys
from sortnet.types import I64, Pairs, Split
from store.models import PairRow

# Of SQLite's 32,766 variables a statement; longer statements were no faster.
ROWS_A_STATEMENT = 2000
ROWS_A_CHUNK = 100_000

INSERT = (
    "INSERT INTO pairs (run, split, query, winner, loser, first_iteration, last_iteration, times) "
)
# A pair that is there has missed once more, unless this iteration has already said so.
UPSERT = (
    " ON CONFLICT (run, split, winner, loser) DO UPDATE"
    " SET times = pairs.times + 1, last_iteration = excluded.last_iteration"
    " WHERE pairs.last_iteration < excluded.last_iteration"
)


def add_pairs(
    connection: Connection, run: int, split: Split, iteration: int, keys: I64, query: I64
) -> int:
    """Add sorted keys and their queries' numbers; the pairs first seen in this iteration.

    Cost: one statement for 2,000 pairs (SQLite) or 100,000 (PostgreSQL), then one look at each
    pair of the split to count: RETURNING, which would spare it, costs eight times as much a row.
    """
    pairs = pairs_of_keys(keys)
    columns = np.stack([query, pairs.winner, pairs.loser])
    # The numbers that all rows share stand in the statement: they need no binding a row.
    shared = (int(run), str(split), int(iteration))
    insert = _insert_sqlite if connection.dialect.name == "sqlite" else _insert_postgresql
    insert(connection, shared, columns)
    new = select(func.count()).where(
        PairRow.run == run, PairRow.split == split, PairRow.first_iteration == iteration
    )
    return connection.execute(new).scalar_one()


def read_pairs(connection: Connection, run: int, split: Split, *only: ColumnElement[bool]) -> Pairs:
    """A run's pairs in order of (winner, loser); `only` are further conditions."""
    columns = select(PairRow.winner, PairRow.loser)
    query = columns.where(PairRow.run == run, PairRow.split == split, *only)
    query = query.order_by(PairRow.winner, PairRow.loser)
    result = connection.execution_options(yield_per=ROWS_A_CHUNK).execute(query)
    chunks = [
        np.fromiter(chain.from_iterable(rows), np.int64, 2 * len(rows)).reshape(-1, 2)
        for rows in result.partitions()
    ]
    both = np.concatenate(chunks) if chunks else np.empty((0, 2), np.int64)
    return Pairs(both[:, 0].copy(), both[:, 1].copy())


def _insert_sqlite(connection: Connection, shared: tuple[int, str, int], columns: I64) -> None:
    run, split, iteration = shared
    row = f"({run}, '{split}', ?, ?, ?, {iteration}, {iteration}, 1)"
    for start in range(0, columns.shape[1], ROWS_A_STATEMENT):
        part = columns[:, start : start + ROWS_A_STATEMENT]
        values = "VALUES " + ", ".join([row] * part.shape[1])
        parameters = tuple(part.T.ravel().tolist())
        connection.exec_driver_sql(INSERT + values + UPSERT, parameters)


def _insert_postgresql(connection: Connection, shared: tuple[int, str, int], columns: I64) -> None:
    run, split, iteration = shared
    values = (
        f"SELECT {run}, '{split}', q, w, l, {iteration}, {iteration}, 1"
        " FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS t (q, w, l)"
    )
    for start in range(0, columns.shape[1], ROWS_A_CHUNK):
        part = columns[:, start : start + ROWS_A_CHUNK]
        connection.exec_driver_sql(INSERT + values + UPSERT, tuple(part.tolist()))
