"""Lease questions to annotators, so that no two annotators are asked about one pair at a time.

No two open questions share a pair, even if the questions are about more than two items.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, bindparam, insert, select, update

from sortnet.errors import LeaseError
from sortnet.preference import Question
from store.collections.collection_rows import CollectionRows
from store.database.schema import AnnotatorRow, LeaseRow

LONGEST_ID = 64


@dataclass(frozen=True)
class Lease:
    """A question leased to one annotator.

    Attributes:
        id: a secret, which allows one answer.
        question: the question.
        annotator: name of the annotator.
        expires: time after which another annotator may be asked, in seconds since 1970.
        process: the process that asks the question, a name of `store.database.claims`. In leases of
            version 0.4 it is None.
        batch: name of the batch with which the question was written to a file, or None.
    """

    id: str
    question: Question
    annotator: str
    expires: float
    process: str | None = field(default=None, compare=False)
    batch: str | None = None


_LEASES = (
    select(LeaseRow.__table__, AnnotatorRow.name)
    .join(AnnotatorRow, AnnotatorRow.number == LeaseRow.annotator)
    .order_by(LeaseRow.number)
)
# Statements that run at every answer are built once, because building a statement takes longer than
# running it.
_IN_COLLECTION = LeaseRow.collection == bindparam("of")
# A live lease is open and has not expired. The index of open leases has the condition
# `LeaseRow.open`. Databases use the index only for queries with the same condition.
_LIVE = (_IN_COLLECTION, LeaseRow.open, LeaseRow.expires > bindparam("now"))


_ALL_LIVE = _LEASES.where(*_LIVE)
_BY_ID = _LEASES.where(_IN_COLLECTION, LeaseRow.id == bindparam("lease"))
_CLOSE = update(LeaseRow).where(_IN_COLLECTION, LeaseRow.open).values(open=False)
_CLOSE_EXPIRED = _CLOSE.where(LeaseRow.expires <= bindparam("now"))
_CLOSE_BY_ID = _CLOSE.where(LeaseRow.id == bindparam("lease"))


class LeaseRows(CollectionRows):
    """Operations on the leases of a collection's questions."""

    def leases(self, annotator: str | None = None) -> list[Lease]:
        """List the live leases, in the order of creation.

        Args:
            annotator: name of the annotator. If None, the leases of all annotators are listed.
        """
        live = self._live_leases(self.clock())
        return [lease for lease in live if annotator in (None, lease.annotator)]

    def may_take_over(self, lease: Lease) -> bool:
        """Whether this process may ask a question in place of the process that leased it.

        It may if the other process has ended, or is this process. The lease of a batch is never
        taken over.
        """
        if lease.batch is not None:
            return False
        claims = self.database.claims
        return lease.process in (None, claims.process) or not claims.is_held(lease.process)

    def question(self, lease: str) -> Question:
        """Return the question of a live or ended lease; raise a LeaseError on an unknown id."""
        stored_lease, _ = self._stored_lease(lease)
        return stored_lease.question

    def question_of_batch(self, batch: str, lease: str) -> Question:
        """Return the question of a lease; raise a LeaseError if the batch has no such lease."""
        stored_lease, _ = self._stored_lease(lease)
        if stored_lease.batch != batch:
            raise LeaseError(f"lease {str(lease)!r} is not of batch {batch}")
        return stored_lease.question

    def _live_leases(self, now: float) -> list[Lease]:
        """List all live leases, in the order of creation."""
        parameters = {"of": self.number, "now": now}
        with self.transaction() as connection:
            return [_lease_of_row(row) for row in connection.execute(_ALL_LIVE, parameters)]

    def _take_leases(
        self,
        annotator: str,
        key: int,
        questions: Sequence[Question],
        renew: Sequence[str],
        *,
        now: float,
        expires: float,
        batch: str | None = None,
    ) -> list[Lease]:
        """Renew leases of an annotator, and lease questions whose pairs are in no live lease.

        Expired leases are closed first. A lease is not renewed if another process asks its
        question. If that other process was killed, the first process that renews the lease gets it.

        Args:
            annotator: name of the annotator.
            key: key of the annotator.
            questions: questions to lease.
            renew: ids of leases to renew.
            now: the present time, in seconds since 1970.
            expires: the time at which the leases expire.
            batch: name of the batch with which the questions are written to a file.
        """
        process = self.database.claims.process
        with self.locked() as connection:
            connection.execute(_CLOSE_EXPIRED, {"of": self.number, "now": now})
            live = self._live_leases(now)
            to_renew = [
                lease for lease in live if lease.id in renew and lease.annotator == annotator
            ]
            renewed = self._renew_leases(to_renew, now=now, expires=expires)
            new_leases = [
                Lease(secrets.token_urlsafe(16), question, annotator, expires, process, batch)
                for question in _without_leased(questions, live)
            ]
            self._insert_leases(new_leases, key, now)
        return renewed + new_leases

    def _renew_leases(self, leases: Sequence[Lease], *, now: float, expires: float) -> list[Lease]:
        """Renew the live leases that this process may take over, and return the renewed leases.

        Args:
            leases: live leases.
            now: the present time, in seconds since 1970.
            expires: the time at which the renewed leases expire.
        """
        process = self.database.claims.process
        renewed = [
            replace(lease, expires=expires, process=process)
            for lease in leases
            if self.may_take_over(lease)
        ]
        if renewed:
            is_renewed = LeaseRow.id.in_([lease.id for lease in renewed])
            change = update(LeaseRow).where(*_LIVE, is_renewed)
            change = change.values(expires=expires, process=process)
            with self.locked() as connection:
                connection.execute(change, {"of": self.number, "now": now})
        return renewed

    def _insert_leases(self, leases: Sequence[Lease], annotator: int, now: float) -> None:
        """Store new leases of an annotator.

        Args:
            leases: the leases.
            annotator: key of the annotator.
            now: the present time, in seconds since 1970.
        """
        rows = [
            {
                **vars(lease.question),
                "process": lease.process,
                "id": lease.id,
                "collection": self.number,
                "annotator": annotator,
                "created": now,
                "expires": lease.expires,
                "open": True,
                "batch": lease.batch,
            }
            for lease in leases
        ]
        if rows:
            with self.locked() as connection:
                connection.execute(insert(LeaseRow), rows)

    def _close_leases(self, *conditions: ColumnElement[bool]) -> None:
        """Close the open leases for which all conditions hold."""
        with self.locked() as connection:
            connection.execute(_CLOSE.where(*conditions), {"of": self.number})

    def _close_leases_about(self, item: int) -> None:
        """Close the open leases whose questions are about an item."""
        with self.locked() as connection:
            query = select(LeaseRow.number, LeaseRow.items).where(_IN_COLLECTION, LeaseRow.open)
            rows = connection.execute(query, {"of": self.number})
            numbers = [row.number for row in rows if item in row.items]
        self._close_leases(LeaseRow.number.in_(numbers))

    def _close_answered(self, id: str) -> None:
        """Close a lease, because its question is answered."""
        with self.locked() as connection:
            connection.execute(_CLOSE_BY_ID, {"of": self.number, "lease": id})

    def _stored_lease(self, id: str) -> tuple[Lease, bool]:
        """Read the lease with an id, which may be expired, and whether it is open.

        A lease is closed when its question is answered or taken back.

        Raises:
            LeaseError: if there is no such lease.
        """
        if may_be_lease_id(id):
            with self.transaction() as connection:
                row = connection.execute(_BY_ID, {"of": self.number, "lease": id}).first()
            if row is not None:
                return _lease_of_row(row), row.open
        raise LeaseError(f"no question was put under lease {id[:LONGEST_ID]!r}")

    def _live_lease_of(self, id: str, annotator: str, now: float) -> Lease:
        """Return the annotator's live lease with an id.

        Raises:
            LeaseError: if the lease is another annotator's, expired or closed.
        """
        lease, is_open = self._stored_lease(id)
        if lease.annotator != annotator:
            raise LeaseError(
                f"the question under lease {str(id)!r} was not put to {str(annotator)!r}"
            )
        if lease.expires <= now:
            ago = f"{now - lease.expires:.0f} s ago"
            raise LeaseError(f"the question to {str(annotator)!r} expired {ago}; take the next")
        if not is_open:
            raise LeaseError(f"the question to {str(annotator)!r} was taken back; take the next")
        return lease


def _without_leased(questions: Sequence[Question], live: Sequence[Lease]) -> list[Question]:
    """Return the questions whose pairs are in no live lease, and in no question before them."""
    leased_pairs = {pair for lease in live for pair in lease.question.pairs}
    free_questions: list[Question] = []
    for question in questions:
        if leased_pairs.isdisjoint(question.pairs):
            leased_pairs.update(question.pairs)
            free_questions.append(question)
    return free_questions


def _lease_of_row(row: Any) -> Lease:
    """Make a lease from its row."""
    question = Question(row.items, row.strategy, row.probability, row.model)
    return Lease(row.id, question, row.name, row.expires, row.process, row.batch)


def may_be_lease_id(id: str) -> bool:
    """Whether a client's text can be the id of a lease, by its length and its characters."""
    return 0 < len(id) <= LONGEST_ID and id.isascii() and id.isprintable()
