"""Read and append the judgements of a collection; this module alone numbers judgements."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from sqlalchemy import bindparam, func, insert, select

from sortnet.errors import JudgementError
from sortnet.preference import Judgement
from sortnet.preference.base import check_undo
from sortnet.preference.judgement_table import Judgements
from store.collections.collection_rows import CollectionRows
from store.database.schema import AnnotatorRow, JudgementRow, columns_of

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
_LAST = select(func.max(JudgementRow.number)).where(_IN_COLLECTION)
BLOCK = 50_000  # number of judgements that are read at once
_HIGHEST = 2**31 - 1  # the highest number that the table can store
_MOST_LOOKED_UP = 500  # the most ids that are looked up one by one; for more, all ids are read


class JudgementRows(CollectionRows):
    """Operations on the judgements of a collection, which are numbered from 1."""

    def judgements(self, after: int = 0) -> Judgements:
        """Read all judgements and undos with a number above `after`, in the order of the numbers.

        Cost: about 10 us and 200 bytes a judgement.
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
            rows = connection.execute(_JUDGEMENTS_BETWEEN, parameters)
            return Judgements([Judgement(*row) for row in rows])

    def _answer_under(self, lease: str, annotator: str) -> Judgement | None:
        """Read the answer that an annotator gave under a lease; None if there is no answer."""
        parameters = {"of": self.number, "lease": lease, "annotator": annotator}
        with self.transaction() as connection:
            row = connection.execute(_JUDGEMENT_UNDER_LEASE, parameters).first()
        return None if row is None else Judgement(*row)

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
                {
                    **vars(judgement),
                    "collection": self.number,
                    "annotator": annotator_keys[judgement.annotator],
                    "id": id,
                    "lease": lease,
                }
                for id, judgement in new_with_ids
            ]
            if rows:
                connection.execute(insert(JudgementRow), rows)
        return new_judgements

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
