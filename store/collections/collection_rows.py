"""Find, create and count collections and annotators in the database."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, func, insert, select

from sortnet.errors import StoreError
from store.database.engine import utc_now
from store.database.tables import AnnotatorRow, CollectionRow, ItemRow, JudgementRow

LONGEST_NAME = 200


def checked_name(what: str, name: str) -> str:
    """Return the name, if it can be read and typed.

    >>> checked_name("annotator", "ana")
    'ana'
    """
    if not is_name(name):
        raise StoreError(
            f"{what} {name[:40]!r}: a name has 1 to {LONGEST_NAME} printable characters, "
            "and no space at its ends"
        )
    return name


def is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name == name.strip() and name.isprintable()


@dataclass(frozen=True)
class Annotator:
    """An annotator; the token is the secret of their link."""

    name: str
    token: str
    created: datetime


def make_collection(
    connection: Connection, name: str, *, seed: int = 0, settings: dict[str, Any] | None = None
) -> int:
    """Create an empty collection; returns its number."""
    values = {
        "name": checked_name("collection", name),
        "created": utc_now(),
        "root": None,
        "source": "items",
        "feature_names": [],
        "settings": settings or {},
        "seed": seed,
    }
    made = insert(CollectionRow).returning(CollectionRow.number)
    return int(connection.execute(made, values).scalar_one())


def collections_query() -> Any:
    """Every collection with its numbers of items, features, annotators and judgements."""

    def count(row: Any) -> Any:
        of_it = select(func.count()).where(row.collection == CollectionRow.number)
        return of_it.scalar_subquery().label(row.__tablename__)

    counts = map(count, (ItemRow, AnnotatorRow, JudgementRow))
    return select(CollectionRow.__table__, *counts).order_by(CollectionRow.number)


def find_collection(connection: Connection, store: str, name: str) -> Any:
    """The row of that collection."""
    row = None
    if is_name(name):
        these = select(CollectionRow.__table__).where(CollectionRow.name == name)
        row = connection.execute(these).first()
    if row is None:
        names = connection.execute(select(CollectionRow.name).order_by(CollectionRow.name))
        known = ", ".join(names.scalars().fetchmany(10)) or "none yet"
        raise StoreError(f"{store}: no collection {name!r}; collections: {known}")
    return row


def read_annotators(connection: Connection, collection: int, *only: Any) -> list[Annotator]:
    """Annotators in the order of creation; `only` are further conditions."""
    columns = select(AnnotatorRow.name, AnnotatorRow.token, AnnotatorRow.created)
    these = columns.where(AnnotatorRow.collection == collection, *only)
    rows = connection.execute(these.order_by(AnnotatorRow.number))
    return [Annotator(row.name, row.token, row.created.replace(tzinfo=UTC)) for row in rows]


def make_annotator(connection: Connection, collection: int, name: str) -> int:
    """Create an annotator with a secret token; returns their key."""
    values = {
        "collection": collection,
        "name": checked_name("annotator", name),
        "token": secrets.token_urlsafe(16),
        "created": utc_now(),
    }
    made = insert(AnnotatorRow).returning(AnnotatorRow.number)
    return int(connection.execute(made, values).scalar_one())
