"""Add items to an existing collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.features import given_only

T = TypeVar("T")  # type of the values in a column


def merge(old: Items, new: Items, *, update: bool = False) -> Items:
    """Append new items to old items.

    Features that `describe` made are dropped, because they must be made again from all items.

    Args:
        old: items of the collection.
        new: items to add.
        update: whether a new item replaces the old item with the same id, and gets its number. If
            not, such an id is refused.

    Raises:
        DataError: on an id that is there already, different given features, files in different
            folders, groups for some items only, or different contexts in a group.

    Cost: linear.

    >>> def items(*ids):
    ...     none = (None,) * len(ids)
    ...     return Items(ids, ids, none, none, np.empty((len(ids), 0), np.float32), ())
    >>> merge(items("a", "b"), items("c")).ids
    ('a', 'b', 'c')
    """
    old = given_only(old)
    new = given_only(new)
    places_of(old.ids, new, update=update)  # raises if an id is not allowed
    merged = _MergedRows(old.ids, new.ids)
    new_features = new.features[:, columns_of(old.feature_names, new)]
    features: Any = np.vstack((old.features, new_features))
    contexts = merged.column(old.contexts, new.contexts)
    if new.shown is None:
        shown_texts = _old_shown(old, merged.ids)
    else:
        shown_texts = merged.column(old.shown, new.shown)
    return replace(
        old,
        ids=merged.ids,
        texts=merged.column(old.texts, new.texts),
        images=merged.column(old.images, new.images),
        audio=merged.column(old.audio, new.audio),
        features=features[merged.rows],
        root=root_of(old.root, new),
        source=new.source,
        groups=all_grouped(merged.column(old.groups, new.groups), new.source),
        contexts=contexts if any(contexts) else None,
        shown=shown_texts if any(shown_texts) else None,
    )


class _MergedRows:
    """Rows from which the merged items are taken: rows of the old items, then of the new items.

    An old item keeps its number among the merged items. If a new item with the same id replaces it,
    the old item's row is not taken, but the row of the new item.

    Attributes:
        ids: (n_merged,) ids of the merged items, old ids first.
        rows: (n_merged,) row of each merged item, counted through old and new items.
    """

    def __init__(self, old_ids: Sequence[str], new_ids: Sequence[str]) -> None:
        """Choose the rows; the ids in each of the two arguments must be unique."""
        # For an id that occurs twice, a dict keeps the first position and the last row.
        row_of_id = {id: row for row, id in enumerate((*old_ids, *new_ids))}
        self.ids = tuple(row_of_id)
        self.rows = list(row_of_id.values())
        self._n_old = len(old_ids)
        self._n_new = len(new_ids)

    def column(
        self, old_values: Sequence[T] | None, new_values: Sequence[T] | None
    ) -> tuple[T | None, ...]:
        """Merge a column; items without the column (None) get the value None."""
        values: list[T | None] = []
        values += (None,) * self._n_old if old_values is None else old_values
        values += (None,) * self._n_new if new_values is None else new_values
        return tuple(values[row] for row in self.rows)


def _old_shown(old: Items, ids: Sequence[str]) -> tuple[Mapping[str, str] | None, ...]:
    """Return the further texts of old items with the given ids; None for an id of no old item.

    An old item keeps its texts if the new item that replaces it comes without such columns.
    """
    old_shown = old.shown or (None,) * len(old)
    shown_of_id = dict(zip(old.ids, old_shown, strict=True))
    return tuple(shown_of_id.get(id) for id in ids)


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


def places_of(old: Sequence[str], new: Items, *, update: bool = False) -> dict[str, int]:
    """Number the ids of old and new items, {id: number}; new ids come after the old ids.

    Args:
        old: ids of the old items.
        new: items to add.
        update: whether a new item may have the id of an old item.

    Raises:
        DataError: if two new items have the same id, or a new item may not have its id.
    """
    places = {id: place for place, id in enumerate(old)}
    new_ids: set[str] = set()
    for id in new.ids:
        if id in new_ids:
            raise DataError(f"{new.source}: two items are named {shown(id)}")
        new_ids.add(id)
        is_old = id in places
        if is_old and not update:
            raise DataError(
                f"{new.source}: an item {shown(id)} is there already (--update replaces it)"
            )
        if not is_old:
            places[id] = len(places)
    return places


def columns_of(old: Sequence[str], new: Items) -> list[int]:
    """Find the column of each old feature among the features of the new items.

    Args:
        old: names of the old features.
        new: items to add.

    Raises:
        DataError: if old and new items do not have the same features.
    """
    column_of_name = {name: column for column, name in enumerate(new.feature_names)}
    for name in old:
        if name not in column_of_name:
            raise DataError(f"{new.source}: there is no feature {shown(name)}, as the others have")
    for name in new.feature_names:
        if name not in old:
            raise DataError(f"{new.source}: the others have no feature {shown(name)}: ignore it")
    return [column_of_name[name] for name in old]


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
