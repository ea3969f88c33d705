"""Add items to an existing collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import ITEM_FIELDS, Items
from sortnet.items.features import given_only
from sortnet.tables.rows import first_repeated


def merge(old: Items, new: Items, *, update: bool = False) -> Items:
    """Append new items to old items.

    Features that `describe` made are dropped, because they must be made again from all items.

    Args:
        old: items of the collection.
        new: items to add.
        update: whether a new item replaces the old item with the same id, and gets its number. If
            not, both must have the same content.

    Raises:
        DataError: on an id that is there already with other content, different given features,
            files in different folders, groups for some items only, or different contexts in a
            group.

    Cost: linear.

    >>> def items(*ids):
    ...     none = (None,) * len(ids)
    ...     return Items(ids, ids, none, none, np.empty((len(ids), 0), np.float32), ())
    >>> merge(items("a", "b"), items("c")).ids
    ('a', 'b', 'c')
    """
    old = given_only(old)
    new = given_only(new)
    places_of(old.ids, new)  # raises if two new items have the same id
    if new.shown is None and old.shown is not None:  # then replaced items keep these texts
        old_shown = dict(zip(old.ids, old.shown, strict=True))
        new = replace(new, shown=tuple(map(old_shown.get, new.ids)))
    if not update:
        refuse_changed(old, new)
    # For an id that occurs twice, a dict keeps the first position and the last row.
    row_of_id = {id: row for row, id in enumerate((*old.ids, *new.ids))}
    rows = list(row_of_id.values())
    merged: dict[str, Any] = {}
    for name in ITEM_FIELDS:
        old_values = getattr(old, name) or (None,) * len(old)
        new_values = getattr(new, name) or (None,) * len(new)
        values = (*old_values, *new_values)
        merged[name] = tuple(values[row] for row in rows)
    merged["groups"] = all_grouped(merged["groups"], new.source)
    for name in ("contexts", "shown"):
        if not any(merged[name]):
            merged[name] = None
    new_features = new.features[:, columns_of(old.feature_names, new)]
    features: Any = np.vstack((old.features, new_features))
    root = root_of(old.root, new)
    return replace(old, **merged, features=features[rows], root=root, source=new.source)


def all_grouped(groups: Sequence[str | None], source: str) -> tuple[str, ...] | None:
    """Return the groups if each item has a group; None if no item has a group.

    Raises:
        DataError: if only some items have a group.
    """
    present = tuple(group for group in groups if group is not None)
    if 0 < len(present) < len(groups):
        raise DataError(
            f"{source}: then some items of the collection have a group, and some have none "
            "(--group names the column)"
        )
    return present or None


def refuse_changed(old: Items, new: Items) -> None:
    """Raise DataError on a new item that has the id of an old item, but other content.

    Cost: linear.
    """
    number_of_id = {id: number for number, id in enumerate(old.ids)}
    in_both = [k for k, id in enumerate(new.ids) if id in number_of_id]
    if not in_both:
        return
    old = old.take([number_of_id[new.ids[k]] for k in in_both])
    if new.shown is None:
        old = replace(old, shown=None)  # the old items keep these texts
    new = new.take(in_both)
    features = new.features[:, columns_of(old.feature_names, new)]
    is_missing = np.isnan(features) & np.isnan(old.features)
    has_same_features = ((features == old.features) | is_missing).all(axis=1)
    for k, id in enumerate(new.ids):
        old_item, new_item = (
            (items.content(k), items.groups and items.groups[k], items.context(k))
            for items in (old, new)
        )
        if old_item != new_item or not has_same_features[k]:
            raise DataError(
                f"{new.source}: an item {shown(id)} is there already, with other content "
                "(--update replaces it)"
            )


def places_of(old: Sequence[str], new: Items) -> dict[str, int]:
    """Number the ids of old and new items, {id: number}; new ids come after the old ids.

    Args:
        old: ids of the old items.
        new: items to add.

    Raises:
        DataError: if two new items have the same id.
    """
    repeated = first_repeated(new.ids)
    if repeated is not None:
        raise DataError(f"{new.source}: two items are named {shown(repeated)}")
    places = {id: place for place, id in enumerate(old)}
    for id in new.ids:
        places.setdefault(id, len(places))
    return places


def columns_of(old: Sequence[str], new: Items) -> list[int]:
    """Find the column of each old feature among the features of the new items.

    Args:
        old: names of the old features.
        new: items to add.

    Raises:
        DataError: if old and new items do not have the same features.
    """
    for name in old:
        if name not in new.feature_names:
            raise DataError(f"{new.source}: there is no feature {shown(name)}, as the others have")
    for name in new.feature_names:
        if name not in old:
            raise DataError(f"{new.source}: the others have no feature {shown(name)}: ignore it")
    return [new.feature_names.index(name) for name in old]


def root_of(old: Path | None, new: Items) -> Path | None:
    """Return the folder of all images and sounds; None if no items have such files.

    Args:
        old: folder of the old items' files; None if they have no files.
        new: items to add.

    Raises:
        DataError: if the files of old and new items are in different folders.
    """
    if old is not None and new.root is not None and old != new.root:
        raise DataError(f"{new.source}: its files lie in {new.root}, the others' in {old}")
    return old or new.root
