"""Read and write pairs in the database, whole arrays at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Text, cast, func, select, tuple_

from sortnet.core import I64, NEVER_ADDED, NEVER_WRONG, Bool, ComparedPairs, Split
from sortnet.core.pairs import packed
from store.database.schema import PairRow
from store.runs.postgresql_pairs import COLUMNS, AddedPairs, copy_pairs, sql_of_update

# SQLite allows 32,766 variables in a statement; more rows in a statement were no faster.
ROWS_A_STATEMENT = 2000
DOCS_A_CHUNK = 10_000
# Positions of the columns in the tables that `read_table` yields.
_WINNER = 0
_LOSER = 1
N_COLUMNS = 6

INSERT = f"INSERT INTO pairs ({COLUMNS}) "
_CHANGED_VALUES, _IS_CHANGED = sql_of_update("excluded")
UPSERT = (
    f" ON CONFLICT (run, split, winner, loser) DO UPDATE SET {_CHANGED_VALUES} WHERE {_IS_CHANGED}"
)


def add_pairs(connection: Connection, added: AddedPairs) -> int:
    """Store an iteration's pairs, and return how many pairs are new in its set of pairs.

    The set is TP or VP, the training or validation pairs of Algorithm 3.1.

    Cost: in SQLite one statement for 2,000 pairs, then one that counts the stored pairs of these
    documents. Counting takes 0.07 us per row, while RETURNING would take 0.5 us. PostgreSQL copies
    new pairs into the table at about 0.4 of SQLite's rate. INSERT ... SELECT from a temporary table
    would take 1.5 times as long as COPY, and twice as long with ON CONFLICT.
    """
    if not len(added.pairs):
        return 0
    if connection.dialect.name == "sqlite":
        return _add_in_sqlite(connection, added)
    return copy_pairs(connection, added)


def count_pairs(
    connection: Connection, run: int, split: Split, *conditions: ColumnElement[bool]
) -> int:
    """Count the pairs of one split of a run that meet all conditions."""
    query = select(func.count()).where(PairRow.run == run, PairRow.split == split, *conditions)
    return connection.execute(query).scalar_one()


def read_pairs(
    connection: Connection,
    run: int,
    split: Split,
    *conditions: ColumnElement[bool],
    docs: tuple[int, int] | None = None,
) -> ComparedPairs:
    """Read the pairs of one split of a run, in the order of (winner, loser).

    Args:
        connection: an open transaction.
        run: the number of the run.
        split: the split.
        conditions: conditions that all returned pairs meet.
        docs: range of the winners' numbers, from docs[0] to docs[1] - 1. If None, all pairs are
            read.

    Raises:
        ValueError: on an invalid document number.

    Cost: one statement for 10,000 documents. The database joins all numbers to one text, because
    numpy parses this text in a fifth of the time that a driver takes to make rows.
    """
    winners = _range_of_winners(connection, run, split, docs)
    if winners is None:
        return ComparedPairs.empty()
    first_winner, last_winner = winners
    key = PairRow.winner * 2**32 + PairRow.loser  # the key of `ComparedPairs`
    joined_keys = select(func.aggregate_strings(cast(key, Text), ",")).where(
        PairRow.run == run, PairRow.split == split, *conditions
    )
    chunks = [np.empty(0, np.int64)]
    for start in range(first_winner, last_winner + 1, DOCS_A_CHUNK):
        # Each statement has a single range of winners, because SQLite might search the wider of two
        # ranges.
        docs_of_chunk = (start, min(start + DOCS_A_CHUNK, last_winner + 1))
        query = joined_keys.where(*_has_winner_in(docs_of_chunk))
        text = connection.execute(query).scalar()
        if text:
            keys = np.fromstring(text, np.int64, sep=",")
            # A database may join numbers in any order. Sorting takes little time if the numbers
            # are in order already.
            chunks.append(np.sort(keys))
    return ComparedPairs.of_keys(np.concatenate(chunks))


def _range_of_winners(
    connection: Connection, run: int, split: Split, docs: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Return the lowest and the highest winner of the pairs of a split; None without pairs.

    Args:
        connection: an open transaction.
        run: the number of the run.
        split: the split.
        docs: only pairs whose winner is from docs[0] to docs[1] - 1 count. If None, all pairs.

    Raises:
        ValueError: on a winner or loser that is no document number.
    """
    extremes = select(
        func.min(PairRow.winner),
        func.max(PairRow.winner),
        func.min(PairRow.loser),
        func.max(PairRow.loser),
    ).where(PairRow.run == run, PairRow.split == split, *_has_winner_in(docs))
    first_winner, last_winner, lowest_loser, highest_loser = connection.execute(extremes).one()
    if first_winner is None:
        return None
    for document in (first_winner, last_winner, lowest_loser, highest_loser):
        if not 0 <= document < 2**31:
            raise ValueError(f"{split} pairs of run {run} have a document {document}")
    return first_winner, last_winner


