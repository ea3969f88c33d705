"""Leases of questions, so that no two annotators get the same pair at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, insert, select, update

from sortnet.errors import LeaseError
from sortnet.preference import Question
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
    """

    id: str
    question: Question
    annotator: str
    expires: float
    process: Process = field(default=Process(None, None, None), compare=False)

    def may_be_taken_over(self, by: Process) -> bool:
        """Whether a process may ask the question: no other one that may be alive does.

        A lease of another host is left to that host until it expires.
        """
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
ANSWERED = _CLOSE.where(LeaseRow.id == bindparam("lease"))


def read_leases(connection: Connection, collection: int, now: float) -> list[Lease]:
    """All live leases, in the order of creation."""
    return [_lease(row) for row in connection.execute(_ALL_LIVE, {"of": collection, "now": now})]


def _lease(row: Any) -> Lease:
    question = Question(row.left, row.right, row.strategy, row.probability, row.model)
    return Lease(row.id, question, row.name, row.expires, Process.of(row))


def take(
    connection: Connection,
    collection: int,
    annotator: str,
    key: int,
    questions: Iterable[Question],
    renew: Sequence[str],
    *,
    now: float,
    expires: float,
) -> list[Lease]:
    """The annotator's renewed leases, and new ones of the free questions; closes expired ones.

    A renewed lease is one of this process from then on. Leases that another process asks about are
    not renewed: of several that would take over those of a killed one, the first does.
    """
    these = {"of": collection, "now": now}
    connection.execute(_EXPIRED, these)
    live = read_leases(connection, collection, now)
    taken = {lease.question.pair for lease in live}
    process = Process.here()
    held = [
        replace(lease, expires=expires, process=process)
        for lease in live
        if lease.id in renew and lease.annotator == annotator and lease.may_be_taken_over(process)
    ]
    if held:
        renewed = (*_LIVE, LeaseRow.id.in_([lease.id for lease in held]))
        change = update(LeaseRow).where(*renewed).values(expires=expires, **process._asdict())
        connection.execute(change, these)
    leases: list[Lease] = []
    for question in questions:
        if question.pair not in taken:
            taken.add(question.pair)
            id = secrets.token_urlsafe(16)
            leases.append(Lease(id, question, annotator, expires, process))
    if leases:
        common = {"collection": collection, "annotator": key, "created": now, "open": True}
        common |= {"expires": expires, **process._asdict()}
        rows = []
        for lease in leases:
            low, high = lease.question.pair
            rows.append(
                {"id": lease.id, "low": low, "high": high, **vars(lease.question), **common}
            )
        connection.execute(insert(LeaseRow), rows)
    return held + leases


def close(connection: Connection, collection: int, *only: ColumnElement[bool]) -> None:
    """Close open leases; `only` are further conditions."""
    connection.execute(_CLOSE.where(*only), {"of": collection})


def find(connection: Connection, collection: int, id: str) -> tuple[Lease, bool]:
    """The lease of that id, live or not, and whether it is open; a LeaseError if there is none."""
    row: Any = None
    if plausible(id):
        row = connection.execute(_ONE, {"of": collection, "lease": id}).first()
    if row is None:
        raise LeaseError(f"no question was put under lease {id[:LONGEST_ID]!r}")
    return _lease(row), row.open


def find_live(
    connection: Connection, collection: int, id: str, annotator: str, now: float
) -> Lease:
    """The live lease of that id; a LeaseError if it is another's, expired or closed."""
    lease, is_open = find(connection, collection, id)
    if lease.annotator != annotator:
        raise LeaseError(f"the question under lease {id!r} was not put to {annotator!r}")
    if lease.expires <= now:
        raise LeaseError(
            f"the question to {annotator!r} expired {now - lease.expires:.0f} s ago; take the next"
        )
    if not is_open:
        raise LeaseError(f"the question to {annotator!r} was taken back; take the next")
    return lease


def plausible(id: str) -> bool:
    """Whether it may be an id; anything else from clients never reaches the database."""
    return 0 < len(id) <= LONGEST_ID and id.isascii() and id.isprintable()
