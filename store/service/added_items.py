"""Add items to a collection, with the features that all of its items then have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sortnet.core import I64, Progress
from sortnet.items import Items, describe
from sortnet.items.features import given_only
from sortnet.items.update import merge
from store.collections.collection import Collection
from store.store import Store


def with_features(
    old: Items | None,
    new: Items,
    *,
    has_numbers: bool,
    described: bool | None = None,
    embed: bool = False,
    update: bool = False,
    progress: Progress = lambda text: None,
) -> Items:
    """Old and new items with the same features; features of texts and images are made again.

    Args:
        old: the items of the collection; None: it is new.
        has_numbers: whether the new items came with columns of numbers.
        described: whether features are made of texts and images; None: if the old items have such
            features, `embed` is given, or the new items have no numbers.
        embed: whether sentence embeddings are among them.
        update: whether an item with a known id replaces the old one, or is refused.

    Cost: as `describe`.
    """
    all_items = new if old is None else merge(old, new, update=update)
    made = set() if old is None else {*old.feature_names} - {*given_only(old).feature_names}
    embed = embed or any(name.startswith("text: meaning") for name in made)
    if described is None:
        described = bool(made) or embed or not has_numbers
    return describe(all_items, embed=embed, progress=progress) if described else all_items


def add_items(
    store: Store,
    name: str,
    new: Items,
    *,
    has_numbers: bool,
    columns: Mapping[str, Any] | None = None,
    pairs: I64 | None = None,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Collection:
    """Add items to a collection, which is created if there is none of that name.

    Args:
        has_numbers: as `with_features`.
        columns: the role of each column of the table that they came from.
        pairs, seed: as `Store.add_items`.

    Raises:
        DataError: on items whose features or groups do not go with those of the collection.
    """
    names = store.collections_frame()["name"].tolist()
    old = store.collection(name).items() if name in names else None
    all_items = with_features(old, new, has_numbers=has_numbers, progress=progress)
    return store.add_items(
        name, all_items, update=old is not None, columns=columns, pairs=pairs, seed=seed
    )
