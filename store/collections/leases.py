"""Leases of questions, so that no two annotators get the same pair at a time.

Also two questions about more than two items have no pair in common while both are open.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Executable, bindparam, insert, select, update

from sortnet.errors import LeaseError
from sortnet.preference import Question
from store.collections.collection_rows import CollectionRows
from store.database.process import Process
from store.database.schema import AnnotatorRow, LeaseItemRow, LeaseRow

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


class _Read(NamedTuple):
    """Statements of the same leases: their rows, and the items of those about more than two."""

    leases: Executable
    items: Executable

    @classmethod
    def where(cls, *only: ColumnElement[bool] | Any) -> _Read:
        """The statements of the leases under these conditions, in the order of creation."""
        numbers = select(LeaseRow.number).where(*only)
        items = select(LeaseItemRow.lease, LeaseItemRow.item)
        return cls(
            _LEASES.where(*only).order_by(LeaseRow.number),
            items.where(LeaseItemRow.lease.in_(numbers)).order_by(
                LeaseItemRow.lease, LeaseItemRow.place
            ),
        )


_ALL_LIVE = _Read.where(*_LIVE)
_ONE = _Read.where(_OF, LeaseRow.id == bindparam("lease"))
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
        these = {"of": self.number, "now": now}
        with self.transaction() as connection:
            return [lease for lease, _ in _leases(connection, _ALL_LIVE, these)]

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
            taken = {pair for lease in live for pair in lease.question.pairs}
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
                if taken.isdisjoint(question.pairs):
                    taken.update(question.pairs)
                    id = secrets.token_urlsafe(16)
                    leases.append(Lease(id, question, annotator, expires, process, batch))
            if leases:
                common = {"collection": self.number, "annotator": key, "created": now}
                rows = [_row_of(lease) | common for lease in leases]
                connection.execute(insert(LeaseRow), rows)
            _insert_items(connection, [lease for lease in leases if lease.question.further])
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
        if plausible(id):
            with self.transaction() as connection:
                leases = _leases(connection, _ONE, {"of": self.number, "lease": id})
            if leases:
                return leases[0]
        raise LeaseError(f"no question was put under lease {id[:LONGEST_ID]!r}")

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


def _leases(
    connection: Connection, read: _Read, these: Mapping[str, Any]
) -> list[tuple[Lease, bool]]:
    """The leases that statements read, and whether each is open; `these` are their parameters."""
    rows = connection.execute(read.leases, these).all()
    items: dict[int, list[int]] = {row.number: [] for row in rows if row.low is None}
    if items:
        for lease, item in connection.execute(read.items, these):
            items[lease].append(item)
    return [(_lease(row, items.get(row.number, (row.left, row.right))), row.open) for row in rows]


def _lease(row: Any, items: Sequence[int]) -> Lease:
    left, right, *further = items
    question = Question(left, right, row.strategy, row.probability, row.model, tuple(further))
    return Lease(row.id, question, row.name, row.expires, Process.of(row), row.batch)


def _insert_items(connection: Connection, leases: Sequence[Lease]) -> None:
    """Store the items of new leases of questions about more than two."""
    if not leases:
        return
    these = select(LeaseRow.id, LeaseRow.number).where(LeaseRow.id.in_([x.id for x in leases]))
    numbers = {row.id: row.number for row in connection.execute(these)}
    rows = [
        {"lease": numbers[lease.id], "place": place, "item": item}
        for lease in leases
        for place, item in enumerate(lease.question.items)
    ]
    connection.execute(insert(LeaseItemRow), rows)


def _row_of(lease: Lease) -> dict[str, Any]:
    """The row of a new lease, but for what all leases that are taken together share."""
    question = lease.question
    facts = {name: value for name, value in vars(question).items() if name != "further"}
    sides = dict.fromkeys(("low", "high", "left", "right"))
    if not question.further:
        low, high = question.pair
        sides = {"low": low, "high": high, "left": question.left, "right": question.right}
    return {
        "id": lease.id,
        "expires": lease.expires,
        "open": True,
        "batch": lease.batch,
        **facts,
        **sides,
        **lease.process._asdict(),
    }


def plausible(id: str) -> bool:
    """Whether it may be an id; anything else from clients never reaches the database."""
    return 0 < len(id) <= LONGEST_ID and id.isascii() and id.isprintable()
