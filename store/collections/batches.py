"""Batches of a collection: questions written to a file, whose answers a provider gives later."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, delete, func, insert, select, update

from store.collections.annotator_rows import AnnotatorRows
from store.database.schema import AnnotatorRow, BatchRow, CollectionRow, LeaseRow


@dataclass(frozen=True)
class Batch:
    """A batch of questions.

    Attributes:
        name: its name, by which the answers are recognised.
        annotator: as whom the model answers.
        created: time in seconds since 1970.
        cancelled: when it was cancelled; None: it was not.
        n_open: number of questions that are to be answered.
        about: what is stored with each answer, see `store.service.batches`.
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
_BATCHES = select(BatchRow.__table__, AnnotatorRow.name.label("who"), _N_OPEN).join(
    AnnotatorRow, AnnotatorRow.number == BatchRow.annotator
)


class BatchRows(AnnotatorRows):
    """The batches of a collection."""

    def batches(self) -> list[Batch]:
        """All batches, in the order of creation."""
        these = _BATCHES.where(BatchRow.collection == self.number).order_by(BatchRow.number)
        with self.transaction() as connection:
            return [_batch(row) for row in connection.execute(these)]

    def add_batch(self, annotator: str, about: dict[str, Any]) -> str:
        """Add a batch of an annotator; returns its name."""
        name = secrets.token_hex(4)
        with self.locked() as connection:
            values = {
                "name": name,
                "collection": self.number,
                "annotator": self._annotator_keys([annotator])[annotator],
                "created": self.clock(),
                "about": about,
            }
            connection.execute(insert(BatchRow), values)
        return name

    def set_batch(self, name: str, about: dict[str, Any]) -> None:
        """Change what a batch is about."""
        this = (BatchRow.collection == self.number, BatchRow.name == name)
        with self.locked() as connection:
            connection.execute(update(BatchRow).where(*this).values(about=about))

    def remove_batch(self, name: str) -> None:
        """Remove a batch that was never sent; its questions are taken back."""
        with self.locked() as connection:
            self.cancel_batch(name)
            this = (BatchRow.collection == self.number, BatchRow.name == name)
            connection.execute(delete(BatchRow).where(*this))

    def cancel_batch(self, name: str) -> int:
        """Take back the questions of a batch; returns the number of those that were open."""
        with self.locked() as connection:
            these = (LeaseRow.collection == self.number, LeaseRow.batch == name, LeaseRow.open)
            closed = connection.execute(update(LeaseRow).where(*these).values(open=False))
            this = (BatchRow.collection == self.number, BatchRow.name == name)
            connection.execute(update(BatchRow).where(*this).values(cancelled=self.clock()))
        return int(closed.rowcount)

    def collection_of_batch(self, name: str) -> str | None:
        """The name of the collection in this store that has a batch; None if none has."""
        these = select(CollectionRow.name).join(
            BatchRow, BatchRow.collection == CollectionRow.number
        )
        with self.transaction() as connection:
            return connection.execute(these.where(BatchRow.name == name)).scalar()


def _batch(row: Row[Any]) -> Batch:
    return Batch(row.name, row.who, row.created, row.cancelled, row.n_open, row.about)
