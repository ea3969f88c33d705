"""Keep the annotators of a collection, and lease questions to them.

No two annotators are asked about one pair at a time: no two open questions share a pair, even if
the questions are about more than two items. A batch is questions written to a file, which a
provider answers later.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, delete, exists, func, insert, select, update

from sortnet.errors import LeaseError, StoreError
from sortnet.files import Record
from sortnet.messages import known_names
from sortnet.preference import Question
from sortnet.preference.base import Pair
from store.collections.collection_rows import CollectionRows, checked_name, with_criteria
from store.database.engine import utc_now
from store.database.schema import AnnotatorRow, BatchRow, DecisionRow, JudgementRow, LeaseRow

LONGEST_SECRET = 64


@dataclass(frozen=True)
class Annotator:
    """An annotator, and the secret token in the address of their labelling page."""

    name: str
    token: str
    created: datetime


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


@dataclass(frozen=True)
class Batch:
    """A batch of questions.

    Attributes:
        name: the name, by which the answers are recognised.
        annotator: the annotator under whose name the model answers.
        created: time of creation in seconds since 1970.
        cancelled: time of cancelling in seconds since 1970; None if the batch was not cancelled.
        n_open: number of questions that have no answer yet.
        about: facts that are stored with each answer, see `store.asking.batches`.
    """

    name: str
    annotator: str
    created: float
    cancelled: float | None
    n_open: int
    about: Record


_KEY = select(AnnotatorRow.number).where(
    AnnotatorRow.collection == bindparam("of"), AnnotatorRow.name == bindparam("name")
)
_NAME = select(AnnotatorRow.name).where(
    AnnotatorRow.collection == bindparam("of"), AnnotatorRow.token == bindparam("token")
)
_LEASES = (
    select(LeaseRow.__table__, AnnotatorRow.name)
    .join(AnnotatorRow, AnnotatorRow.number == LeaseRow.annotator)
    .where(LeaseRow.collection == bindparam("of"))
    .order_by(LeaseRow.number)
)
# The index of open leases has the condition `LeaseRow.open`. Databases use the index only for
# queries with the same condition.
_LIVE = _LEASES.where(LeaseRow.open, LeaseRow.expires > bindparam("now"))
_CLOSE = (
    update(LeaseRow).where(LeaseRow.collection == bindparam("of"), LeaseRow.open).values(open=False)
)
_BY_ID = _LEASES.where(LeaseRow.id == bindparam("lease"))
_N_OPEN = (
    select(func.count())
    .where(LeaseRow.batch == BatchRow.name, LeaseRow.open)
    .scalar_subquery()
    .label("n_open")
)
_BATCHES = select(BatchRow.__table__, AnnotatorRow.name.label("annotator_name"), _N_OPEN).join(
    AnnotatorRow, AnnotatorRow.number == BatchRow.annotator
)


class LeaseRows(CollectionRows):
    """Operations on the annotators of a collection, and on the leases and batches of questions."""

    def annotators(self) -> list[Annotator]:
        """List all annotators, in the order of creation."""
        query = select(AnnotatorRow.name, AnnotatorRow.token, AnnotatorRow.created)
        query = query.where(AnnotatorRow.collection == self.number).order_by(AnnotatorRow.number)
        return [
            Annotator(row.name, row.token, row.created.replace(tzinfo=UTC))
            for row in self.read(query)
        ]

    def annotator(self, name: str, *, create: bool = True) -> Annotator:
        """Return the annotator with a name.

        An unknown annotator is created. If `create` is False, a StoreError is raised instead.
        """
        if create and self._annotator_key(name) is None:
            with self.locked():
                self._annotator_keys([name])  # creates the annotator
        annotator_of_name = {annotator.name: annotator for annotator in self.annotators()}
        if name not in annotator_of_name:
            names = known_names(annotator_of_name, name)
            raise StoreError(f"collection {self.name!r} has no annotator {name!r}; known: {names}")
        return annotator_of_name[name]

    def name_of_token(self, token: str) -> str | None:
        """Return the name of the annotator whose link has a secret token; None if there is none."""
        name: str | None = None
        if may_be_secret(token):
            name = self.read_value(_NAME, token=token)
        return name

    def forget(self, name: str) -> None:
        """Remove an annotator without answers, decisions, batches or open leases.

        An annotator who has any of these, in the collection or in its criteria, stays.
        """
        query = select(AnnotatorRow.number).where(
            AnnotatorRow.collection.in_(with_criteria(self.number)), AnnotatorRow.name == name
        )
        with self.locked():
            keys = [row.number for row in self.read(query)]
            uses = [
                JudgementRow.annotator.in_(keys),
                DecisionRow.annotator.in_(keys),
                BatchRow.annotator.in_(keys),
                LeaseRow.annotator.in_(keys) & LeaseRow.open,  # another process may have taken it
            ]
            if not any(self.read_value(select(exists().where(use))) for use in uses):
                self.write(delete(LeaseRow).where(LeaseRow.annotator.in_(keys)))
                self.write(delete(AnnotatorRow).where(AnnotatorRow.number.in_(keys)))

    def _annotator_key(self, name: str) -> Any:
        """Return the key of an annotator; None if the collection has no annotator of this name."""
        return self.read_value(_KEY, name=checked_name("annotator", name))

    def _annotator_keys(self, names: Iterable[str]) -> dict[str, int]:
        """Return {name: key} of annotators, after creating annotators that do not exist yet."""
        keys: dict[str, int] = {}
        for name in dict.fromkeys(names):
            key = self._annotator_key(name)
            if key is None:
                values = {"collection": self.number, "name": name, "created": utc_now()}
                row = insert(AnnotatorRow).values(**values, token=new_token())
                self.write(row)
                key = self._annotator_key(name)
            keys[name] = key
        return keys

    def leases(self, annotator: str | None = None) -> list[Lease]:
        """List the live leases, which are open and have not expired, in the order of creation.

        Args:
            annotator: name of the annotator. If None, the leases of all annotators are listed.
        """
        live = [_lease_of_row(row) for row in self.read(_LIVE, now=self.clock())]
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

    def question(self, lease: str, batch: str | None = None) -> Question:
        """Return the question of a live or ended lease.

        Args:
            lease: id of the lease.
            batch: name of the batch that has the lease. If None, this is not checked.

        Raises:
            LeaseError: on an unknown id, or if the batch has no such lease.
        """
        stored_lease = _lease_of_row(self._lease_row(lease))
        if batch not in (None, stored_lease.batch):
            raise LeaseError(f"lease {str(lease)!r} is not of batch {batch}")
        return stored_lease.question

    def _renew_leases(self, leases: Sequence[Lease], expires: float) -> list[Lease]:
        """Renew the live leases that this process may take over, and return the renewed leases.

        If the process that asks a question was killed, the first process that renews the lease gets
        it.
        """
        process = self.database.claims.process
        renewed = [
            replace(lease, expires=expires, process=process)
            for lease in leases
            if self.may_take_over(lease)
        ]
        if renewed:
            is_renewed = LeaseRow.id.in_([lease.id for lease in renewed])
            self.write(update(LeaseRow).where(is_renewed).values(expires=expires, process=process))
        return renewed

    def _insert_leases(
        self,
        annotator: tuple[str, int],
        questions: Sequence[Question],
        reserved_pairs: set[Pair],
        *,
        expires: float,
        batch: str | None,
    ) -> list[Lease]:
        """Lease the questions whose pairs are free, and return the new leases.

        Args:
            annotator: name and key of the annotator.
            questions: the questions.
            reserved_pairs: the pairs that are not free.
            expires: the time at which the leases expire.
            batch: name of the batch with which the questions are written to a file.
        """
        name, key = annotator
        leases: list[Lease] = []
        rows: list[Record] = []
        process = self.database.claims.process
        common: Record = {"expires": expires, "process": process, "batch": batch}
        fixed = {"collection": self.number, "created": self.clock(), "open": True, **common}
        for question in questions:
            if reserved_pairs.isdisjoint(question.pairs):
                reserved_pairs = reserved_pairs.union(question.pairs)
                id = secrets.token_urlsafe(16)
                leases.append(Lease(id, question, name, **common))
                rows.append({**vars(question), "id": id, "annotator": key, **fixed})
        self.insert(insert(LeaseRow), rows)
        return leases

    def _close_leases(self, *conditions: Any) -> None:
        """Close the open leases for which all conditions hold."""
        with self.locked() as connection:
            connection.execute(_CLOSE.where(*conditions), {"of": self.number})

    def _close_leases_about(self, item: int) -> None:
        """Close the open leases whose questions are about an item."""
        rows = self.read(_LEASES.where(LeaseRow.open))
        self._close_leases(LeaseRow.number.in_([row.number for row in rows if item in row.items]))

    def _lease_row(self, id: str) -> Any:
        """Read the row of a lease, which may be expired; raise a LeaseError on an unknown id."""
        rows = self.read(_BY_ID, lease=id) if may_be_secret(id) else ()
        if not rows:
            raise LeaseError(f"no question was put under lease {id[:LONGEST_SECRET]!r}")
        return rows[0]

    def _live_lease_of(self, id: str, annotator: str) -> Lease:
        """Return the annotator's live lease with an id.

        A lease is closed when its question is answered or taken back.

        Raises:
            LeaseError: if the lease is unknown, another annotator's, expired or closed.
        """
        row = self._lease_row(id)
        if row.name != annotator:
            raise LeaseError(
                f"the question under lease {str(id)!r} was not put to {str(annotator)!r}"
            )
        seconds = self.clock() - row.expires
        if seconds >= 0:
            raise LeaseError(
                f"the question to {str(annotator)!r} expired {seconds:.0f} s ago; take the next"
            )
        if not row.open:
            raise LeaseError(f"the question to {str(annotator)!r} was taken back; take the next")
        return _lease_of_row(row)

    def batches(self) -> list[Batch]:
        """List all batches, in the order of creation."""
        query = _BATCHES.where(BatchRow.collection == self.number).order_by(BatchRow.number)
        return [
            Batch(row.name, row.annotator_name, row.created, row.cancelled, row.n_open, row.about)
            for row in self.read(query)
        ]

    def add_batch(self, annotator: str, about: Record) -> str:
        """Add a batch of an annotator, and return the name of the batch."""
        name = secrets.token_hex(4)
        with self.locked() as connection:
            keys = self._annotator_keys([annotator])
            row = {
                "name": name,
                "collection": self.number,
                "annotator": keys[annotator],
                "created": self.clock(),
                "about": about,
            }
            connection.execute(insert(BatchRow), row)
        return name

    def remove_batch(self, name: str) -> None:
        """Take back the questions of a batch that was never sent, and remove the batch."""
        with self.locked() as connection:
            self.cancel_batch(name)
            connection.execute(delete(BatchRow).where(*self._is_batch(name)))

    def cancel_batch(self, name: str) -> int:
        """Cancel the leases of a batch that have no answer yet, and return their number."""
        conditions = [LeaseRow.collection == self.number, LeaseRow.batch == name, LeaseRow.open]
        with self.locked() as connection:
            close = update(LeaseRow).where(*conditions).values(open=False)
            n_closed = int(connection.execute(close).rowcount)
            cancel = update(BatchRow).where(*self._is_batch(name)).values(cancelled=self.clock())
            connection.execute(cancel)
        return n_closed

    def _is_batch(self, name: str) -> tuple[ColumnElement[bool], ...]:
        """Return the SQL conditions for the row of the batch with this name."""
        return BatchRow.collection == self.number, BatchRow.name == name


def _lease_of_row(row: Any) -> Lease:
    """Make a lease from its row."""
    question = Question(row.items, row.strategy, row.probability, row.model)
    return Lease(row.id, question, row.name, row.expires, row.process, row.batch)


def may_be_secret(text: str) -> bool:
    """Whether a client's text can be the id of a lease or a token, by its length and characters.

    Other texts are not searched for, because a database may refuse them.
    """
    return 0 < len(text) <= LONGEST_SECRET and text.isascii() and text.isprintable()


def new_token() -> str:
    """Make the secret token of an annotator's link."""
    return secrets.token_urlsafe(16)
