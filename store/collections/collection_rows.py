"""Collections, annotators and items in the database: find, create, count, read and write."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, func, insert, or_, select, update
from sqlalchemy.orm import aliased

from sortnet.core import F32, I64
from sortnet.errors import DataError, StoreError
from sortnet.items import Items
from sortnet.items.update import all_grouped, columns_of, places_of, root_of
from store.database.engine import Database, utc_now
from store.database.schema import (
    AllowedPairRow,
    AnnotatorRow,
    CollectionRow,
    ItemRow,
    JudgementRow,
    LeaseRow,
    upsert,
)

LONGEST_NAME = 200
SHARED = ("strategy", "holdout", "repeats", "columns")  # settings that criteria share
FEATURE = np.dtype("<f4")  # in the database, whatever the machine's byte order
# Statements of every answer are built once: that takes longer than to run them.
_LOCKED = select(CollectionRow.number).where(CollectionRow.number == bindparam("of"))
_LOCKED = _LOCKED.with_for_update()
_LAST = select(func.max(ItemRow.number)).where(ItemRow.collection == bindparam("of"))
_ANNOTATOR = select(AnnotatorRow.number).where(
    AnnotatorRow.collection == bindparam("of"), AnnotatorRow.name == bindparam("name")
)


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


def checked_new(name: str) -> str:
    """Return the name of a new collection, in which a colon would be that of a criterion."""
    if ":" in checked_name("collection", name):
        raise StoreError(
            f"collection {name[:40]!r}: a name has no colon, which is for criteria (NAME:CRITERION)"
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


@contextmanager
def locked(
    database: Database, collection: int, name: str, *, durable: bool = True
) -> Iterator[Connection]:
    """A transaction that excludes all other writers of a collection.

    So numbers are assigned in the order of commits, and a lease is created and closed once.
    Read the clock within it: a time read before waiting for the lock would be old.
    """
    with database.transaction(write=True, durable=durable) as connection:
        if connection.execute(_LOCKED, {"of": collection}).first() is None:
            raise StoreError(f"{database.name}: collection {name!r} was removed")
        yield connection


def make_collection(connection: Connection, name: str, **facts: Any) -> int:
    """Create an empty collection; returns its number. `facts` are columns of its row."""
    values = {
        "name": checked_name("collection", name),
        "created": utc_now(),
        "root": None,
        "source": "items",
        "feature_names": [],
        "settings": {},
        "seed": 0,
        **facts,
    }
    made = insert(CollectionRow).returning(CollectionRow.number)
    return int(connection.execute(made, values).scalar_one())


def make_criterion(connection: Connection, collection: int, name: str) -> None:
    """Create a criterion of a collection that has no judgements about its own question."""
    this = CollectionRow.number == collection
    of = connection.execute(select(CollectionRow.__table__).where(this)).one()
    full = checked_name("criterion", f"{of.name}:{name}")
    refuse_criterion(connection, collection, of.name)
    if not is_name(name) or ":" in name:
        raise StoreError(f"criterion {name[:40]!r}: a name is printable, without colons")
    if full in criteria_of(connection, collection):
        raise StoreError(f"collection {of.name!r} has the criterion {name!r} already")
    judged = select(JudgementRow.number).where(JudgementRow.collection == collection).limit(1)
    if connection.execute(judged).first() is not None:
        raise StoreError(
            f"collection {of.name!r} has judgements about its own question already; criteria need "
            "one without: sortnet items add the file under another name"
        )
    make_collection(connection, full, seed=of.seed, items_of=collection, source=of.source)


def criteria_of(connection: Connection, collection: int) -> list[str]:
    """The full names of a collection's criteria, in the order of creation."""
    these = select(CollectionRow.name).where(CollectionRow.items_of == collection)
    return list(connection.execute(these.order_by(CollectionRow.number)).scalars())


def with_criteria(collection: int) -> Any:
    """A query of the keys of a collection and of its criteria."""
    this = or_(CollectionRow.number == collection, CollectionRow.items_of == collection)
    return select(CollectionRow.number).where(this)


def settings_of(connection: Connection, row: Any) -> dict[str, Any]:
    """The settings of a collection's sessions; a criterion has those of its collection, too."""
    own: dict[str, Any] = row.settings
    if row.items_of is None:
        return own
    settings = select(CollectionRow.settings).where(CollectionRow.number == row.items_of)
    shared = connection.execute(settings).scalar_one()
    return {name: shared[name] for name in shared if name in SHARED} | own


