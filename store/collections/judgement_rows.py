"""Read and append the judgements of a collection; this module alone numbers judgements."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from sqlalchemy import bindparam, func, insert, select

from sortnet.files import Record
from sortnet.preference import Judgement
from sortnet.preference.base import check_undo
from sortnet.preference.judgement_table import Judgements
from store.collections.collection_rows import CollectionRows
from store.database.schema import AnnotatorRow, JudgementRow, columns_of

_IN_COLLECTION = JudgementRow.collection == bindparam("of")
_JUDGEMENTS = (
    select(*columns_of(Judgement, JudgementRow))
    .join(AnnotatorRow, AnnotatorRow.number == JudgementRow.annotator)
    .where(_IN_COLLECTION)
)
_AFTER = _JUDGEMENTS.where(JudgementRow.number > bindparam("after")).order_by(JudgementRow.number)
_LAST = select(func.max(JudgementRow.number)).where(_IN_COLLECTION)
BLOCK = 50_000  # number of judgements that are in memory as objects at once
_MOST_LOOKED_UP = 500  # the most ids that are looked up one by one; for more, all ids are read


class JudgementRows(CollectionRows):
    """Operations on the judgements of a collection, which are numbered from 1."""

    def judgements(self, after: int = 0) -> Judgements:
        """Read all judgements and undos with a number above `after`, in the order of the numbers.

        Cost: about 10 us and 200 bytes a judgement.
        """
        parameters = {"of": self.number, "after": after}
        judgements = Judgements()
        with self.transaction() as connection:
            for rows in connection.execute(_AFTER, parameters).partitions(BLOCK):
                judgements.extend(Judgements([Judgement(*row) for row in rows]))
        return judgements

    @property
    def n_judgements(self) -> int:
        """The number of judgements, including undos."""
        return self.read_value(_LAST) or 0

    def judgement_ids(self) -> list[str]:
        """Read the ids of all judgements, in the order of their numbers.

        An import recognises stored judgements by their ids.
        """
        query = select(JudgementRow.id).where(JudgementRow.collection == self.number)
        return [row.id for row in self.read(query.order_by(JudgementRow.number))]

    def _judgement(self, *conditions: Any) -> Judgement | None:
        """Read the judgement for which all conditions hold; None if there is none."""
        rows = self.read(_JUDGEMENTS.where(*conditions))
        return Judgement(*tuple(rows[0])) if rows else None

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

        Judgements from a file have the numbers of the file. There, an undo names the judgement that
        it undoes by the number in the file. Such an undo gets the number in the store instead.

        Args:
            judgements: the judgements.
            annotator_keys: {name: key} of their annotators.
            ids: an id for each judgement. If None, new ids are made.
            lease: id of the lease under which a single answer was given.

        Raises:
            JudgementError: on an undo of a judgement that is missing, another annotator's, or
                undone already.
        """
        number_of_id = {} if ids is None else self._numbers_by_id(ids)
        ids = ids or [secrets.token_hex(8) for _ in judgements]
        number_in_store: dict[int | None, int] = {}  # {number in the file: number in the store}
        stored: list[Judgement] = []
        rows: list[Record] = []
        first_number = self.n_judgements + 1
        for id, judgement in zip(ids, judgements, strict=True):
            number = number_of_id.get(id)
            if number is None:
                number = first_number + len(stored)
                undoes = number_in_store.get(judgement.undoes, judgement.undoes)
                stored.append(replace(judgement, number=number, undoes=undoes))
                key = annotator_keys[judgement.annotator]
                facts = {"collection": self.number, "annotator": key, "id": id, "lease": lease}
                rows.append({**vars(stored[-1]), **facts})
            if judgement.number:  # 0: the judgement is not from a file
                number_in_store[judgement.number] = number
        self._check_undoes(stored, first_number)
        self.insert(insert(JudgementRow), rows)
        return stored

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
        return {row.id: row.number for row in self.read(query)}

    def _check_undoes(self, judgements: Sequence[Judgement], first_number: int) -> None:
        """Refuse an undo if its judgement is missing, another annotator's, or undone already.

        Args:
            judgements: new judgements, numbered without gaps.
            first_number: the number of the first new judgement.
        """
        undos = [judgement for judgement in judgements if judgement.undoes is not None]
        if not undos:
            return
        query = select(JudgementRow.undoes).where(JudgementRow.collection == self.number)
        undone_numbers = {row.undoes for row in self.read(query)}
        for undo in undos:
            number = undo.undoes or 0
            undone: Judgement | None = None
            if number < first_number:  # the judgement is stored
                undone = self._judgement(JudgementRow.number == number)
            elif number < undo.number:  # it is a new judgement before the undo
                undone = judgements[number - first_number]
            check_undo(undo, undone, undone=number in undone_numbers)
            undone_numbers.add(number)
