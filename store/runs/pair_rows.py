"""Read and write pairs in the database, whole arrays at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Text, cast, func, select, tuple_

from sortnet.types import I64, Pairs, Split
from store.database.tables import PairRow

# Within SQLite's 32,766 variables per statement; longer statements were no faster.
ROWS_A_STATEMENT = 2000
ROWS_A_CHUNK = 100_000
DOCS_A_CHUNK = 10_000

INSERT = (
    "INSERT INTO pairs (run, split, query, winner, loser, first_iteration, last_iteration, times) "
)
# A known pair may have been mis-compared once more, unless this iteration has counted it already.
UPSERT = (
    " ON CONFLICT (run, split, winner, loser) DO UPDATE"
    " SET times = pairs.times + excluded.times, last_iteration = excluded.last_iteration"
    " WHERE pairs.last_iteration < excluded.last_iteration"
)


def add_pairs(
    connection: Connection,
    run: int,
    split: Split,
    iteration: int,
    parts: Sequence[tuple[Pairs, I64, int]],
) -> int:
    """Add pairs, their queries' numbers and the mis-comparisons to count of each, 0 or 1.

    Returns how many are new in this iteration.

    Cost: one statement for 2,000 pairs (SQLite) or 100,000 (PostgreSQL), then one look at each
    pair of the split to count: RETURNING instead takes 0.5 us per row against 0.07.
    """
    for pairs, query, times in parts:
        columns = np.stack([query, pairs.winner, pairs.loser])
        # The values that all rows share are part of the statement: no binding per row.
        after = f"{int(iteration)}, {int(iteration)}, {int(times)}"
        _insert(connection, f"{int(run)}, '{split}'", after, columns)
    return count_pairs(connection, run, split, PairRow.first_iteration == iteration)


def count_pairs(connection: Connection, run: int, split: Split, *only: ColumnElement[bool]) -> int:
    """The number of a run's pairs that meet the conditions."""
    pairs = select(func.count()).where(PairRow.run == run, PairRow.split == split, *only)
    return connection.execute(pairs).scalar_one()


def read_pairs(connection: Connection, run: int, split: Split, *only: ColumnElement[bool]) -> Pairs:
    """A run's pairs in order of (winner, loser); `only` are further conditions.

    Raises:
        ValueError: on a document number that is none.

    Cost: one statement for 10,000 documents. Numbers come joined in one text: numpy parses it in
    a fifth of the time that a driver needs to make rows.
    """
    of_split = (PairRow.run == run, PairRow.split == split)
    ends = [
        end(column) for column in (PairRow.winner, PairRow.loser) for end in (func.min, func.max)
    ]
    first, last, *losers = connection.execute(select(*ends).where(*of_split)).one()
    if first is None:
        return Pairs.empty()
    for document in (first, last, *losers):
        if not 0 <= document < 2**31:
            raise ValueError(f"{split} pairs of run {run} have a document {document}")
    key = PairRow.winner * 2**32 + PairRow.loser  # as `Pairs` has it
    joined = select(func.aggregate_strings(cast(key, Text), ",")).where(*of_split, *only)
    texts = (
        connection.execute(
            joined.where(PairRow.winner >= start, PairRow.winner < start + DOCS_A_CHUNK)
        ).scalar()
        for start in range(first, last + 1, DOCS_A_CHUNK)
    )
    # A database may join in any order; sorting sorted numbers is quick.
    chunks = [np.sort(np.fromstring(text, np.int64, sep=",")) for text in texts if text]
    return Pairs.of_keys(np.concatenate([np.empty(0, np.int64), *chunks]))


def read_table(
    connection: Connection, run: int, split: Split, chunk: int, *only: ColumnElement[bool]
) -> Iterator[I64]:
    """A run's pairs in order of (winner, loser), at most `chunk` at a time, (m, 5) each.

    The columns are winner, loser, first and last iteration, times; `only` are conditions that
    the database applies. Each statement starts where the last one ended, in the key's order.
    """
    columns = (
        PairRow.winner, PairRow.loser, PairRow.first_iteration, PairRow.last_iteration,
        PairRow.times,
    )  # fmt: skip
    rows = select(*columns).where(PairRow.run == run, PairRow.split == split, *only)
    rows = rows.order_by(PairRow.winner, PairRow.loser).limit(chunk)
    last = (-1, -1)
    while text := connection.execute(
        _joined(rows.where(tuple_(PairRow.winner, PairRow.loser) > tuple_(*last)))
    ).scalar():
        table = np.fromstring(text, np.int64, sep=",").reshape(-1, len(columns))
        key = (table[:, 0] << 32) | table[:, 1]
        if np.any(np.diff(key) < 0):  # a database may join in any order
            table = table[np.argsort(key)]
        yield table
        if len(table) < chunk:
            return
        last = (int(table[-1, 0]), int(table[-1, 1]))


def _joined(rows: Any) -> Any:
    """All numbers of all rows in one text, see `read_pairs`."""
    texts = [cast(column, Text) for column in rows.subquery().c]
    row: ColumnElement[str] = reduce(lambda left, right: left.concat(",").concat(right), texts)
    return select(func.aggregate_strings(row, ","))


def _insert(connection: Connection, before: str, after: str, columns: I64) -> None:
    row = f"({before}, ?, ?, ?, {after})"
    unnested = (
        f"SELECT {before}, q, w, l, {after}"
        " FROM unnest(%s::int[], %s::bigint[], %s::bigint[]) AS t (q, w, l)"
    )
    sqlite = connection.dialect.name == "sqlite"
    step = ROWS_A_STATEMENT if sqlite else ROWS_A_CHUNK
    for start in range(0, columns.shape[1], step):
        part = columns[:, start : start + step]
        values = f"VALUES {', '.join([row] * part.shape[1])}" if sqlite else unnested
        parameters = part.T.ravel().tolist() if sqlite else part.tolist()
        connection.exec_driver_sql(INSERT + values + UPSERT, tuple(parameters))
