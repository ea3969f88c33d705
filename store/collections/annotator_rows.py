"""Read and change the annotators of a collection, and the secret tokens of their links."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, delete, exists, insert, select, update

from sortnet.errors import StoreError
from store.collections.collection_rows import CollectionRows, checked_name, with_criteria
from store.database.engine import utc_now
from store.database.schema import AnnotatorRow, BatchRow, DecisionRow, JudgementRow, LeaseRow

# A statement that runs at every answer is built once, because building it takes longer than running
# it.
_KEY = select(AnnotatorRow.number).where(
    AnnotatorRow.collection == bindparam("of"), AnnotatorRow.name == bindparam("name")
)

_N_LISTED = 10  # number of annotators that a message names


@dataclass(frozen=True)
class Annotator:
    """An annotator, and the secret token in the address of their labelling page."""

    name: str
    token: str
    created: datetime


class AnnotatorRows(CollectionRows):
    """Operations on the annotators of a collection."""

    def annotators(self) -> list[Annotator]:
        """List all annotators, in the order of creation."""
        return self._annotators()

    def annotator(self, name: str, *, create: bool = True) -> Annotator:
        """Return the annotator with a name.

        An unknown annotator is created. If `create` is False, a StoreError is raised instead.
        """
        checked_name("annotator", name)
        if create and not self._annotator_key(name):
            with self.locked():
                self._annotator_keys([name])  # creates the annotator
        annotators = self._annotators(AnnotatorRow.name == name)
        if not annotators:
            known_names = [annotator.name for annotator in self.annotators()[:_N_LISTED]]
            names = ", ".join(known_names) or "none yet"
            raise StoreError(f"collection {self.name!r} has no annotator {name!r}; known: {names}")
        return annotators[0]

    def forget(self, name: str) -> None:
        """Remove an annotator without answers, decisions, batches or open leases.

        An annotator who has any of these, in the collection or in its criteria, stays.
        """
        with self.locked() as connection:
            query = select(AnnotatorRow.number).where(
                AnnotatorRow.collection.in_(with_criteria(self.number)),
                AnnotatorRow.name == name,
            )
            keys = list(connection.execute(query).scalars())
            uses = (
                JudgementRow.annotator.in_(keys),
                DecisionRow.annotator.in_(keys),
                BatchRow.annotator.in_(keys),
                LeaseRow.annotator.in_(keys) & LeaseRow.open,  # another process may have taken it
            )
            for use in uses:
                if connection.execute(select(exists().where(use))).scalar():
                    return
            connection.execute(delete(LeaseRow).where(LeaseRow.annotator.in_(keys)))
            connection.execute(delete(AnnotatorRow).where(AnnotatorRow.number.in_(keys)))

    def _annotators(self, *conditions: Any) -> list[Annotator]:
        """List the annotators for whom all conditions hold, in the order of creation."""
        columns = select(AnnotatorRow.name, AnnotatorRow.token, AnnotatorRow.created)
        query = columns.where(AnnotatorRow.collection == self.number, *conditions)
        with self.transaction() as connection:
            rows = connection.execute(query.order_by(AnnotatorRow.number)).all()
        return [Annotator(row.name, row.token, row.created.replace(tzinfo=UTC)) for row in rows]

    def _annotator_key(self, name: str) -> int | None:
        """Return the key of an annotator; None if the collection has no annotator of this name."""
        parameters = {"of": self.number, "name": checked_name("annotator", name)}
        with self.transaction() as connection:
            return connection.scalar(_KEY, parameters)

    def _annotator_keys(self, names: Iterable[str]) -> dict[str, int]:
        """Return {name: key} of annotators, after creating annotators that do not exist yet."""
        keys: dict[str, int] = {}
        for name in names:
            if name not in keys:
                key = self._annotator_key(name)
                keys[name] = self._insert_annotator(name) if key is None else key
        return keys

    def _insert_annotator(self, name: str) -> int:
        """Create an annotator with a secret token, and return the key of the new row."""
        values = {
            "collection": self.number,
            "name": name,
            "token": secrets.token_urlsafe(16),
            "created": utc_now(),
        }
        insert_row = insert(AnnotatorRow).returning(AnnotatorRow.number)
        with self.locked() as connection:
            return int(connection.execute(insert_row, values).scalar_one())

    def _renew_token(self, annotator: int | None) -> None:
        """Give an annotator a new secret token, so that their old link is refused."""
        change = update(AnnotatorRow).where(AnnotatorRow.number == annotator)
        with self.locked() as connection:
            connection.execute(change.values(token=secrets.token_urlsafe(16)))