def refuse_several(connection: Connection, collection: int, name: str) -> None:
    """Refuse a collection with criteria where one question must be meant."""
    if names := criteria_of(connection, collection):
        raise StoreError(f"collection {name!r} has criteria: give one of {', '.join(names)}")


def refuse_criterion(connection: Connection, collection: int, name: str) -> None:
    """Refuse a criterion where a collection with items must be meant."""
    these = select(CollectionRow.items_of).where(CollectionRow.number == collection)
    if connection.execute(these).scalar() is not None:
        of = name.rpartition(":")[0]
        raise StoreError(f"{name!r} is a criterion: its items are those of {of!r}, give that")


def collections_query() -> Any:
    """Every collection with its numbers of items, features, annotators and judgements."""
    items_of = func.coalesce(CollectionRow.items_of, CollectionRow.number)

    def count(row: Any) -> Any:
        of_it = select(func.count()).where(
            row.collection == (items_of if row is ItemRow else CollectionRow.number)
        )
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
        of, _, criterion = name.rpartition(":")
        if of and (row := find_collection(connection, store, of)) is not None:
            there = ", ".join(criteria_of(connection, row.number)) or "none"
            fault = f"collection {of!r} has no criterion {criterion[:40]!r}; criteria: {there}"
            raise StoreError(f"{store}: {fault}")
        raise StoreError(f"{store}: no collection {name!r}; collections: {known}")
    return row


def read_annotators(connection: Connection, collection: int, *only: Any) -> list[Annotator]:
    """Annotators in the order of creation; `only` are further conditions."""
    columns = select(AnnotatorRow.name, AnnotatorRow.token, AnnotatorRow.created)
    these = columns.where(AnnotatorRow.collection == collection, *only)
    rows = connection.execute(these.order_by(AnnotatorRow.number))
    return [Annotator(row.name, row.token, row.created.replace(tzinfo=UTC)) for row in rows]


def find_annotator(connection: Connection, collection: int, name: str) -> int | None:
    """The key of an annotator; None if there is none of that name."""
    these = {"of": collection, "name": checked_name("annotator", name)}
    return connection.scalar(_ANNOTATOR, these)


def make_annotator(connection: Connection, collection: int, name: str) -> int:
    """Create an annotator with a secret token; returns their key."""
    values = {
        "collection": collection,
        "name": name,
        "token": secrets.token_urlsafe(16),
        "created": utc_now(),
    }
    made = insert(AnnotatorRow).returning(AnnotatorRow.number)
    return int(connection.execute(made, values).scalar_one())


def read_items(connection: Connection, collection: int) -> Items:
    """All items of a collection in the order of their numbers."""
    about = connection.execute(
        select(CollectionRow.__table__).where(CollectionRow.number == collection)
    ).one()
    of_collection = select(ItemRow.__table__).where(ItemRow.collection == collection)
    rows = connection.execute(of_collection.order_by(ItemRow.number)).all()
    joined = np.frombuffer(b"".join(row.features for row in rows), FEATURE)
    return Items(
        ids=tuple(row.id for row in rows),
        texts=tuple(row.text for row in rows),
        images=tuple(row.image for row in rows),
        audio=tuple(row.audio for row in rows),
        features=joined.reshape(len(rows), len(about.feature_names)).astype(np.float32),
        feature_names=tuple(about.feature_names),
        root=None if about.root is None else Path(about.root),
        source=about.source,
        groups=all_grouped([row.group_name for row in rows], about.source),
        contexts=tuple(row.context for row in rows) if any(row.context for row in rows) else None,
        shown=tuple(row.shown for row in rows) if any(row.shown for row in rows) else None,
    )


def read_pairs(connection: Connection, collection: int) -> I64 | None:
    """(m, 2) the only pairs that may be asked, the lower number first; None if all may."""
    these = select(AllowedPairRow.low, AllowedPairRow.high)
    these = these.where(AllowedPairRow.collection == collection)
    rows = connection.execute(these.order_by(AllowedPairRow.low, AllowedPairRow.high)).all()
    return np.array([tuple(row) for row in rows], np.int64) if rows else None


def write_pairs(connection: Connection, collection: int, pairs: I64) -> None:
    """Add pairs that may be asked; known ones stay."""
    keys = ["collection", "low", "high"]
    stored = upsert(connection.dialect.name, AllowedPairRow, keys, ["collection"])
    rows = [dict(zip(keys, (collection, *pair), strict=True)) for pair in pairs.tolist()]
    if rows:
        connection.execute(stored, rows)


