"""Read and write pairs in the database, whole arrays at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Text, cast, func, select, text, tuple_

from sortnet.core import I64, NEVER_ADDED, NEVER_WRONG, ComparedPairs, Split
from sortnet.core.pairs import is_in, packed
from store.database.schema import PairRow

PAIRS_A_STATEMENT = 100_000  # their keys are a text of 2 MB
READ_AT_ONCE = 200_000  # number of pairs that the database returns as about 5 MB of text
# The columns of the tables that `read_tables` yields by default.
COLUMNS = (
    PairRow.winner,
    PairRow.loser,
    PairRow.first_iteration,
    PairRow.first_wrong,
    PairRow.last_wrong,
    PairRow.times,
)
_WINNER = 0
_LOSER = 1

# The keys of pairs are passed as one text, because drivers bind numbers slowly.
_KEYS = {
    "sqlite": ("[{}]", "SELECT value AS pair FROM json_each(:keys)"),
    "postgresql": ("{{{}}}", "SELECT unnest(CAST(:keys AS bigint[])) AS pair"),
}
# A pair that no iteration has added to a set so far has NEVER_ADDED as its first iteration, which
# is higher than all iterations. NEVER_WRONG is lower. So adding an iteration again changes nothing,
# and a mistake is counted once an iteration.
_IS_ADDED_NOW = "excluded.first_iteration < pairs.first_iteration"
_IS_WRONG_AGAIN = "excluded.last_wrong > pairs.last_wrong"
_INSERT = """
INSERT INTO pairs (run, split, winner, loser, first_iteration, last_wrong, times, first_wrong)
SELECT :run, :split, pair >> 32, pair & 4294967295, :first, :wrong, :times, :wrong
FROM ({keys}) AS given WHERE true
"""
_UPDATE_STORED = f"""
ON CONFLICT (run, split, winner, loser) DO UPDATE SET
  first_iteration = CASE WHEN {_IS_ADDED_NOW} THEN excluded.first_iteration
    ELSE pairs.first_iteration END,
  first_wrong = CASE WHEN {_IS_WRONG_AGAIN} AND pairs.times = 0 THEN excluded.first_wrong
    ELSE pairs.first_wrong END,
  times = pairs.times + CASE WHEN {_IS_WRONG_AGAIN} THEN 1 ELSE 0 END,
  last_wrong = CASE WHEN {_IS_WRONG_AGAIN} THEN excluded.last_wrong ELSE pairs.last_wrong END
