"""Read and change the annotators of a collection, and the secret tokens of their links."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, delete, exists, insert, select

from sortnet.errors import StoreError
from sortnet.messages import known_names
from store.collections.collection_rows import CollectionRows, checked_name, with_criteria
from store.database.engine import utc_now
from store.database.schema import AnnotatorRow, BatchRow, DecisionRow, JudgementRow, LeaseRow

_KEY = select(AnnotatorRow.number).where(
    AnnotatorRow.collection == bindparam("of"), AnnotatorRow.name == bindparam("name")
)


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


def new_token() -> str:
    """Make the secret token of an annotator's link."""
    return secrets.token_urlsafe(16)
