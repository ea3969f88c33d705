"""Leases: questions on loan, so that no two people are put the same pair at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, insert, select, update

from sortnet.errors import LeaseError
from sortnet.preference import Question
from store.database.tables import AnnotatorRow, LeaseRow

LONGEST_ID = 64


@dataclass(frozen=True)
class Lease:
    """A question on loan to one annotator.

    Attributes:
        id: a secret; who knows it may answer, once.
        left, right, strategy, probability, model: as in `Question`.
        expires: from when on the pair may be put to others, in seconds since 1970.
    """

    id: str
    left: int
    right: int
    strategy: str
    probability: float
    model: int
    expires: float

    @property
    def pair(self) -> tuple[int, int]:
        """The two items, the lower number first."""
        return min(self.left, self.right), max(self.left, self.right)


_COLUMNS = (
    LeaseRow.id, LeaseRow.left_item, LeaseRow.right_item, LeaseRow.strategy,
    LeaseRow.probability, LeaseRow.model, LeaseRow.expires,
)  # fmt: skip


def read_leases(connection: Connection, collection: int, now: float, annotator: int) -> list[Lease]:
    """An annotator's live leases, in the order they were given."""
    live = (*_live(collection, now), LeaseRow.annotator == annotator)
    rows = connection.execute(select(*_COLUMNS).where(*live).order_by(LeaseRow.number))
    return [Lease(*row) for row in rows]


def live_pairs(connection: Connection, collection: int, now: float) -> set[tuple[int, int]]:
    """All pairs that are under a live lease."""
    rows = connection.execute(select(LeaseRow.low, LeaseRow.high).where(*_live(collection, now)))
    return {(row.low, row.high) for row in rows}


def take(
    connection: Connection,
    collection: int,
    annotator: int,
    questions: Iterable[Question],
    *,
    now: float,
    expires: float,
) -> list[Lease]:
    """Lease the questions whose pair is free; leases that have expired are closed first."""
    over = (LeaseRow.collection == collection, LeaseRow.open, LeaseRow.expires <= now)
    connection.execute(update(LeaseRow).where(*over).values(open=False))
    taken = live_pairs(connection, collection, now)
    leases: list[Lease] = []
    for q in questions:
        if q.pair not in taken:
            taken.add(q.pair)
            id = secrets.token_urlsafe(16)
            leases.append(
                Lease(id, q.left, q.right, q.strategy, float(q.probability), q.model, expires)
            )
    if leases:
        rows = [
            {
                **{
                    key: value for key, value in vars(lease).items() if key not in ("left", "right")
                },
                "left_item": lease.left,
                "right_item": lease.right,
                "low": lease.pair[0],
                "high": lease.pair[1],
                "collection": collection,
                "annotator": annotator,
                "created": now,
                "open": True,
            }
            for lease in leases
        ]
        connection.execute(insert(LeaseRow), rows)
    return leases


def close(connection: Connection, collection: int, *only: ColumnElement[bool]) -> None:
    """Close open leases; `only` are further conditions."""
    these = (LeaseRow.collection == collection, LeaseRow.open, *only)
    connection.execute(update(LeaseRow).where(*these).values(open=False))


def renew(
    connection: Connection,
    collection: int,
    annotator: int,
    ids: Sequence[str],
    *,
    now: float,
    expires: float,
) -> int:
    """Let an annotator's live leases live longer; how many there were."""
    these = (*_live(collection, now), LeaseRow.annotator == annotator, LeaseRow.id.in_(ids))
    done = connection.execute(update(LeaseRow).where(*these).values(expires=expires))
    return done.rowcount


def find(connection: Connection, collection: int, id: str, annotator: str, now: float) -> Lease:
    """The live lease of that id.

    Raises:
        LeaseError: if there is none, or it is another annotator's, expired or closed.
    """
    row: Any = None
    if plausible(id):
        columns = (*_COLUMNS, AnnotatorRow.name, LeaseRow.open)
        found = select(*columns).join(AnnotatorRow, AnnotatorRow.number == LeaseRow.annotator)
        these = (LeaseRow.collection == collection, LeaseRow.id == id)
        row = connection.execute(found.where(*these)).first()
    if row is None:
        raise LeaseError(f"no question was put under lease {id[:LONGEST_ID]!r}")
    lease = Lease(*row[: len(_COLUMNS)])
    if row.name != annotator:
        raise LeaseError(f"the question under lease {id!r} was not put to {annotator!r}")
    if lease.expires <= now:
        raise LeaseError(
            f"the question to {annotator!r} expired {now - lease.expires:.0f} s ago; take the next"
        )
    if not row.open:
        raise LeaseError(f"the question to {annotator!r} was taken back; take the next")
    return lease


def plausible(id: str) -> bool:
    """Whether it may be a lease's id; what else clients send never reaches the database."""
    return 0 < len(id) <= LONGEST_ID and id.isascii() and id.isprintable()


def _live(collection: int, now: float) -> tuple[Any, ...]:
    # "open" stands alone, as in the partial index, which no database would use otherwise.
    return LeaseRow.collection == collection, LeaseRow.open, LeaseRow.expires > now
