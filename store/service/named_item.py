"""Find an item of a collection by its id: return its facts, and store decisions about it."""

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
    """Return the facts about an item, and its features.

    Raises:
        StoreError: if the collection has no such item.
    """
    items = collection.items()
    number = _number_of(id, collection, items)
    columns = collection.settings.get("columns") or {}
    return {**item_facts(items, number), "features": _features_of(items, number, columns)}


def item_facts(items: Items, number: int) -> dict[str, Any]:
    """Return the id of an item, and its text, files, group and shown columns if it has them."""
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
    """Return an item's features as {readable name: value}, with dates as texts.

    The value of a missing feature is None.

    Args:
        columns: {role: column} of the collection; the role `dates` lists the features that are
            dates.
    """
    names = readable_names(items.feature_names, columns)
    values = items.features[number].tolist()
    dates = columns.get("dates") or ()
    features: dict[str, Any] = {}
    for stored_name, name, value in zip(items.feature_names, names, values, strict=True):
        if math.isnan(value):
            features[name] = None
        elif stored_name in dates:
            features[name] = date_text(value)
        else:
            features[name] = value
    return features


def _number_of(id: str, collection: Collection, items: Items) -> int:
    """Return the number of the item with an id; StoreError if the collection has no such item."""
    if id not in items.ids:
        raise StoreError(f"collection {collection.name!r} has no item {id[:60]!r}")
    return items.ids.index(id)
