"""Pairs into PostgreSQL by COPY, which takes whole arrays as they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from sortnet.types import I64, Pairs, Split

ROWS_A_CHUNK = 100_000
UNIQUE_VIOLATION = "23505"


class AddedPairs(NamedTuple):
    """Pairs of an iteration, the numbers of their queries, and which of them were missed."""

    run: int
    split: Split
    iteration: int
    pairs: Pairs
    query: I64
    missed: NDArray[np.bool_]


def copy_pairs(connection: Connection, added: AddedPairs) -> int:
    """`add_pairs` in PostgreSQL: known pairs are updated, then the others copied.

    Writers of other pairs do not wait for each other. One whose new pair another one is about to
    commit waits for it and then starts again: now the pair is known.
    """
    run, split, iteration, pairs, query, missed = added
    i, times = np.int32(iteration), missed.astype(np.int32)
    while True:
        try:
            with connection.begin_nested():
                known, other = _update_known(connection, added, times)
                new = ~np.isin(pairs.key, known, assume_unique=True)
                _copy(
                    connection,
                    "pairs (run, split, query, winner, loser,"
                    " first_iteration, last_iteration, times)",
                    *(np.int32(run), np.bytes_(split), query[new].astype(np.int32)),
                    *(pairs.winner[new], pairs.loser[new], i, i, times[new]),
                )
            return len(pairs) - other
        except IntegrityError as error:
            if getattr(error.orig, "sqlstate", None) != UNIQUE_VIOLATION:
                raise


def _update_known(connection: Connection, added: AddedPairs, times: Any) -> tuple[I64, int]:
    """Count stored pairs once more; returns their keys, and how many are of other iterations."""
    run, split, iteration, pairs, _, _ = added
    execute, winner = connection.exec_driver_sql, pairs.winner
    of_run = f"pairs.run = {int(run)} AND pairs.split = '{split}'"
    docs = f"pairs.winner BETWEEN {winner[0]} AND {winner[-1]}"
    if execute(f"SELECT 1 FROM pairs WHERE {of_run} AND {docs} LIMIT 1").first() is None:
        return np.empty(0, np.int64), 0
    given = "given (winner bigint, loser bigint, times int)"
    execute(f"CREATE TEMPORARY TABLE {given} ON COMMIT DROP")
    _copy(connection, "given", winner, pairs.loser, times)
    both = f"{of_run} AND pairs.winner = given.winner AND pairs.loser = given.loser"
    execute(
        f"UPDATE pairs SET times = pairs.times + given.times, last_iteration = {int(iteration)}"
        f" FROM given WHERE {both} AND pairs.last_iteration < {int(iteration)}"
    )
    keys, other = execute(
        "SELECT string_agg(((given.winner << 32) + given.loser)::text, ','),"
        f" count(*) FILTER (WHERE pairs.first_iteration <> {int(iteration)})"
        f" FROM given JOIN pairs ON {both}"
    ).one()
    execute("DROP TABLE given")  # the next part of the pairs is added in the same transaction
    return np.fromstring(keys or "", np.int64, sep=","), other


def _copy(connection: Connection, into: str, *columns: NDArray[Any] | np.generic) -> None:
    """Add rows in PostgreSQL's binary form; a single value is that of all rows."""
    arrays = np.broadcast_arrays(*columns)
    kinds = [(f"value{k}", array.dtype.newbyteorder(">")) for k, array in enumerate(arrays)]
    sized = [field for k, kind in enumerate(kinds) for field in ((f"size{k}", ">i4"), kind)]
    row = np.dtype([("fields", ">i2"), *sized])
    statement = f"COPY {into} FROM STDIN (FORMAT BINARY)"
    driver: Any = connection.connection.driver_connection
    error_of: Any = connection.dialect.loaded_dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
            for start in range(0, len(arrays[0]), ROWS_A_CHUNK):
                parts = [array[start : start + ROWS_A_CHUNK] for array in arrays]
                rows = np.empty(len(parts[0]), row)
                rows["fields"] = len(parts)
                for k, part in enumerate(parts):
                    rows[f"size{k}"], rows[f"value{k}"] = part.dtype.itemsize, part
                copy.write(rows.tobytes())
            copy.write(b"\xff\xff")
    except error_of.Error as error:  # as SQLAlchemy would raise it
        raise DBAPIError.instance(
            statement, None, error, error_of.Error, hide_parameters=True, dialect=connection.dialect
        ) from error
