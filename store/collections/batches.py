"""Batches of a collection: questions written to a file, which a provider answers later."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, delete, func, insert, select, update

from store.collections.annotator_rows import AnnotatorRows
from store.database.schema import AnnotatorRow, BatchRow, LeaseRow


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
    about: dict[str, Any]


_N_OPEN = (
    select(func.count())
    .where(LeaseRow.batch == BatchRow.name, LeaseRow.open)
    .scalar_subquery()
    .label("n_open")
)
_BATCHES = select(BatchRow.__table__, AnnotatorRow.name.label("annotator_name"), _N_OPEN).join(
    AnnotatorRow, AnnotatorRow.number == BatchRow.annotator
)


class BatchRows(AnnotatorRows):
    """Operations on the batches of a collection."""

    def batches(self) -> list[Batch]:
        """List all batches, in the order of creation."""
        query = _BATCHES.where(BatchRow.collection == self.number).order_by(BatchRow.number)
        with self.transaction() as connection:
            return [_batch(row) for row in connection.execute(query)]

    def add_batch(self, annotator: str, about: dict[str, Any]) -> str:
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
        """Take back the open questions of a batch, and return their number."""
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


def _batch(row: Row[Any]) -> Batch:
    """Make a batch from a row that the query `_BATCHES` returns."""
    return Batch(row.name, row.annotator_name, row.created, row.cancelled, row.n_open, row.about)
