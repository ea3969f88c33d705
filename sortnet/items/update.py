"""Add items to an existing collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.features import given_only

T = TypeVar("T")


def merge(old: Items, new: Items, *, update: bool = False) -> Items:
    """Append the new items; with `update`, a new item replaces the old item with the same id.

    An item that replaces another keeps its number.

    Features that `describe` made are dropped, because they must be recomputed from all items.

    Raises:
        DataError: on a known id, different given features, a different folder of files, groups of
            some items only, or different contexts in a group.

    Cost: linear.

    >>> def items(*ids):
    ...     none = (None,) * len(ids)
    ...     return Items(ids, ids, none, none, np.empty((len(ids), 0), np.float32), ())
    >>> merge(items("a", "b"), items("c")).ids
    ('a', 'b', 'c')
    """
    old = given_only(old)
    new = given_only(new)
    places_of(old.ids, new, update=update)
    # A dict keeps an id where it came first, with the value that came last: an old item keeps its
    # place, but its row is the row of the new item that replaces it.
    row_of_id = {id: row for row, id in enumerate((*old.ids, *new.ids))}
    rows = list(row_of_id.values())
    features = np.vstack((old.features, new.features[:, columns_of(old.feature_names, new)]))

    def merged(
        old_values: Sequence[T] | None, new_values: Sequence[T] | None
    ) -> tuple[T | None, ...]:
        """The values of a column for all items; None for an item without such a column."""
        values: list[T | None] = []
        values += (None,) * len(old) if old_values is None else old_values
        values += (None,) * len(new) if new_values is None else new_values
        return tuple(values[row] for row in rows)

    shown_columns = merged(old.shown, new.shown)
    if new.shown is None:  # the new file has no such columns, so replaced items keep their texts
        old_shown = dict(zip(old.ids, old.shown or (None,) * len(old), strict=True))
        shown_columns = tuple(old_shown.get(id) for id in row_of_id)
    contexts = merged(old.contexts, new.contexts)
    return replace(
        old,
        ids=tuple(row_of_id),
        texts=merged(old.texts, new.texts),
        images=merged(old.images, new.images),
        audio=merged(old.audio, new.audio),
        features=features[rows],
        root=root_of(old.root, new),
        source=new.source,
        groups=all_grouped(merged(old.groups, new.groups), new.source),
        contexts=contexts if any(contexts) else None,
        shown=shown_columns if any(shown_columns) else None,
    )


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
    """Number the ids of old and new items: {id: number}; unknown ids come after the old ids.

    Raises:
        DataError: if an id occurs twice among the new items, or, without `update`, is known.
    """
    places = {id: place for place, id in enumerate(old)}
    new_ids: set[str] = set()
    for id in new.ids:
        if id in new_ids:
            raise DataError(f"{new.source}: two items are named {shown(id)}")
        new_ids.add(id)
        if places.setdefault(id, len(places)) < len(old) and not update:
            raise DataError(
                f"{new.source}: an item {shown(id)} is there already (--update replaces it)"
            )
    return places


def columns_of(old: Sequence[str], new: Items) -> list[int]:
    """The number of each old feature among the columns of the new items, in the old order.

    Raises:
        DataError: if old and new items do not have the same features.
    """
    column_of = {name: column for column, name in enumerate(new.feature_names)}
    for name in old:
        if name not in column_of:
            raise DataError(f"{new.source}: there is no feature {shown(name)}, as the others have")
    for name in new.feature_names:
        if name not in old:
            raise DataError(f"{new.source}: the others have no feature {shown(name)}: ignore it")
    return [column_of[name] for name in old]


def root_of(old: Path | None, new: Items) -> Path | None:
    """The folder of the images and sounds of both old and new items; None without such files.

    Raises:
        DataError: if the files are in different folders.
    """
    if old is not None and new.root is not None and old != new.root:
        raise DataError(f"{new.source}: its files lie in {new.root}, the others' in {old}")
    return old or new.root
