"""Read and append the judgements of a collection; this module alone numbers judgements."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import count, groupby
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, insert, select

from sortnet.errors import JudgementError, StoreError
from sortnet.preference import Judgement
from sortnet.preference.base import SET_FIELDS, check_undo
from sortnet.preference.judgement_table import Judgements
from store.collections.collection_rows import CollectionRows
from store.database.schema import AnnotatorRow, JudgementItemRow, JudgementRow, columns_of

_IN_COLLECTION = JudgementRow.collection == bindparam("of")
# Statements that run at every answer are built once, because building a statement takes longer than
# running it.
_JUDGEMENTS = (
    select(*columns_of(Judgement, JudgementRow))
    .join(AnnotatorRow, AnnotatorRow.number == JudgementRow.annotator)
    .where(_IN_COLLECTION)
    .order_by(JudgementRow.number)
)
_JUDGEMENTS_BETWEEN = _JUDGEMENTS.where(
    JudgementRow.number > bindparam("after"), JudgementRow.number <= bindparam("upto")
)
_JUDGEMENT_UNDER_LEASE = _JUDGEMENTS.where(
    JudgementRow.lease == bindparam("lease"), AnnotatorRow.name == bindparam("annotator")
)
_ITEMS_OF_SETS = (
    select(
        JudgementItemRow.number,
        JudgementItemRow.place,
        JudgementItemRow.item,
        JudgementItemRow.choice,
    )
    .where(
        JudgementItemRow.collection == bindparam("of"),
        JudgementItemRow.number >= bindparam("first"),
        JudgementItemRow.number <= bindparam("last"),
    )
    .order_by(JudgementItemRow.number, JudgementItemRow.place)
)
_LAST = select(func.max(JudgementRow.number)).where(_IN_COLLECTION)
BLOCK = 50_000  # number of judgements that are read at once
_HIGHEST = 2**31 - 1  # the highest number that the table can store
_FIELDS = [field.name for field in fields(Judgement) if field.name not in SET_FIELDS]
# Positions of columns in a row of `_JUDGEMENTS`.
_LEFT_POSITION = _FIELDS.index("left")
_RIGHT_POSITION = _FIELDS.index("right")
_NUMBER_POSITION = _FIELDS.index("number")
_MOST_LOOKED_UP = 500  # the most ids that are looked up one by one; for more, all ids are read


class JudgementRows(CollectionRows):
    """Operations on the judgements of a collection, which are numbered from 1."""

    def judgements(self, after: int = 0) -> Judgements:
        """Read all judgements and undos with a number above `after`, in the order of the numbers.

        Cost: about 5 us and 90 bytes a judgement; about 20 us if it is about more than two items.
        """
        judgements = Judgements()
        with self.transaction():
            for block in self.blocks(after):
                judgements.extend(block)
        return judgements

    def blocks(self, after: int = 0) -> Iterator[Judgements]:
        """Read the present judgements with a number above `after` in blocks, in order."""
        upto = self.n_judgements
        starts = range(after, upto, BLOCK)
        return (self._judgements(start, min(start + BLOCK, upto)) for start in starts)

    @property
    def n_judgements(self) -> int:
        """The number of judgements, including undos."""
        with self.transaction() as connection:
            return connection.execute(_LAST, {"of": self.number}).scalar() or 0

    def judgement_ids(self) -> list[str]:
        """Read the ids of all judgements, in the order of their numbers.

        An import recognises stored judgements by their ids.
        """
        query = select(JudgementRow.id).where(JudgementRow.collection == self.number)
        with self.transaction() as connection:
            return list(connection.execute(query.order_by(JudgementRow.number)).scalars())

    def _judgements(self, after: int, upto: int = _HIGHEST) -> Judgements:
        """Read the judgements with numbers from `after` + 1 to `upto`, in order."""
        parameters = {"of": self.number, "after": after, "upto": upto}
        with self.transaction() as connection:
            rows = connection.execute(_JUDGEMENTS_BETWEEN, parameters).all()
            return Judgements.of_rows(self._with_items(connection, rows))

    def _answer_under(self, lease: str, annotator: str) -> Judgement | None:
        """Read the answer that an annotator gave under a lease; None if there is no answer."""
        parameters = {"of": self.number, "lease": lease, "annotator": annotator}
        with self.transaction() as connection:
            rows = connection.execute(_JUDGEMENT_UNDER_LEASE, parameters).all()
            complete_rows = self._with_items(connection, rows)
        return Judgement(*complete_rows[0]) if complete_rows else None

    def _with_items(
        self, connection: Connection, rows: Sequence[Row[Any]]
    ) -> Sequence[Sequence[Any]]:
        """Add the numbers of the items to the rows of judgements about more than two items.

        Args:
            connection: an open transaction.
            rows: rows of `_JUDGEMENTS`, ascending by number.

        Returns rows with the fields of `Judgement`. The rows lack `SET_FIELDS` if all judgements
        are about pairs.
        """
        # A judgement about more than two items has no left and right in its row.
        numbers_of_sets = [row[_NUMBER_POSITION] for row in rows if row[_LEFT_POSITION] is None]
        if not numbers_of_sets:
            return rows
        item_rows_of_number = self._item_rows_of_judgements(connection, numbers_of_sets)
        complete_rows: list[Sequence[Any]] = []
        for row in rows:
            if row[_LEFT_POSITION] is None:
                item_rows = item_rows_of_number[row[_NUMBER_POSITION]]
                complete_rows.append(_row_of_set(row, item_rows))
            else:
                complete_rows.append((*row, (), None, None))  # no further items, best or worst
        return complete_rows

    def _item_rows_of_judgements(
        self, connection: Connection, numbers: Sequence[int]
    ) -> dict[int, list[Any]]:
        """Return {number of a judgement: rows of its items, in the order in which they were shown}.

        Args:
            connection: an open transaction.
            numbers: the numbers of judgements about more than two items, ascending. They must be
                all such numbers between the first and the last, because one statement reads the
                items of all judgements in this range.

        Raises:
            StoreError: if a judgement has no items.
        """
        parameters = {"of": self.number, "first": numbers[0], "last": numbers[-1]}
        item_rows = connection.execute(_ITEMS_OF_SETS, parameters)
        item_rows_of_number: dict[int, list[Any]] = {
            number: list(rows_of_judgement)
            for number, rows_of_judgement in groupby(item_rows, lambda item_row: item_row.number)
        }
        if len(item_rows_of_number) != len(numbers):
            raise StoreError(f"{self.database.name}: a judgement in it has no items")
        return item_rows_of_number

    def _judgement_to_undo(self, number: int) -> Judgement:
        """Read the judgement with a number; raise a JudgementError if there is none."""
        judgements = self._judgements(number - 1, number)
        if len(judgements) == 0:
            raise JudgementError(f"an undo of judgement {number}, which is not there")
        return judgements[0]

    def _insert_judgements(
        self,
        judgements: Sequence[Judgement],
        annotator_keys: Mapping[str, int],
        *,
        ids: Sequence[str] | None = None,
        lease: str | None = None,
    ) -> list[Judgement]:
        """Append the judgements whose ids are not stored yet, and return them with new numbers.

        The collection is locked, so that numbers have no gaps, and nobody can read a number before
        all lower numbers are stored.

        Args:
            judgements: the judgements.
            annotator_keys: {name: key} of their annotators.
            ids: an id for each judgement. If None, new ids are made.
            lease: id of the lease under which a single answer was given.

        Raises:
            JudgementError: on an undo of a judgement that is missing, another annotator's, or
                undone already.
        """
        with self.locked() as connection:
            first_number = self.n_judgements + 1
            if ids is None:
                ids = [secrets.token_hex(8) for _ in judgements]
                number_of_stored_id: dict[str, int] = {}
            else:
                number_of_stored_id = self._numbers_by_id(ids)
            judgements_with_ids = zip(ids, judgements, strict=True)
            new_with_ids = list(
                _number_new_judgements(judgements_with_ids, number_of_stored_id, first_number)
            )
            new_judgements = [judgement for _, judgement in new_with_ids]
            self._check_undoes(new_judgements, first_number)
            rows = [
                self._judgement_row(judgement, id, annotator_keys[judgement.annotator], lease)
                for id, judgement in new_with_ids
            ]
            if rows:
                connection.execute(insert(JudgementRow), rows)
            self._insert_items_of_sets(connection, new_judgements)
        return new_judgements

    def _judgement_row(
        self, judgement: Judgement, id: str, annotator: int, lease: str | None
    ) -> dict[str, Any]:
        """Make the row {column: value} of a judgement.

        If there are more than two items, left and right are None, because the items are in rows of
        another table.

        Args:
            judgement: the judgement.
            id: the id of the judgement.
            annotator: the key of the judgement's annotator.
            lease: the id of the lease under which the judgement was given; None: there was none.
        """
        columns = {name: value for name, value in vars(judgement).items() if name not in SET_FIELDS}
        if judgement.further:
            columns["left"] = columns["right"] = None
        return {
            **columns,
            "collection": self.number,
            "annotator": annotator,
            "id": id,
            "lease": lease,
        }

    def _insert_items_of_sets(
        self, connection: Connection, judgements: Sequence[Judgement]
    ) -> None:
        """Store the items of the judgements that are about more than two items."""
        item_rows: list[dict[str, Any]] = []
        for judgement in judgements:
            if judgement.further:
                item_rows += self._item_rows(judgement)
        if item_rows:
            connection.execute(insert(JudgementItemRow), item_rows)

    def _item_rows(self, judgement: Judgement) -> list[dict[str, Any]]:
        """Make a table row for each item of a judgement about more than two items."""
        # `best` or `worst` is None if the annotator did not choose one. No item is None.
        choices = {judgement.best: "best", judgement.worst: "worst"}
        return [
            {
                "collection": self.number,
                "number": judgement.number,
                "place": place,
                "item": item,
                "choice": choices.get(item),
            }
            for place, item in enumerate(judgement.items)
        ]

    def _numbers_by_id(self, ids: Sequence[str]) -> dict[str, int]:
        """Return {id: number} of the stored judgements with these ids.

        If there are many ids, the result has all judgements of the collection.
        """
        if len(ids) > _MOST_LOOKED_UP:
            # Numbers count from 1 without gaps, in the order of the ids.
            return dict(zip(self.judgement_ids(), count(1)))
        query = select(JudgementRow.id, JudgementRow.number).where(
            JudgementRow.collection == self.number, JudgementRow.id.in_(ids)
        )
        with self.transaction() as connection:
            return {row.id: row.number for row in connection.execute(query)}

    def _check_undoes(self, judgements: Sequence[Judgement], first_number: int) -> None:
        """Refuse an undo if its judgement is missing, another annotator's, or undone already.

        Args:
            judgements: new judgements, numbered without gaps.
            first_number: the number of the first new judgement.
        """
        if all(judgement.undoes is None for judgement in judgements):
            return
        query = select(JudgementRow.undoes).where(JudgementRow.collection == self.number)
        with self.transaction() as connection:
            undone_numbers = set(connection.execute(query).scalars())
            for judgement in judgements:
                number = judgement.undoes
                if number is None:
                    continue
                undone: Judgement | None = None
                if number < first_number:  # the judgement is stored
                    undone = self._judgement_to_undo(number)
                elif number < judgement.number:  # it is a new judgement before the undo
                    undone = judgements[number - first_number]
                check_undo(judgement, undone, undone=number in undone_numbers)
                undone_numbers.add(number)


def _row_of_set(row: Sequence[Any], item_rows: Sequence[Any]) -> tuple[Any, ...]:
    """Complete the row of a judgement about more than two items from the rows of its items.

    Args:
        row: a row of `_JUDGEMENTS`, whose left and right are None.
        item_rows: the rows of the items, in the order in which the items were shown.
    """
    left, right, *further = (item_row.item for item_row in item_rows)
    item_of_choice = {item_row.choice: item_row.item for item_row in item_rows}
    values = [*row]
    values[_LEFT_POSITION] = left
    values[_RIGHT_POSITION] = right
    return (*values, tuple(further), item_of_choice.get("best"), item_of_choice.get("worst"))


def _number_new_judgements(
    judgements_with_ids: Iterable[tuple[str, Judgement]],
    number_of_stored_id: Mapping[str, int],
    first_number: int,
) -> Iterator[tuple[str, Judgement]]:
    """Yield (id, judgement) of the judgements that are not stored yet, with new numbers.

    Judgements from a file have the numbers of the file. There, an undo names the judgement that it
    undoes by the number in the file. Such an undo gets the number in the store instead.

    Args:
        judgements_with_ids: (id, judgement) of all judgements.
        number_of_stored_id: {id: number} of stored judgements.
        first_number: the first new number.
    """
    new_numbers = count(first_number)
    number_in_store: dict[int | None, int] = {}  # {number in the file: number in the store}
    for id, judgement in judgements_with_ids:
        if id in number_of_stored_id:
            number = number_of_stored_id[id]
        else:
            number = next(new_numbers)
            undoes = number_in_store.get(judgement.undoes, judgement.undoes)
            yield id, replace(judgement, number=number, undoes=undoes)
        if judgement.number:  # 0: the judgement is not from a file
            number_in_store[judgement.number] = number
