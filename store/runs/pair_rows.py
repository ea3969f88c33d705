"""Read and write pairs in the database, whole arrays at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Text, cast, func, select, tuple_

from sortnet.core import I64, NEVER_ADDED, NEVER_WRONG, ComparedPairs, Split
from sortnet.core.pairs import packed
from store.database.schema import PairRow
from store.runs.postgresql_pairs import COLUMNS, AddedPairs, changes, copy_pairs

# SQLite allows 32,766 variables in a statement; more rows in a statement were no faster.
ROWS_A_STATEMENT = 2000
DOCS_A_CHUNK = 10_000
NOT_COUNTED = -2  # in place of NULL, in `first_wrong` of stores before m0011
_FIRST_ITERATION, _FIRST_WRONG, _LAST_WRONG = 2, 3, 4  # columns of the tables of `read_table`

INSERT = f"INSERT INTO pairs ({COLUMNS}) "
UPSERT = " ON CONFLICT (run, split, winner, loser) DO UPDATE SET {} WHERE {}".format(
    *changes("excluded")
)


def add_pairs(connection: Connection, added: AddedPairs) -> int:
    """Store an iteration's pairs; return how many pairs it added to its training or validation set.

    Cost: SQLite takes a statement for 2,000 pairs, then a count of the stored pairs of these
    documents: RETURNING takes 0.5 us per row, counting 0.07. PostgreSQL copies new pairs into the
    table at about 0.4 of SQLite's rate; INSERT ... SELECT from a temporary table takes 1.5 x as
    long as COPY, with ON CONFLICT 2 x.
    """
    if not len(added.pairs):
        return 0
    add = _insert if connection.dialect.name == "sqlite" else copy_pairs
    return add(connection, added)


def count_pairs(
    connection: Connection, run: int, split: Split, *conditions: ColumnElement[bool]
) -> int:
    """The number of a run's pairs that meet the conditions."""
    query = select(func.count()).where(PairRow.run == run, PairRow.split == split, *conditions)
    return connection.execute(query).scalar_one()


def read_pairs(
    connection: Connection,
    run: int,
    split: Split,
    *conditions: ColumnElement[bool],
    docs: tuple[int, int] | None = None,
) -> ComparedPairs:
    """Read a run's pairs, in order of (winner, loser).

    Args:
        conditions: only pairs that meet these.
        docs: only pairs whose winner has a number from docs[0] to docs[1] - 1; None: all.

    Raises:
        ValueError: on an invalid document number.

    Cost: one statement for 10,000 documents. The database joins all numbers in one text:
    numpy parses the text in a fifth of the time that a driver needs to make rows.
    """
    of_split = (PairRow.run == run, PairRow.split == split)
    extremes = select(
        func.min(PairRow.winner),
        func.max(PairRow.winner),
        func.min(PairRow.loser),
        func.max(PairRow.loser),
    ).where(*of_split, *_within(docs))
    first, last, lowest_loser, highest_loser = connection.execute(extremes).one()
    if first is None:
        return ComparedPairs.empty()
    for document in (first, last, lowest_loser, highest_loser):
        if not 0 <= document < 2**31:
            raise ValueError(f"{split} pairs of run {run} have a document {document}")
    key = PairRow.winner * 2**32 + PairRow.loser  # the key of `ComparedPairs`
    joined = select(func.aggregate_strings(cast(key, Text), ",")).where(*of_split, *conditions)
    chunks = [np.empty(0, np.int64)]
    for start in range(first, last + 1, DOCS_A_CHUNK):
        # The statement has one range of winners: of two, SQLite might search the wider one.
        docs_of_chunk = (start, min(start + DOCS_A_CHUNK, last + 1))
        text = connection.execute(joined.where(*_within(docs_of_chunk))).scalar()
        if text:
            # A database may join numbers in any order; numbers in order are sorted quickly.
            chunks.append(np.sort(np.fromstring(text, np.int64, sep=",")))
    return ComparedPairs.of_keys(np.concatenate(chunks))