def read_table(
    connection: Connection, run: int, split: Split, chunk: int, *conditions: ColumnElement[bool]
) -> Iterator[I64]:
    """Yield the pairs of one split of a run in tables, in the order of (winner, loser).

    A table has a row for each pair, and six columns: winner, loser, the iteration that added the
    pair, the first and the last iteration in which the pair was wrong, and the number of these
    iterations.

    Args:
        connection: an open transaction.
        run: the number of the run.
        split: the split.
        chunk: the maximum number of rows of a table.
        conditions: conditions that all yielded pairs meet.
    """
    first_pairs = (
        select(
            PairRow.winner,
            PairRow.loser,
            PairRow.first_iteration,
            PairRow.first_wrong,
            PairRow.last_wrong,
            PairRow.times,
        )
        .where(PairRow.run == run, PairRow.split == split, *conditions)
        .order_by(PairRow.winner, PairRow.loser)
        .limit(chunk)
    )
    last_yielded = (-1, -1)  # no pair is yielded yet; all pairs are greater
    while True:
        is_next = tuple_(PairRow.winner, PairRow.loser) > tuple_(*last_yielded)
        table = _fetch_table(connection, first_pairs.where(is_next))
        if not len(table):
            return
        yield table
        if len(table) < chunk:
            return
        last_yielded = (int(table[-1, _WINNER]), int(table[-1, _LOSER]))


def _fetch_table(connection: Connection, pairs: Any) -> I64:
    """Fetch a table (n_pairs, 6), sorted by winner and loser.

    The database joins all numbers to one text with commas, because numpy parses this text faster
    than a database driver makes rows.

    Args:
        connection: an open transaction.
        pairs: a query that selects six numbers for each pair, first the winner and the loser.
    """
    text = connection.execute(_as_one_text(pairs)).scalar()
    if not text:
        return np.empty((0, N_COLUMNS), np.int64)
    table: I64 = np.fromstring(text, np.int64, sep=",").reshape(-1, N_COLUMNS)
    # A database may join rows in any order, whatever the order of the query is.
    key = packed(table[:, _WINNER], table[:, _LOSER])
    is_sorted = not np.any(np.diff(key) < 0)
    return table if is_sorted else table[np.argsort(key)]


def _as_one_text(rows: Any) -> Any:
    """Make a statement that joins all rows of a query to one text of numbers and commas."""
    first, *further = (cast(column, Text) for column in rows.subquery().c)
    text_of_row: ColumnElement[str] = first
    for column in further:
        text_of_row = text_of_row.concat(",").concat(column)
    return select(func.aggregate_strings(text_of_row, ","))


def _has_winner_in(docs: tuple[int, int] | None) -> list[ColumnElement[bool]]:
    """Return the conditions that a pair's winner is in a range of document numbers.

    The range begins at docs[0] and ends before docs[1]. If `docs` is None, there are no conditions.
    """
    if docs is None:
        return []
    return [PairRow.winner >= docs[0], PairRow.winner < docs[1]]