def item_groups(connection: Connection, collection: int) -> dict[str, str | None]:
    """{id: group} of all items of a collection, in the order of their numbers, from 0."""
    these = select(ItemRow.id, ItemRow.group_name).where(ItemRow.collection == collection)
    return {row.id: row.group_name for row in connection.execute(these.order_by(ItemRow.number))}


def next_item(connection: Connection, collection: int) -> int:
    """The number that the next item gets; items are never removed one by one, so also the count."""
    found = connection.execute(_LAST, {"of": collection}).scalar()
    return 0 if found is None else int(found) + 1


def write_items(
    connection: Connection, collection: int, name: str, items: Items, *, replace: bool
) -> None:
    """Add items, replacing known ones if `replace`."""
    this = CollectionRow.number == collection
    about = connection.execute(select(CollectionRow.__table__).where(this)).one()
    known = item_groups(connection, collection)
    old = known.keys() & set(items.ids)
    facts = {"feature_names": list(items.feature_names), "source": items.source}
    features, root = items.features, items.root
    try:
        numbers = places_of(list(known), items, update=replace)
        if len(old) < len(known):
            features = features[:, columns_of(about.feature_names, items)]
            facts["feature_names"] = about.feature_names
            root = root_of(None if about.root is None else Path(about.root), items)
    except DataError as error:
        raise StoreError(f"collection {name!r}: {error}") from None
    facts["root"] = about.root if root is None else str(root)
    connection.execute(update(CollectionRow).where(this).values(**facts))
    # Items of a file with none of the columns that are shown keep what they have.
    replaced = tuple(name for name in _REPLACED if name != "shown" or items.shown is not None)
    stored = upsert(connection.dialect.name, ItemRow, ["collection", "number"], replaced)
    if rows := _rows(collection, items, features, numbers):
        connection.execute(stored, rows)
    _refuse_mixed(connection, collection, name, items.source)


_REPLACED = ("text", "image", "audio", "features", "group_name", "context", "shown")


def _refuse_mixed(connection: Connection, collection: int, name: str, source: str) -> None:
    """Refuse groups that divide judged or listed pairs, or that only some items have."""
    given = select(func.count(), func.count(ItemRow.group_name))
    n, grouped = connection.execute(given.where(ItemRow.collection == collection)).one()
    try:
        all_grouped(["", None] if 0 < grouped < n else [], source)
    except DataError as error:
        raise StoreError(f"collection {name!r}: {error}") from None
    if not grouped:
        return
    for row, what in ((JudgementRow, "judged"), (AllowedPairRow, "listed")):
        found = connection.execute(_across(row, collection).limit(1)).first()
        if found is not None:
            fault = f"{found[0]!r} and {found[1]!r} are a {what} pair, so they stay in one group"
            raise StoreError(f"collection {name!r}: {source}: {fault}")
    # Questions that were asked under other groups are withdrawn.
    numbers = _across(LeaseRow, collection).with_only_columns(LeaseRow.number)
    connection.execute(update(LeaseRow).where(LeaseRow.number.in_(numbers)).values(open=False))


def _across(row: Any, collection: int) -> Any:
    """The ids of both items of the rows' pairs whose items are of two groups; also of criteria."""
    a, b = aliased(ItemRow), aliased(ItemRow)
    left, right = (row.low, row.high) if row is AllowedPairRow else (row.left, row.right)
    both = select(a.id, b.id).select_from(row).where(row.collection.in_(with_criteria(collection)))
    both = both.join(a, (a.collection == collection) & (a.number == left))
    both = both.join(b, (b.collection == collection) & (b.number == right))
    return both.where(a.group_name != b.group_name)


def _rows(
    collection: int, items: Items, features: F32, numbers: dict[str, int]
) -> list[dict[str, Any]]:
    """Rows of the items, by the number of each id."""
    features_of = (row.tobytes() for row in np.ascontiguousarray(features, FEATURE))
    media = items.texts, items.images, items.audio
    optional = (items.groups, items.contexts, items.shown)
    more = (values or (None,) * len(items) for values in optional)
    columns = zip(items.ids, *media, features_of, *more, strict=True)
    common = {"collection": collection}
    return [
        common | {"number": numbers[row[0]]} | dict(zip(("id", *_REPLACED), row, strict=True))
        for row in columns
    ]
