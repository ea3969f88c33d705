"""The judgements of a collection in the database: the one place where one becomes a row and back.

Only here they get their numbers.
"""

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

_OF = JudgementRow.collection == bindparam("of")
# Statements of every answer are built once: that takes longer than to run them.
_JUDGEMENTS = (
    select(*columns_of(Judgement, JudgementRow))
    .join(AnnotatorRow, AnnotatorRow.number == JudgementRow.annotator)
    .where(_OF)
    .order_by(JudgementRow.number)
)
_BETWEEN = _JUDGEMENTS.where(
    JudgementRow.number > bindparam("after"), JudgementRow.number <= bindparam("upto")
)
_UNDER = _JUDGEMENTS.where(
    JudgementRow.lease == bindparam("lease"), AnnotatorRow.name == bindparam("annotator")
)
_ITEMS = (
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
_LAST = select(func.max(JudgementRow.number)).where(_OF)
BLOCK = 50_000  # judgements read at once
_MOST = 2**31 - 1  # of numbers in the table
_FIELDS = [field.name for field in fields(Judgement) if field.name not in SET_FIELDS]
_LEFT, _RIGHT, _NUMBER = (_FIELDS.index(name) for name in ("left", "right", "number"))
_FEW = 500  # ids that are looked up by the index; for more all ids are read


class JudgementRows(CollectionRows):
    """The judgements of a collection, in the order of their numbers."""

    def judgements(self, after: int = 0) -> Judgements:
        """All judgements with a higher number, in order, including undos.

        Cost: about 5 us and 90 bytes each; about 20 us for one about more than two items.
        """
        judgements = Judgements()
        for block in self.blocks(after):
            judgements.extend(block)
        return judgements

    def blocks(self, after: int = 0) -> Iterator[Judgements]:
        """The judgements with a higher number that are there now, some at a time, in order."""
        upto = self.n_judgements
        starts = range(after, upto, BLOCK)
        return (self._judgements(start, min(start + BLOCK, upto)) for start in starts)

    @property
    def n_judgements(self) -> int:
        """The number of judgements, including undos."""
        with self.transaction() as connection:
            return connection.execute(_LAST, {"of": self.number}).scalar() or 0

    def judgement_ids(self) -> list[str]:
        """The ids by which an import recognises judgements, in the order of their numbers."""
        ids = select(JudgementRow.id).where(JudgementRow.collection == self.number)
        with self.transaction() as connection:
            return list(connection.execute(ids.order_by(JudgementRow.number)).scalars())

    def _judgements(self, after: int, upto: int = _MOST) -> Judgements:
        """Judgements with a higher number, up to another one, in order."""
        these = {"of": self.number, "after": after, "upto": upto}
        with self.transaction() as connection:
            rows = connection.execute(_BETWEEN, these).all()
            return Judgements.of_rows(self._with_items(connection, rows))

    def _answer_under(self, lease: str, annotator: str) -> Judgement | None:
        """The answer stored under a lease, if it is this annotator's."""
        these = {"of": self.number, "lease": lease, "annotator": annotator}
        with self.transaction() as connection:
            rows = connection.execute(_UNDER, these).all()
            complete = self._with_items(connection, rows)
            return Judgement(*complete[0]) if complete else None

    def _with_items(
        self, connection: Connection, rows: Sequence[Row[Any]]
    ) -> Sequence[Sequence[Any]]:
        """The rows, ascending by number, with the items of those about more than two.

        Rows about pairs alone lack `SET_FIELDS`, as they do in the table.
        """
        numbers = [row[_NUMBER] for row in rows if row[_LEFT] is None]
        if not numbers:
            return rows
        these = {"of": self.number, "first": numbers[0], "last": numbers[-1]}
        items_of = {
            number: list(items)
            for number, items in groupby(connection.execute(_ITEMS, these), lambda item: item[0])
        }
        if len(items_of) != len(numbers):
            raise StoreError(f"{self.database.name}: a judgement in it has no items")
        return [
            (*row, (), None, None)
            if row[_LEFT] is not None
            else _row_of_set(row, items_of[row[_NUMBER]])
            for row in rows
        ]

    def _judgement_to_undo(self, number: int) -> Judgement:
        """The judgement of that number, which must exist."""
        judgements = self._judgements(number - 1, number)
        if not len(judgements):
            raise JudgementError(f"an undo of judgement {number}, which is not there")
        return judgements[0]

    def _insert_judgements(
        self,
        judgements: Sequence[Judgement],
        annotators: Mapping[str, int],
        *,
        ids: Sequence[str] | None = None,
        lease: str | None = None,
    ) -> list[Judgement]:
        """Append judgements, with new numbers, but those whose ids are known; undos are checked.

        The lock is held, so numbers have no gaps, and no lower number is added after a higher one
        has been read. `annotators` are the keys by name.
        """
        with self.locked() as connection:
            first = self.n_judgements + 1
            stored = {} if ids is None else self._numbers_by_id(ids)
            all_ids = [secrets.token_hex(8) for _ in judgements] if ids is None else ids
            new = list(_renumbered(zip(all_ids, judgements, strict=True), stored, first))
            numbered = [judgement for _, judgement in new]
            self._check_undoes(numbered, first)
            rows = [
                self._row_of(judgement, annotators, id=id, lease=lease) for id, judgement in new
            ]
            if rows:
                connection.execute(insert(JudgementRow), rows)
            items = [item for one in numbered if one.further for item in self._items_of(one)]
            if items:
                connection.execute(insert(JudgementItemRow), items)
        return numbered

    def _row_of(
        self, judgement: Judgement, annotators: Mapping[str, int], *, id: str, lease: str | None
    ) -> dict[str, Any]:
        """The row of a judgement: its fields, the annotator by their key."""
        key = annotators[judgement.annotator]
        of = {"collection": self.number, "annotator": key, "id": id, "lease": lease}
        facts = {name: value for name, value in vars(judgement).items() if name not in SET_FIELDS}
        if judgement.further:
            facts |= {"left": None, "right": None}
        return facts | of

    def _items_of(self, judgement: Judgement) -> list[dict[str, Any]]:
        """The rows of the items of a judgement about more than two."""
        choices = {judgement.best: "best", judgement.worst: "worst"}
        of = {"collection": self.number, "number": judgement.number}
        return [
            of | {"place": place, "item": item, "choice": choices.get(item)}
            for place, item in enumerate(judgement.items)
        ]

    def _numbers_by_id(self, ids: Sequence[str]) -> dict[str, int]:
        """{id: number} of at least those of the ids that are stored."""
        if len(ids) > _FEW:
            return dict(zip(self.judgement_ids(), count(1)))
        these = JudgementRow.collection == self.number, JudgementRow.id.in_(ids)
        with self.transaction() as connection:
            rows = connection.execute(select(JudgementRow.id, JudgementRow.number).where(*these))
            return {row.id: row.number for row in rows}

    def _check_undoes(self, judgements: Sequence[Judgement], first: int) -> None:
        """Refuse undos of what is missing, another's or undone; `first` is the first new number."""
        if all(judgement.undoes is None for judgement in judgements):
            return
        earlier: dict[int, Judgement] = {}
        undos = select(JudgementRow.undoes).where(JudgementRow.collection == self.number)
        with self.transaction() as connection:
            undone = set(connection.execute(undos).scalars())
            for judgement in judgements:
                if (number := judgement.undoes) is not None:
                    if number < first:
                        earlier[number] = self._judgement_to_undo(number)
                    check_undo(judgement, earlier.get(number), undone=number in undone)
                    undone.add(number)
                earlier[judgement.number] = judgement


def _row_of_set(row: Sequence[Any], items: Sequence[Any]) -> tuple[Any, ...]:
    """The row of a judgement about more than two items, with their rows in order of places."""
    left, right, *further = (item.item for item in items)
    chosen = {item.choice: item.item for item in items}
    values = [*row]
    values[_LEFT], values[_RIGHT] = left, right
    return (*values, tuple(further), chosen.get("best"), chosen.get("worst"))


def _renumbered(
    judgements: Iterable[tuple[str, Judgement]], known: Mapping[str, int], first: int
) -> Iterator[tuple[str, Judgement]]:
    """The new judgements numbered from `first`, with undos adjusted to the stored numbers."""
    moved: dict[int, int] = {}
    numbers = count(first)
    for id, judgement in judgements:
        number = known[id] if id in known else next(numbers)
        if id not in known:
            undoes = judgement.undoes and moved.get(judgement.undoes, judgement.undoes)
            yield id, replace(judgement, number=number, undoes=undoes)
        if judgement.number:
            moved[judgement.number] = number
