"""Add items to a collection, so that old and new items have the same features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sortnet.core import I64, Progress
from sortnet.files import Record, is_table
from sortnet.items import Columns, Items, describe, read_with_roles
from sortnet.items.base import lone_groups, read_pairs
from sortnet.items.features import MADE
from sortnet.items.update import merge
from sortnet.tables.roles import NAMED
from store.collections import collection_rows
from store.collections.collection import Collection
from store.collections.judgement_lines import read_gold
from store.store import Store

_STORED_ROLES = (*NAMED, "features", "dates")  # `features` and `dates` are several columns each
_EMBEDDED_PREFIX = "text: meaning"  # names of features from sentence embeddings begin like this


@dataclass(frozen=True)
class AddedItems:
    """The result of adding a file of items to a collection.

    Attributes:
        collection: name of the collection.
        n_added: number of items that are new.
        n_known: number of items of the file that were there before.
        is_update: whether the known items were replaced; if not, they had the same content.
        items: all items of the collection.
        roles: the columns of the file by their roles.
        n_pairs: number of the only pairs that may be asked; 0: all pairs may be asked.
        lone_groups: groups with one item only.
        is_outdated_on_pages: whether a running server still shows the replaced items.
    """

    collection: str
    n_added: int
    n_known: int
    is_update: bool
    items: Items
    roles: Columns
    n_pairs: int
    lone_groups: list[str]
    is_outdated_on_pages: bool


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
    """Join old and new items, and compute features from their texts and images if `described`.

    Args:
        old: the items of the collection; None: the collection is new.
        new: the items to add.
        has_numbers: whether the new items came with columns of numbers.
        described: whether features are computed from texts and images. None: they are if the old
            items have such features, if `embed` is true, or if the new items have no numbers.
        embed: whether the computed features include sentence embeddings. They always do if the old
            items have features from sentence embeddings.
        update: whether a new item with the id of an old item replaces the old item; if not, such an
            item must have the same content.
        progress: called with a text about each slow step.

    Cost: reading and describing each text and image, if features are computed.
    """
    all_items = new if old is None else merge(old, new, update=update)
    old_names = () if old is None else old.feature_names
    is_embedded = embed or any(name.startswith(_EMBEDDED_PREFIX) for name in old_names)
    if described is None:
        # The names of computed features begin with one of the prefixes in MADE.
        is_old_described = any(name.startswith(MADE) for name in old_names)
        described = is_old_described or is_embedded or not has_numbers
    return describe(all_items, embed=is_embedded, progress=progress) if described else all_items


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
    """Add items to a collection; create the collection if there is none of that name.

    Args:
        name: name of the collection.
        has_numbers: whether the new items came with columns of numbers.
        columns: {role: column} of the table that the items came from.
        pairs: the only pairs that annotators may be asked about, an array (m, 2) of items' numbers
            in the collection; None: the pairs stay as they are.
        seed: random seed of a new collection.

    Raises:
        DataError: if the items have other features than the collection's items, or only some items
            have groups.
    """
    existing = _find_collection(store, name)
    old = None if existing is None else existing.items()
    all_items = with_features(old, new, has_numbers=has_numbers, progress=progress)
    return store.add_items(
        name, all_items, update=old is not None, columns=columns, pairs=pairs, seed=seed
    )


def add_file(
    store: Store,
    name: str,
    path: str,
    columns: Columns,
    progress: Progress,
    *,
    ignore: Sequence[str],
    described: bool | None,
    embed: bool,
    pairs: str | None,
    gold: str | None,
    update: bool,
) -> AddedItems:
    """Add the items of a file to a collection; create the collection if there is none of that name.

    Args:
        name: name of the collection.
        path: the file or folder.
        columns: the columns with a named role; other roles are guessed.
        progress: called with a text about each slow step.
        ignore: columns to leave out.
        described: whether features are computed from texts and images; None: `with_features`
            decides.
        embed: whether sentence embeddings are among the features.
        pairs: a file of the only pairs that may be asked; None: all pairs may be asked.
        gold: a file of pairs with known answers; None: there are none.
        update: whether an item with the id of a stored item replaces the stored item; if not, such
            an item must have the same content.

    Raises:
        DataError: if the file cannot be used, or its items do not fit the collection's items.
    """
    existing = _find_collection(store, name)
    old = None if existing is None else existing.items()
    collection_rows.checked_new(name)  # refuses an invalid name before a long file is read
    progress(f"reading {path}")
    if existing is not None:
        columns = _with_stored_groups(columns, existing, path)
    n_least = 1 if old else 2  # a collection needs two items to compare
    new, roles = read_with_roles(
        path, columns, ignore=ignore, like=old, least=n_least, progress=progress
    )
    all_items = with_features(
        old,
        new,
        has_numbers=bool(roles.features),
        described=described,
        embed=embed,
        update=update,
        progress=progress,
    )
    groups_of_one = lone_groups(all_items)
    only_pairs = None if pairs is None else read_pairs(Path(pairs), all_items)
    gold_decisions = [] if gold is None else read_gold(gold, all_items)

    progress("writing")
    # Old items are among `all_items`, so an existing collection is updated.
    collection = store.add_items(
        name, all_items, update=existing is not None, columns=stored_roles(roles), pairs=only_pairs
    )
    collection.decide(*gold_decisions)
    n_added = len(all_items) - (0 if old is None else len(old))
    allowed_pairs = collection.allowed_pairs()
    return AddedItems(
        collection=name,
        n_added=n_added,
        n_known=len(new) - n_added,
        is_update=update,
        items=all_items,
        roles=roles,
        n_pairs=0 if allowed_pairs is None else len(allowed_pairs),
        lone_groups=groups_of_one,
        is_outdated_on_pages=collection.is_served() and update,
    )


def stored_roles(roles: Columns) -> Record:
    """Select the roles that are stored with a collection, {role: column}."""
    return {role: getattr(roles, role) for role in _STORED_ROLES}


def _find_collection(store: Store, name: str) -> Collection | None:
    """Find the collection with a name; None if the store has no such collection."""
    if name in store.collections_frame()["name"].tolist():
        return store.collection(name)
    return None


def _with_stored_groups(columns: Columns, collection: Collection, path: str) -> Columns:
    """Take over the collection's group and context columns if `columns` names no group column."""
    is_folder = not is_table(Path(path))  # a folder of files has no columns
    if columns.group or is_folder:
        return columns
    stored_columns = collection.settings.get("columns", {})
    group = stored_columns.get("group")
    if not group:
        return columns
    return replace(columns, group=group, context=columns.context or stored_columns.get("context"))
