"""An item of a collection by its id: its facts, and decisions about the item."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sortnet.errors import StoreError
from sortnet.items import Items, readable_names
from sortnet.tables.values import date_text

if TYPE_CHECKING:
    from store import Collection


def decide_about_item(collection: Collection, kind: str, id: str, reason: str | None) -> None:
    """Store a decision about an item, such as `retire` or `restore`.

    Raises:
        StoreError: if the collection has no such item.
    """
    from sortnet.preference.study import Decision

    number = _number_of(id, collection, collection.items())
    collection.decide(Decision(kind, item=number, reason=reason))


def item_record(collection: Collection, id: str) -> dict[str, Any]:
    """The facts and the features of an item.

    Raises:
        StoreError: if the collection has no such item.
    """
    items = collection.items()
    number = _number_of(id, collection, items)
    columns = collection.settings.get("columns") or {}
    return {**item_facts(items, number), "features": _features_of(items, number, columns)}


def item_facts(items: Items, number: int) -> dict[str, Any]:
    """The id of an item, and the text, files, group and shown columns that it has."""
    columns = {
        "text": items.texts,
        "image": items.images,
        "audio": items.audio,
        "group": items.groups,
        "context": items.contexts,
        "shown": items.shown,
    }
    facts: dict[str, Any] = {"id": items.ids[number]}
    for name, values in columns.items():
        if values and values[number] is not None:
            facts[name] = values[number]
    return facts


def _features_of(items: Items, number: int, columns: Mapping[str, Any]) -> dict[str, Any]:
    """The features of an item by their names for people; dates as text, None where one is missing.

    Args:
        columns: {role: column} of the collection, and the features that are `dates`.
    """
    names = readable_names(items.feature_names, columns)
    dates = columns.get("dates") or ()
    features = dict[str, Any]()
    for stored_name, name, value in zip(
        items.feature_names, names, items.features[number].tolist(), strict=True
    ):
        if math.isnan(value):
            features[name] = None
        else:
            features[name] = date_text(value) if stored_name in dates else value
    return features


def _number_of(id: str, collection: Collection, items: Items) -> int:
    if id not in items.ids:
        raise StoreError(f"collection {collection.name!r} has no item {id[:60]!r}")
    return items.ids.index(id)
