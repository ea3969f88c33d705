"""Leases of questions, so that no two annotators get the same pair at a time."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, bindparam, insert, select, update

from sortnet.errors import LeaseError
from sortnet.preference import Question
from store.collections.collection_rows import CollectionRows
from store.database.process import Process
from store.database.schema import AnnotatorRow, LeaseRow

LONGEST_ID = 64


@dataclass(frozen=True)
class Lease:
    """A question leased to one annotator.

    Attributes:
        id: a secret, which allows one answer.
        question: the question.
        annotator: their name.
        expires: time after which others may get the pair, in seconds since 1970.
        process: that asks the question; of an older version all None.
        batch: name of the batch with which the question was written to a file; None: it was not.
    """

    id: str
    question: Question
    annotator: str
    expires: float
    process: Process = field(default=Process(None, None, None), compare=False)
    batch: str | None = None

    def may_be_taken_over(self, by: Process) -> bool:
        """Whether a process may ask the question: no other one that may be alive does.

        A lease of another host is left to that host until it expires, and the lease of a batch to
        the batch.
        """
        if self.batch is not None:
            return False
        return self.process.pid is None or self.process == by or self.process.has_ended()


_LEASES = select(LeaseRow.__table__, AnnotatorRow.name).join(
    AnnotatorRow, AnnotatorRow.number == LeaseRow.annotator
)
# Statements of every answer are built once: that takes longer than to run them.
_OF = LeaseRow.collection == bindparam("of")
# A plain "open", as in the partial index, which no database would use otherwise.
_LIVE = (_OF, LeaseRow.open, LeaseRow.expires > bindparam("now"))
_ALL_LIVE = _LEASES.where(*_LIVE).order_by(LeaseRow.number)
_ONE = _LEASES.where(_OF, LeaseRow.id == bindparam("lease"))
_CLOSE = update(LeaseRow).where(_OF, LeaseRow.open).values(open=False)
_EXPIRED = _CLOSE.where(LeaseRow.expires <= bindparam("now"))
_ANSWERED = _CLOSE.where(LeaseRow.id == bindparam("lease"))


class LeaseRows(CollectionRows):
    """The leases of a collection's questions."""

    def leases(self, annotator: str | None = None) -> list[Lease]:
        """Live leases of an annotator or of all, in the order of creation."""
        live = self._live_leases(self.clock())
        return [lease for lease in live if annotator in (None, lease.annotator)]

    def question(self, lease: str) -> Question:
        """The question of a lease, live or not; a LeaseError if there is none."""
        return self._lease_of(lease)[0].question

    def question_of_batch(self, batch: str, lease: str) -> Question:
        """The question of a lease, live or not; a LeaseError if it is not one of the batch."""
        stored, _ = self._lease_of(lease)
        if stored.batch != batch:
            raise LeaseError(f"lease {lease!r} is not of batch {batch}")
        return stored.question

    def _live_leases(self, now: float) -> list[Lease]:
        """All live leases, in the order of creation."""
        with self.transaction() as connection:
            rows = connection.execute(_ALL_LIVE, {"of": self.number, "now": now})
            return [_lease(row) for row in rows]

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
        """The annotator's renewed leases, and new ones of the free questions; closes expired ones.

        A renewed lease is one of this process from then on. Leases that another process asks about
        are not renewed: of several that would take over those of a killed one, the first does.
        `key` is the annotator's.
        """
        these = {"of": self.number, "now": now}
        with self.locked() as connection:
            connection.execute(_EXPIRED, these)
            live = self._live_leases(now)
            taken = {lease.question.pair for lease in live}
            process = Process.here()
            held = [
                replace(lease, expires=expires, process=process)
                for lease in live
                if lease.id in renew
                and lease.annotator == annotator
                and lease.may_be_taken_over(process)
            ]
            if held:
                renewed = (*_LIVE, LeaseRow.id.in_([lease.id for lease in held]))
                change = update(LeaseRow).where(*renewed)
                change = change.values(expires=expires, **process._asdict())
                connection.execute(change, these)
            leases: list[Lease] = []
            for question in questions:
                if question.pair not in taken:
                    taken.add(question.pair)
                    id = secrets.token_urlsafe(16)
                    leases.append(Lease(id, question, annotator, expires, process, batch))
            if leases:
                common = {"collection": self.number, "annotator": key, "created": now}
                rows = [_row_of(lease) | common for lease in leases]
                connection.execute(insert(LeaseRow), rows)
        return held + leases

    def _close_leases(self, *only: ColumnElement[bool]) -> None:
        """Close open leases; `only` are further conditions."""
        with self.locked() as connection:
            connection.execute(_CLOSE.where(*only), {"of": self.number})

    def _close_answered(self, id: str) -> None:
        """Close the lease of a question that is answered."""
        with self.locked() as connection:
            connection.execute(_ANSWERED, {"of": self.number, "lease": id})

    def _lease_of(self, id: str) -> tuple[Lease, bool]:
        """The lease of that id, live or not, and whether it is open.

        Raises:
            LeaseError: if there is none.
        """
        row: Any = None
        if plausible(id):
            with self.transaction() as connection:
                row = connection.execute(_ONE, {"of": self.number, "lease": id}).first()
        if row is None:
            raise LeaseError(f"no question was put under lease {id[:LONGEST_ID]!r}")
        return _lease(row), row.open

    def _live_lease_of(self, id: str, annotator: str, now: float) -> Lease:
        """The live lease of that id; a LeaseError if it is another's, expired or closed."""
        lease, is_open = self._lease_of(id)
        if lease.annotator != annotator:
            raise LeaseError(f"the question under lease {id!r} was not put to {annotator!r}")
        if lease.expires <= now:
            ago = f"{now - lease.expires:.0f} s ago"
            raise LeaseError(f"the question to {annotator!r} expired {ago}; take the next")
        if not is_open:
            raise LeaseError(f"the question to {annotator!r} was taken back; take the next")
        return lease


def _lease(row: Any) -> Lease:
    question = Question(row.left, row.right, row.strategy, row.probability, row.model)
    return Lease(row.id, question, row.name, row.expires, Process.of(row), row.batch)


def _row_of(lease: Lease) -> dict[str, Any]:
    """The row of a new lease, but for what all leases that are taken together share."""
    low, high = lease.question.pair
    sides = {"low": low, "high": high, **vars(lease.question)}
    return {
        "id": lease.id,
        "expires": lease.expires,
        "open": True,
        "batch": lease.batch,
        **sides,
        **lease.process._asdict(),
    }


def plausible(id: str) -> bool:
    """Whether it may be an id; anything else from clients never reaches the database."""
    return 0 < len(id) <= LONGEST_ID and id.isascii() and id.isprintable()
