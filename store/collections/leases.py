"""Lease questions to annotators, so that no two annotators are asked about one pair at a time.

No two open questions share a pair, even if the questions are about more than two items.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Executable, bindparam, insert, or_, select, update

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
        annotator: name of the annotator.
        expires: time after which another annotator may be asked, in seconds since 1970.
        process: the process that asks the question. In leases of older versions all its fields are
            None.
        batch: name of the batch with which the question was written to a file, or None.
    """

    id: str
    question: Question
    annotator: str
    expires: float
    process: Process = field(default=Process(None, None, None), compare=False)
    batch: str | None = None

    def may_be_taken_over(self, new_process: Process) -> bool:
        """Whether another process may ask the question in place of the process that leased it.

        The other process may ask if the first process has ended. A process of another host counts
        as alive until the lease expires. The lease of a batch is never taken over.

        Args:
            new_process: the process that wants to ask; it may also be the first process itself.
        """
        if self.batch is not None:
            return False
        is_process_unknown = self.process.pid is None  # in leases of older versions
        return is_process_unknown or self.process == new_process or self.process.has_ended()


_LEASES = select(LeaseRow.__table__, AnnotatorRow.name).join(
    AnnotatorRow, AnnotatorRow.number == LeaseRow.annotator
)
# Statements that run at every answer are built once, because building a statement takes longer than
# running it.
_IN_COLLECTION = LeaseRow.collection == bindparam("of")
# A live lease is open and has not expired. The index of open leases has the condition
# `LeaseRow.open`. Databases use the index only for queries with the same condition.
_LIVE = (_IN_COLLECTION, LeaseRow.open, LeaseRow.expires > bindparam("now"))


class _StoredLease(NamedTuple):
    """A lease in the database, and whether it is open: neither answered nor taken back."""

    lease: Lease
    is_open: bool


class _Queries(NamedTuple):
    """Two queries: of rows of leases, and of the items of leases about more than two items."""

    leases: Executable
    items: Executable

    @classmethod
    def where(cls, *conditions: ColumnElement[bool] | Any) -> _Queries:
        """Build queries for the leases that meet all conditions, in the order of creation."""
        leases = _LEASES.where(*conditions).order_by(LeaseRow.number)
        numbers_of_leases = select(LeaseRow.number).where(*conditions)
        items = (
            select(LeaseItemRow.lease, LeaseItemRow.item)
            .where(LeaseItemRow.lease.in_(numbers_of_leases))
            .order_by(LeaseItemRow.lease, LeaseItemRow.place)
        )
        return cls(leases, items)


_ALL_LIVE = _Queries.where(*_LIVE)
_BY_ID = _Queries.where(_IN_COLLECTION, LeaseRow.id == bindparam("lease"))
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

    def question(self, lease: str) -> Question:
        """Return the question of a live or ended lease; raise a LeaseError on an unknown id."""
        return self._stored_lease(lease).lease.question

    def question_of_batch(self, batch: str, lease: str) -> Question:
        """Return the question of a lease; raise a LeaseError if the batch has no such lease."""
        stored_lease = self._stored_lease(lease).lease
        if stored_lease.batch != batch:
            raise LeaseError(f"lease {str(lease)!r} is not of batch {batch}")
        return stored_lease.question

    def _live_leases(self, now: float) -> list[Lease]:
        """List all live leases, in the order of creation."""
        parameters = {"of": self.number, "now": now}
        with self.transaction() as connection:
            return [stored.lease for stored in _read_leases(connection, _ALL_LIVE, parameters)]

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
        process = Process.here()
        with self.locked() as connection:
            connection.execute(_CLOSE_EXPIRED, {"of": self.number, "now": now})
            live = self._live_leases(now)
            to_renew = [
                lease for lease in live if lease.id in renew and lease.annotator == annotator
            ]
            renewed = self._renew_leases(to_renew, process, now=now, expires=expires)
            new_leases = [
                Lease(secrets.token_urlsafe(16), question, annotator, expires, process, batch)
                for question in _without_leased(questions, live)
            ]
            self._insert_leases(new_leases, key, now)
        return renewed + new_leases

    def _renew_leases(
        self, leases: Sequence[Lease], process: Process, *, now: float, expires: float
    ) -> list[Lease]:
        """Renew the live leases that a process may take over, and return the renewed leases.

        Args:
            leases: live leases.
            process: the process, which will ask the questions of the renewed leases.
            now: the present time, in seconds since 1970.
            expires: the time at which the renewed leases expire.
        """
        renewed = [
            replace(lease, expires=expires, process=process)
            for lease in leases
            if lease.may_be_taken_over(process)
        ]
        if renewed:
            is_renewed = LeaseRow.id.in_([lease.id for lease in renewed])
            change = update(LeaseRow).where(*_LIVE, is_renewed)
            change = change.values(expires=expires, **process._asdict())
            with self.locked() as connection:
                connection.execute(change, {"of": self.number, "now": now})
        return renewed

    def _insert_leases(self, leases: Sequence[Lease], annotator: int, now: float) -> None:
        """Store new leases of an annotator, with the items of questions about more than two items.

        Args:
            leases: the leases.
            annotator: key of the annotator.
            now: the present time, in seconds since 1970.
        """
        if not leases:
            return
        common = {"collection": self.number, "annotator": annotator, "created": now}
        rows = [{**_columns_of_lease(lease), **common} for lease in leases]
        with self.locked() as connection:
            connection.execute(insert(LeaseRow), rows)
            _insert_items(connection, [lease for lease in leases if lease.question.further])

    def _close_leases(self, *conditions: ColumnElement[bool]) -> None:
        """Close the open leases for which all conditions hold."""
        with self.locked() as connection:
            connection.execute(_CLOSE.where(*conditions), {"of": self.number})

    def _close_leases_about(self, item: int) -> None:
        """Close the open leases whose questions are about an item."""
        has_item_in_set = LeaseRow.number.in_(
            select(LeaseItemRow.lease).where(LeaseItemRow.item == item)
        )
        self._close_leases(or_(LeaseRow.low == item, LeaseRow.high == item, has_item_in_set))

    def _close_answered(self, id: str) -> None:
        """Close a lease, because its question is answered."""
        with self.locked() as connection:
            connection.execute(_CLOSE_BY_ID, {"of": self.number, "lease": id})

    def _stored_lease(self, id: str) -> _StoredLease:
        """Read the lease with an id, which may be closed or expired.

        Raises:
            LeaseError: if there is no such lease.
        """
        if may_be_lease_id(id):
            with self.transaction() as connection:
                leases = _read_leases(connection, _BY_ID, {"of": self.number, "lease": id})
            if leases:
                return leases[0]
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