def read_table(
    connection: Connection, run: int, split: Split, chunk: int, *conditions: ColumnElement[bool]
) -> Iterator[I64]:
    """Yield tables (m, 6) of at most `chunk` pairs of a run, in order of (winner, loser).

    The columns are winner, loser, first iteration, first and last iteration wrong, times. Each
    statement starts where the previous statement ended, in the key's order.

    Args:
        conditions: only pairs that meet these.
    """
    rows = (
        select(
            PairRow.winner,
            PairRow.loser,
            PairRow.first_iteration,
            func.coalesce(PairRow.first_wrong, NOT_COUNTED).label("first_wrong"),
            PairRow.last_wrong,
            PairRow.times,
        )
        .where(PairRow.run == run, PairRow.split == split, *conditions)
        .order_by(PairRow.winner, PairRow.loser)
        .limit(chunk)
    )
    last = (-1, -1)
    while text := connection.execute(
        _joined(rows.where(tuple_(PairRow.winner, PairRow.loser) > tuple_(*last)))
    ).scalar():
        table = np.fromstring(text, np.int64, sep=",").reshape(-1, 6)
        key = packed(table[:, 0], table[:, 1])
        if np.any(np.diff(key) < 0):  # a database may join in any order
            table = table[np.argsort(key)]
        yield table
        if len(table) < chunk:
            return
        last = (int(table[-1, 0]), int(table[-1, 1]))


def without_older_counts(table: I64, *, has_mistakes_only: bool) -> I64:
    """Replace NOT_COUNTED, which stands for iterations that old stores did not count, in a table.

    Args:
        has_mistakes_only: whether the run added only wrong pairs to TP and VP (--pairs wrong). Then
            the iteration that added a pair is the first iteration in which the pair was wrong.
    """
    is_old = table[:, _FIRST_WRONG] == NOT_COUNTED
    if has_mistakes_only:
        table[is_old, _FIRST_WRONG] = table[is_old, _FIRST_ITERATION]
    else:
        table[is_old, _FIRST_WRONG] = NEVER_WRONG
        table[is_old, _LAST_WRONG] = NEVER_WRONG
    return table


def _joined(rows: Any) -> Any:
    """Make a statement that returns all numbers of all rows in one text, see `read_pairs`."""
    first, *further = (cast(column, Text) for column in rows.subquery().c)
    text_of_row: ColumnElement[str] = first
    for column in further:
        text_of_row = text_of_row.concat(",").concat(column)
    return select(func.aggregate_strings(text_of_row, ","))


def _within(docs: tuple[int, int] | None) -> list[ColumnElement[bool]]:
    """The conditions that a winner is from docs[0] to docs[1] - 1; none if `docs` is None."""
    if docs is None:
        return []
    return [PairRow.winner >= docs[0], PairRow.winner < docs[1]]


def _insert(connection: Connection, added: AddedPairs) -> int:
    """Do `add_pairs` in SQLite, where no other transaction writes at the same time."""
    pairs = added.pairs
    iteration = added.iteration
    rows = np.stack([added.query, pairs.i, pairs.j], 1)
    if not added.in_set:
        _upsert(connection, added, rows[pairs.wrong], NEVER_ADDED, iteration)
        return 0
    docs = int(pairs.i[0]), int(pairs.i[-1]) + 1
    is_new = PairRow.first_iteration == iteration
    n_before = count_pairs(connection, added.run, added.split, is_new, *_within(docs))
    _upsert(connection, added, rows[pairs.wrong], iteration, iteration)
    _upsert(connection, added, rows[~pairs.wrong], iteration, NEVER_WRONG)
    if n_before:  # an earlier call or another process added pairs in this iteration
        of_iteration = read_pairs(connection, added.run, added.split, is_new, docs=docs)
        return int(np.count_nonzero(pairs.is_in(of_iteration)))
    return count_pairs(connection, added.run, added.split, is_new, *_within(docs))


def _upsert(
    connection: Connection, added: AddedPairs, rows: I64, first_iteration: int, wrong_in: int
) -> None:
    """Insert or update rows (query, winner, loser), which are equal in all other columns."""
    times = int(wrong_in != NEVER_WRONG)
    # Values that all rows share are written into the statement: binding them per row is slow. The
    # iteration `wrong_in` is the last one and, in a new row, also the first one with a mistake.
    row = (
        f"({int(added.run)}, '{added.split}', ?, ?, ?, {int(first_iteration)}, {int(wrong_in)}, "
        f"{times}, {int(wrong_in)})"
    )
    for start in range(0, len(rows), ROWS_A_STATEMENT):
        part = rows[start : start + ROWS_A_STATEMENT]
        values = f"VALUES {', '.join([row] * len(part))}"
        connection.exec_driver_sql(INSERT + values + UPSERT, tuple(part.ravel().tolist()))