def _add_in_sqlite(connection: Connection, added: AddedPairs) -> int:
    """Store an iteration's pairs in SQLite, and return how many pairs are new in its set of pairs.

    No other transaction writes at the same time, so pairs can be counted before and after.
    """
    if not added.in_set:
        _upsert_wrong(connection, added, first_iteration=NEVER_ADDED)
        return 0
    # The new pairs are the pairs whose first iteration is this iteration: a pair that an earlier
    # iteration added keeps its first iteration. The pairs ascend by their winners.
    winners = (int(added.pairs.i[0]), int(added.pairs.i[-1]) + 1)
    is_of_iteration = PairRow.first_iteration == added.iteration
    conditions = (is_of_iteration, *_has_winner_in(winners))
    n_before = count_pairs(connection, added.run, added.split, *conditions)
    _upsert_wrong(connection, added, first_iteration=added.iteration)
    _upsert_right(connection, added)
    if n_before == 0:
        return count_pairs(connection, added.run, added.split, *conditions)
    # An earlier call or another process has added pairs in this iteration. Only pairs of this call
    # are counted, so they are compared one by one.
    pairs_of_iteration = read_pairs(
        connection, added.run, added.split, is_of_iteration, docs=winners
    )
    return int(np.count_nonzero(added.pairs.is_in(pairs_of_iteration)))


def _upsert_wrong(connection: Connection, added: AddedPairs, *, first_iteration: int) -> None:
    """Insert the pairs that were wrong in the iteration; in a stored pair, count the mistake."""
    rows = _rows_of_pairs(added, added.pairs.wrong)
    _upsert(connection, added, rows, first_iteration=first_iteration, wrong_in=added.iteration)


def _upsert_right(connection: Connection, added: AddedPairs) -> None:
    """Insert the pairs that were right in the iteration; add stored pairs to its set of pairs."""
    rows = _rows_of_pairs(added, ~added.pairs.wrong)
    _upsert(connection, added, rows, first_iteration=added.iteration, wrong_in=NEVER_WRONG)


def _rows_of_pairs(added: AddedPairs, is_chosen: Bool) -> I64:
    """Return an array (m, 3) with the query, the winner and the loser of each chosen pair."""
    pairs = added.pairs
    return np.stack([added.query[is_chosen], pairs.i[is_chosen], pairs.j[is_chosen]], 1)


def _upsert(
    connection: Connection, added: AddedPairs, rows: I64, *, first_iteration: int, wrong_in: int
) -> None:
    """Insert or update pairs of an iteration, either all its wrong pairs or all its right pairs.

    Args:
        connection: an open transaction.
        added: the iteration; its run and its split are used.
        rows: (m, 3) query, winner and loser of each pair.
        first_iteration: the iteration that adds the pairs to their set, or NEVER_ADDED.
        wrong_in: the iteration, if all pairs were wrong in it, or NEVER_WRONG if all were right.
    """
    n_mistakes = int(wrong_in != NEVER_WRONG)
    # The values are in the order of COLUMNS. The parameters "?" are query, winner and loser. Values
    # that all rows share are written into the statement, because binding them per row is slow. In a
    # new row, `wrong_in` is both the last and the first iteration with a mistake.
    values_of_row = (
        f"({int(added.run)}, '{added.split}', ?, ?, ?, {int(first_iteration)}, {int(wrong_in)}, "
        f"{n_mistakes}, {int(wrong_in)})"
    )
    for start in range(0, len(rows), ROWS_A_STATEMENT):
        part = rows[start : start + ROWS_A_STATEMENT]
        values_of_rows = ", ".join([values_of_row] * len(part))
        statement = f"{INSERT}VALUES {values_of_rows}{UPSERT}"
        connection.exec_driver_sql(statement, tuple(part.ravel().tolist()))
