"""Read and write items in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, bindparam, func, insert, select, update

from sortnet.errors import DataError, StoreError
from sortnet.items import Items
from sortnet.items.update import places_of
from store.database.tables import CollectionRow, ItemRow

FEATURE = np.dtype("<f4")  # in the database, whatever the machine's byte order


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
    )


def item_numbers(connection: Connection, collection: int) -> dict[str, int]:
    """{id: number} of all items of a collection, in the order of their numbers."""
    these = select(ItemRow.id, ItemRow.number).where(ItemRow.collection == collection)
    return {row.id: row.number for row in connection.execute(these.order_by(ItemRow.number))}


def count_items(connection: Connection, collection: int) -> int:
    of_collection = ItemRow.collection == collection
    return connection.execute(select(func.count()).where(of_collection)).scalar_one()


def next_item(connection: Connection, collection: int) -> int:
    """The number that the next item gets; items are never removed one by one, so also the count."""
    last = select(func.max(ItemRow.number)).where(ItemRow.collection == collection)
    found = connection.execute(last).scalar()
    return 0 if found is None else int(found) + 1


def write_items(
    connection: Connection, collection: int, name: str, items: Items, *, replace: bool
) -> tuple[int, int]:
    """Add items, replacing known ones if `replace`; returns how many were added and replaced.

    Raises:
        StoreError: on an id that occurs twice or is known, or on different features.
    """
    known = item_numbers(connection, collection)
    try:
        numbers = places_of(list(known), items, update=replace)
    except DataError as error:
        raise StoreError(f"collection {name!r}: {error}") from None
    rows = _rows(collection, items, numbers)
    old = [row for row in rows if row["id"] in known]
    _set_facts(connection, collection, name, items, untouched=len(known) - len(old))
    if new := [row for row in rows if row["id"] not in known]:
        connection.execute(insert(ItemRow), new)
    if old:
        connection.execute(_REPLACE, [{f"new_{key}": row[key] for key in row} for row in old])
    return len(new), len(old)


_REPLACED = ("text", "image", "audio", "features")
_REPLACE = (
    update(ItemRow.__table__)  # type: ignore[arg-type]
    .where(
        ItemRow.collection == bindparam("new_collection"), ItemRow.number == bindparam("new_number")
    )
    .values({key: bindparam(f"new_{key}") for key in _REPLACED})
)


def _rows(collection: int, items: Items, numbers: dict[str, int]) -> list[dict[str, Any]]:
    """Rows of the items, by the number of each id."""
    features = np.ascontiguousarray(items.features, FEATURE)
    columns = zip(items.ids, items.texts, items.images, items.audio, features, strict=True)
    return [
        {
            "collection": collection,
            "number": numbers[id],
            "id": id,
            "text": text,
            "image": image,
            "audio": audio,
            "features": values.tobytes(),
        }
        for id, text, image, audio, values in columns
    ]


def _set_facts(
    connection: Connection, collection: int, name: str, items: Items, *, untouched: int
) -> None:
    """Set what all items share: feature names and folder, which must not change."""
    this = CollectionRow.number == collection
    about = connection.execute(select(CollectionRow.__table__).where(this)).one()
    names, root = list(items.feature_names), None if items.root is None else str(items.root)
    if untouched and names != about.feature_names:
        theirs = _described(about.feature_names)
        raise StoreError(f"{items.source}: {_described(names)}, collection {name!r} has {theirs}")
    if untouched and root != about.root and None not in (root, about.root):
        raise StoreError(
            f"{items.source}: files lie in {root}, those of collection {name!r} in {about.root}"
        )
    facts = {"feature_names": names, "root": root or about.root, "source": items.source}
    connection.execute(update(CollectionRow).where(this).values(**facts))


def _described(names: list[str]) -> str:
    """
    >>> _described(["a", "b", "c", "d", "e"])
    '5 features (a, b, c, d, ...)'
    """
    shown = ", ".join([*names[:4], "..."] if len(names) > 4 else names)
    return f"{len(names)} features ({shown})" if names else "no features"
