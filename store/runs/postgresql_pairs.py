"""Write pairs to PostgreSQL by COPY, which takes whole arrays in binary form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from sortnet.core import I32, I64, NEVER_ADDED, NEVER_WRONG, ComparedPairs, Split

ROWS_A_CHUNK = 100_000
UNIQUE_VIOLATION = "23505"
_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # the signature, no flags, and no extension
_TRAILER = b"\xff\xff"
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


def sql_of_update(new: str) -> tuple[str, str]:
    """Return SQL that updates a stored pair after an iteration: the assignments and the condition.

    The columns of a stored pair are the iteration that added the pair to a set
    (`first_iteration`), the first and the last iteration in which the pair was wrong (`first_wrong`
    and `last_iteration`), and the number of these iterations (`times`). A mistake is counted once
    per iteration, so adding the same iteration again changes nothing.

    Args:
        new: name of the table that has the iteration's pairs. Its `last_iteration` is the iteration
            for a wrong pair, and lower than all iterations for a right pair.
    """
    # A pair that no iteration has added to a set so far has NEVER_ADDED as its first iteration,
    # which is higher than all iterations.
    is_added_now = f"{new}.first_iteration < pairs.first_iteration"
    is_wrong_again = f"{new}.last_iteration > pairs.last_iteration"
    is_first_mistake = f"{is_wrong_again} AND pairs.times = 0"
    # {column: (condition under which the column changes, its new value)}
    changes = {
        "first_iteration": (is_added_now, f"{new}.first_iteration"),
        "first_wrong": (is_first_mistake, f"{new}.last_iteration"),
        "times": (is_wrong_again, "pairs.times + 1"),
        "last_iteration": (is_wrong_again, f"{new}.last_iteration"),
    }
    assignments = [
        f"{column} = CASE WHEN {condition} THEN {value} ELSE pairs.{column} END"
        for column, (condition, value) in changes.items()
    ]
    return ", ".join(assignments), f"({is_added_now} OR {is_wrong_again})"


def copy_pairs(connection: Connection, added: AddedPairs) -> int:
    """Store an iteration's pairs in PostgreSQL; return how many pairs are new in its set of pairs.

    Writers of different pairs do not wait for each other. If two writers add the same new pair, the
    second writer waits until the first writer commits, and then starts again to update the pair.
    """
    while True:
        try:
            with connection.begin_nested():
                n_older = _update_and_copy(connection, added)
        except IntegrityError as error:
            if getattr(error.orig, "sqlstate", None) != UNIQUE_VIOLATION:
                raise
        else:
            return len(added.pairs) - n_older if added.in_set else 0


def _update_and_copy(connection: Connection, added: AddedPairs) -> int:
    """Update the stored pairs of an iteration, and copy its new pairs into the table.

    Return how many of the pairs another iteration added to the training or validation pairs.
    """
    pairs = added.pairs
    iteration = np.int32(added.iteration)
    first_iteration = iteration if added.in_set else np.int32(NEVER_ADDED)
    wrong_in = np.where(pairs.wrong, iteration, np.int32(NEVER_WRONG))
    stored_keys, n_older = _update_stored(connection, added, first_iteration, wrong_in)
    is_new = ~np.isin(pairs.key, stored_keys, assume_unique=True)
    columns: dict[str, NDArray[Any] | np.generic] = {
        "run": np.int32(added.run),
        "split": np.bytes_(added.split),
        "query": added.query[is_new].astype(np.int32),
        "winner": pairs.i[is_new].astype(np.int64),
        "loser": pairs.j[is_new].astype(np.int64),
        "first_iteration": first_iteration,
        "last_iteration": wrong_in[is_new],
        "times": pairs.wrong[is_new].astype(np.int32),
        "first_wrong": wrong_in[is_new],
    }
    _copy(connection, "pairs", columns)
    return n_older


def _update_stored(
    connection: Connection, added: AddedPairs, first_iteration: np.int32, wrong_in: I32
) -> tuple[I64, int]:
    """Update the pairs of an iteration that are stored already.

    The pairs of the iteration are copied into a temporary table `given`, which is joined with the
    stored pairs. The copy is left out if no pair with a winner in the same range is stored.

    Args:
        connection: an open transaction.
        added: the iteration and its pairs.
        first_iteration: the iteration that adds the pairs to the training or validation pairs;
            NEVER_ADDED if only their mistakes are counted.
        wrong_in: (m,) the iteration for each pair that was wrong, NEVER_WRONG for all others.

    Returns:
        The keys of the stored pairs, and the number of these pairs that another iteration added to
        the training or validation pairs.
    """
    if not _has_stored_winners(connection, added):
        return np.empty(0, np.int64), 0
    types = "winner bigint, loser bigint, first_iteration int, last_iteration int"
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE given ({types}) ON COMMIT DROP")
    columns: dict[str, NDArray[Any] | np.generic] = {
        "winner": added.pairs.i.astype(np.int64),
        "loser": added.pairs.j.astype(np.int64),
        "first_iteration": first_iteration,
        "last_iteration": wrong_in,
    }
    _copy(connection, "given", columns)
    is_same_pair = (
        f"{_is_of_split(added)} AND pairs.winner = given.winner AND pairs.loser = given.loser"
    )
    assignments, is_changed = sql_of_update("given")
    update = f"UPDATE pairs SET {assignments} FROM given WHERE {is_same_pair} AND {is_changed}"
    connection.exec_driver_sql(update)
    stored_keys, n_older = _find_stored(connection, int(added.iteration), is_same_pair)
    # The next part of the pairs is added in the same transaction, and creates the table again.
    connection.exec_driver_sql("DROP TABLE given")
    return stored_keys, n_older


def _is_of_split(added: AddedPairs) -> str:
    """Return the SQL condition that a stored pair belongs to the same run and split."""
    return f"pairs.run = {int(added.run)} AND pairs.split = '{added.split}'"


def _has_stored_winners(connection: Connection, added: AddedPairs) -> bool:
    """Tell whether the store has a pair whose winner is in the range of the added winners."""
    winner = added.pairs.i
    # The pairs ascend by their winners, so all winners are between the first and the last winner.
    is_in_range = f"pairs.winner BETWEEN {int(winner[0])} AND {int(winner[-1])}"
    query = f"SELECT 1 FROM pairs WHERE {_is_of_split(added)} AND {is_in_range} LIMIT 1"
    return connection.exec_driver_sql(query).first() is not None


def _find_stored(connection: Connection, iteration: int, is_same_pair: str) -> tuple[I64, int]:
    """Find which pairs of the temporary table `given` are stored already.

    Args:
        connection: an open transaction.
        iteration: the number of the iteration that adds the pairs.
        is_same_pair: the SQL condition that a row of `pairs` and a row of `given` are one pair.

    Returns:
        The keys of the stored pairs, and the number of these pairs that another iteration added to
        the training or validation pairs.
    """
    # The key of a pair has the winner in its upper 32 bits, and the loser in its lower 32 bits. The
    # database joins all keys to one text, which is NULL if none of the pairs is stored.
    key = "(given.winner << 32) + given.loser"
    is_older = f"given.first_iteration = {iteration} AND pairs.first_iteration <> {iteration}"
    joined_keys, n_older = connection.exec_driver_sql(
        f"SELECT string_agg(({key})::text, ','),"
        f" count(*) FILTER (WHERE {is_older}) FROM given JOIN pairs ON {is_same_pair}"
    ).one()
    return np.fromstring(joined_keys or "", np.int64, sep=","), n_older


def _copy(
    connection: Connection, table: str, columns: Mapping[str, NDArray[Any] | np.generic]
) -> None:
    """Copy columns into a table in PostgreSQL's binary format.

    The format is a header, then the rows, then a trailer, which is -1 in place of the number of
    fields.

    Args:
        connection: an open transaction.
        table: the name of the table.
        columns: {name: array} of the columns. A single value in place of an array fills a column.
    """
    arrays = np.broadcast_arrays(*columns.values())
    row_type = _type_of_rows(arrays)
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    driver: Any = connection.connection.driver_connection
    driver_module: Any = connection.dialect.loaded_dbapi
    driver_error = driver_module.Error
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(_HEADER)
            for start in range(0, len(arrays[0]), ROWS_A_CHUNK):
                stop = start + ROWS_A_CHUNK
                chunk = [array[start:stop] for array in arrays]
                copy.write(_binary_rows(row_type, chunk))
            copy.write(_TRAILER)
    except driver_error as error:  # callers expect the errors of SQLAlchemy
        raise DBAPIError.instance(
            statement, None, error, driver_error, hide_parameters=True, dialect=connection.dialect
        ) from error


def _type_of_rows(arrays: Sequence[NDArray[Any]]) -> np.dtype[Any]:
    """Make the type of a binary row: the number of its values, then the size and value of each.

    All numbers are big-endian. The fields are `n_fields`, `size0`, `value0`, `size1`, `value1` and
    so on.
    """
    fields: list[tuple[str, Any]] = [("n_fields", ">i2")]
    for number, array in enumerate(arrays):
        fields.append((f"size{number}", ">i4"))
        fields.append((f"value{number}", array.dtype.newbyteorder(">")))
    return np.dtype(fields)


def _binary_rows(row_type: np.dtype[Any], columns: Sequence[NDArray[Any]]) -> bytes:
    """Encode rows in the binary format of COPY: each value follows its size in bytes.

    Args:
        row_type: the type of a row.
        columns: the values of each column, arrays of one length.
    """
    rows = np.empty(len(columns[0]), row_type)
    rows["n_fields"] = len(columns)
    for number, values in enumerate(columns):
        rows[f"size{number}"] = values.dtype.itemsize
        rows[f"value{number}"] = values
    return rows.tobytes()
