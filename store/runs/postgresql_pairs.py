"""Write pairs to PostgreSQL by COPY, which takes whole arrays in binary form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from sortnet.core import I32, I64, NEVER_ADDED, NEVER_WRONG, ComparedPairs, Split

ROWS_A_CHUNK = 100_000
UNIQUE_VIOLATION = "23505"
COLUMNS = "run, split, query, winner, loser, first_iteration, last_iteration, times, first_wrong"


class AddedPairs(NamedTuple):
    """Pairs of an iteration that are to be stored.

    Attributes:
        run: the number of the run.
        split: the split of the pairs.
        iteration: the number of the iteration.
        pairs: the pairs, ascending by (winner, loser), each marked if it was compared wrongly.
        query: (m,) the number of the query of each pair.
        in_set: whether the iteration adds the pairs to TP or VP, its sets of training and
            validation pairs.
    """

    run: int
    split: Split
    iteration: int
    pairs: ComparedPairs
    query: I64
    in_set: bool


def changes(new: str) -> tuple[str, str]:
    """Return SQL that updates a stored pair from an iteration: the assignments and the condition.

    A mistake is counted once per iteration, so adding the same iteration again changes nothing.

    Args:
        new: name of the table that has the iteration's pairs.
    """
    # A pair that was only counted so far has the highest number as its first iteration.
    is_added_now = f"{new}.first_iteration < pairs.first_iteration"
    is_wrong_again = f"{new}.last_iteration > pairs.last_iteration"
    values = (
        f"first_iteration = CASE WHEN {is_added_now}"
        f" THEN {new}.first_iteration ELSE pairs.first_iteration END,"
        f" first_wrong = CASE WHEN {is_wrong_again} AND pairs.times = 0"
        f" THEN {new}.last_iteration ELSE pairs.first_wrong END,"
        f" times = CASE WHEN {is_wrong_again} THEN pairs.times + 1 ELSE pairs.times END,"
        f" last_iteration = CASE WHEN {is_wrong_again}"
        f" THEN {new}.last_iteration ELSE pairs.last_iteration END"
    )
    return values, f"({is_added_now} OR {is_wrong_again})"


def copy_pairs(connection: Connection, added: AddedPairs) -> int:
    """Do `add_pairs` in PostgreSQL: update stored pairs, then copy new pairs.

    Writers of different pairs do not wait for each other. If two writers add the same new pair, the
    second writer waits until the first writer commits, and then starts again to update the pair.
    """
    pairs = added.pairs
    iteration = np.int32(added.iteration)
    first_iteration = iteration if added.in_set else np.int32(NEVER_ADDED)
    wrong_in = np.where(pairs.wrong, iteration, np.int32(NEVER_WRONG))
    while True:
        try:
            with connection.begin_nested():
                stored, n_older = _update_stored(connection, added, first_iteration, wrong_in)
                is_new = ~np.isin(pairs.key, stored, assume_unique=True)
                _copy(
                    connection,
                    f"pairs ({COLUMNS})",
                    np.int32(added.run),
                    np.bytes_(added.split),
                    added.query[is_new].astype(np.int32),
                    pairs.i[is_new].astype(np.int64),
                    pairs.j[is_new].astype(np.int64),
                    first_iteration,
                    wrong_in[is_new],
                    pairs.wrong[is_new].astype(np.int32),
                    wrong_in[is_new],
                )
            return len(pairs) - n_older if added.in_set else 0
        except IntegrityError as error:
            if getattr(error.orig, "sqlstate", None) != UNIQUE_VIOLATION:
                raise


def _update_stored(
    connection: Connection, added: AddedPairs, first_iteration: np.int32, wrong_in: I32
) -> tuple[I64, int]:
    """Update the pairs of an iteration that are stored already.

    Args:
        connection: an open transaction.
        added: the iteration and its pairs.
        first_iteration: the iteration that adds the pairs to TP or VP, or NEVER_ADDED.
        wrong_in: (m,) the iteration for each pair that was wrong, NEVER_WRONG for all others.

    Returns:
        The keys of the stored pairs, and how many of them another iteration added to TP or VP.
    """
    execute = connection.exec_driver_sql
    winner = added.pairs.i.astype(np.int64)
    loser = added.pairs.j.astype(np.int64)
    of_run = f"pairs.run = {int(added.run)} AND pairs.split = '{added.split}'"
    docs = f"pairs.winner BETWEEN {winner[0]} AND {winner[-1]}"
    if execute(f"SELECT 1 FROM pairs WHERE {of_run} AND {docs} LIMIT 1").first() is None:
        return np.empty(0, np.int64), 0
    columns = "winner bigint, loser bigint, first_iteration int, last_iteration int"
    execute(f"CREATE TEMPORARY TABLE given ({columns}) ON COMMIT DROP")
    _copy(
        connection,
        "given (winner, loser, first_iteration, last_iteration)",
        winner,
        loser,
        first_iteration,
        wrong_in,
    )
    same_pair = f"{of_run} AND pairs.winner = given.winner AND pairs.loser = given.loser"
    values, condition = changes("given")
    execute(f"UPDATE pairs SET {values} FROM given WHERE {same_pair} AND {condition}")
    iteration = int(added.iteration)
    older = f"given.first_iteration = {iteration} AND pairs.first_iteration <> {iteration}"
    keys, n_older = execute(
        "SELECT string_agg(((given.winner << 32) + given.loser)::text, ','),"
        f" count(*) FILTER (WHERE {older}) FROM given JOIN pairs ON {same_pair}"
    ).one()
    # The next part of the pairs is added in the same transaction, and creates the table again.
    execute("DROP TABLE given")
    return np.fromstring(keys or "", np.int64, sep=","), n_older


def _copy(connection: Connection, into: str, *columns: NDArray[Any] | np.generic) -> None:
    """Copy columns into a table in PostgreSQL's binary format; a single value fills a column.

    Args:
        connection: an open transaction.
        into: the table with the names of its columns, in SQL.
        columns: the arrays or single values of the columns.
    """
    arrays = np.broadcast_arrays(*columns)
    fields: list[tuple[str, Any]] = [("n_fields", ">i2")]
    for k, array in enumerate(arrays):
        fields.append((f"size{k}", ">i4"))
        fields.append((f"value{k}", array.dtype.newbyteorder(">")))
    row = np.dtype(fields)
    statement = f"COPY {into} FROM STDIN (FORMAT BINARY)"
    driver: Any = connection.connection.driver_connection
    error_of: Any = connection.dialect.loaded_dbapi
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
            for start in range(0, len(arrays[0]), ROWS_A_CHUNK):
                stop = start + ROWS_A_CHUNK
                copy.write(_binary_rows(row, [array[start:stop] for array in arrays]))
            copy.write(b"\xff\xff")
    except error_of.Error as error:  # callers expect the errors of SQLAlchemy
        raise DBAPIError.instance(
            statement, None, error, error_of.Error, hide_parameters=True, dialect=connection.dialect
        ) from error


def _binary_rows(row: np.dtype[Any], columns: Sequence[NDArray[Any]]) -> bytes:
    """Encode rows for COPY: the number of fields, then the size and the value of each field."""
    rows = np.empty(len(columns[0]), row)
    rows["n_fields"] = len(columns)
    for k, values in enumerate(columns):
        rows[f"size{k}"] = values.dtype.itemsize
        rows[f"value{k}"] = values
    return rows.tobytes()