WHERE {_IS_ADDED_NOW} OR {_IS_WRONG_AGAIN}
"""


@dataclass(frozen=True, eq=False)
class AddedPairs:
    """The pairs of one split that an iteration adds, as ascending keys of `ComparedPairs`.

    Attributes:
        split: the split of the pairs.
        iteration: the number of the iteration.
        right, wrong: the pairs that are added to TP or VP, the sets of training and validation
            pairs, by whether they were compared wrongly.
        mistakes: further pairs that were compared wrongly, which are added to no set.
    """

    split: Split
    iteration: int
    right: I64
    wrong: I64
    mistakes: I64

    @classmethod
    def of(
        cls,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> AddedPairs:
        """Make them of the arguments of `PairSink.add`."""
        key = pairs.key
        wrong_keys = key[pairs.wrong]
        if wrong is not None:
            wrong_keys = np.union1d(wrong_keys, wrong.key[wrong.wrong])
        is_wrong = is_in(key, wrong_keys)
        mistakes = wrong_keys[~is_in(wrong_keys, key)]
        return cls(split, iteration, key[~is_wrong], key[is_wrong], mistakes)


def add_pairs(connection: Connection, run: int, added: AddedPairs) -> None:
    """Store the pairs of an iteration; storing them again changes nothing.

    Args:
        connection: an open transaction that writes.
        run: the number of the run.
        added: the pairs.

    Cost: a statement for 100,000 pairs; about 1 us a new pair in SQLite and 4 us in
    PostgreSQL, where 1.5 us are enough if the split has no pairs yet.
    """
    is_of_split = (PairRow.run == run, PairRow.split == added.split)
    stored = connection.execute(select(PairRow.winner).where(*is_of_split).limit(1)).first()
    as_list, keys_of_list = _KEYS[connection.dialect.name]
    sql = _INSERT.format(keys=keys_of_list)
    statement = text(sql if stored is None else sql + _UPDATE_STORED)
    iteration = added.iteration
    for keys, first, wrong in (
        (added.wrong, iteration, iteration),
        (added.mistakes, NEVER_ADDED, iteration),
        (added.right, iteration, NEVER_WRONG),
    ):
        times = int(wrong != NEVER_WRONG)
        values = {"run": run, "split": added.split, "first": first, "wrong": wrong, "times": times}
        for start in range(0, len(keys), PAIRS_A_STATEMENT):
            part = keys[start : start + PAIRS_A_STATEMENT]
            numbers = str(part.tolist()).strip("[]")
            connection.execute(statement, {**values, "keys": as_list.format(numbers)})


def read_pairs(
    connection: Connection, run: int, split: Split, *conditions: ColumnElement[bool]
) -> ComparedPairs:
    """Read the pairs of one split of a run that meet all conditions, in the order of their keys.

    Raises:
        ValueError: on an invalid document number.
    """
    documents = (PairRow.winner, PairRow.loser)
    tables = read_tables(connection, run, split, *conditions, columns=documents, chunk=READ_AT_ONCE)
    pairs = np.concatenate([np.empty((0, 2), np.int64), *tables])
    is_document = (pairs >= 0) & (pairs < 2**31)
    if not is_document.all():
        raise ValueError(f"{split} pairs of run {run} have a document {pairs[~is_document][0]}")
    return ComparedPairs.of_keys(packed(pairs[:, _WINNER], pairs[:, _LOSER]))


def read_tables(
    connection: Connection,
    run: int,
    split: Split,
    *conditions: ColumnElement[bool],
    columns: Sequence[Any] = COLUMNS,
    chunk: int,
) -> Iterator[I64]:
    """Yield the pairs of one split of a run in tables, in the order of (winner, loser).

    Args:
        connection: an open transaction.
        run: the number of the run.
        split: the split.
        conditions: conditions that all yielded pairs meet.
        columns: the columns of the tables, first the winner and the loser.
        chunk: the maximum number of rows of a table.

    Cost: one statement a table. The database joins all numbers to one text, because numpy parses
    this text in a fifth of the time that a driver takes to make rows.
    """
    pairs = (
        select(*columns)
        .where(PairRow.run == run, PairRow.split == split, *conditions)
        .order_by(PairRow.winner, PairRow.loser)
        .limit(chunk)
    )
    next_pairs = pairs
    n_rows = chunk
    while n_rows == chunk:
        joined_numbers = connection.execute(_as_one_text(next_pairs)).scalar()
        table: I64 = np.fromstring(joined_numbers or "", np.int64, sep=",").reshape(
            -1, len(columns)
        )
        n_rows = len(table)
        if n_rows:
            # A database may join rows in any order, whatever the order of the query is.
            table = table[np.lexsort((table[:, _LOSER], table[:, _WINNER]))]
            yield table
            last_pair = tuple_(int(table[-1, _WINNER]), int(table[-1, _LOSER]))
            next_pairs = pairs.where(tuple_(PairRow.winner, PairRow.loser) > last_pair)


def _as_one_text(rows: Any) -> Any:
    """Make a statement that joins all rows of a query to one text of numbers and commas."""
    first, *further = (cast(column, Text) for column in rows.subquery().c)
    text_of_row: ColumnElement[str] = first
    for column in further:
        text_of_row = text_of_row.concat(",").concat(column)
    return select(func.aggregate_strings(text_of_row, ","))