def _read_leases(
    connection: Connection, queries: _Queries, parameters: Mapping[str, Any]
) -> list[_StoredLease]:
    """Run the queries of leases, and return the leases.

    Args:
        connection: an open transaction.
        queries: the queries of the leases.
        parameters: {name: value} of the parameters of the queries.
    """
    rows = connection.execute(queries.leases, parameters).all()
    items_of_lease: dict[int, list[int]] = {}
    for row in rows:
        items_of_lease[row.number] = [] if _is_about_set(row) else [row.left, row.right]
    if any(map(_is_about_set, rows)):
        for lease_number, item in connection.execute(queries.items, parameters):
            items_of_lease[lease_number].append(item)
    return [_StoredLease(_lease_of_row(row, items_of_lease[row.number]), row.open) for row in rows]


def _is_about_set(row: Any) -> bool:
    """Whether a lease is about more than two items, which are not in its row.

    The items are in the table `LeaseItemRow`.
    """
    return row.low is None


def _lease_of_row(row: Any, items: Sequence[int]) -> Lease:
    """Make a lease from its row and the numbers of its items, in the order of showing."""
    left, right, *further = items
    question = Question(left, right, row.strategy, row.probability, row.model, tuple(further))
    return Lease(row.id, question, row.name, row.expires, Process.of(row), row.batch)


def _insert_items(connection: Connection, leases: Sequence[Lease]) -> None:
    """Store the items of new leases, whose questions are about more than two items."""
    if not leases:
        return
    ids = [lease.id for lease in leases]
    query = select(LeaseRow.id, LeaseRow.number).where(LeaseRow.id.in_(ids))
    number_of_id = {row.id: row.number for row in connection.execute(query)}
    rows = [
        {"lease": number_of_id[lease.id], "place": place, "item": item}
        for lease in leases
        for place, item in enumerate(lease.question.items)
    ]
    connection.execute(insert(LeaseItemRow), rows)


def _columns_of_lease(lease: Lease) -> dict[str, Any]:
    """Return {column: value} of a new lease, without collection, annotator and time of creation.

    The items of a question about more than two items are in rows of their own.
    """
    question = lease.question
    columns: dict[str, Any] = {
        "id": lease.id,
        "expires": lease.expires,
        "open": True,
        "batch": lease.batch,
        "low": None,
        "high": None,
        "left": None,
        "right": None,
        "strategy": question.strategy,
        "probability": question.probability,
        "model": question.model,
        **lease.process._asdict(),
    }
    if not question.further:
        columns["low"], columns["high"] = question.pair
        columns["left"] = question.left
        columns["right"] = question.right
    return columns


def may_be_lease_id(id: str) -> bool:
    """Whether a client's text can be the id of a lease, by its length and its characters."""
    return 0 < len(id) <= LONGEST_ID and id.isascii() and id.isprintable()
