"""Add items to an existing collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.base import Items
from sortnet.items.features import given_only


def merge(old: Items, new: Items, *, update: bool = False) -> Items:
    """Append items; those with a known id are replaced in place.

    Features that `describe` made are dropped: they must be recomputed from all items.

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
    old, new = given_only(old), given_only(new)
    places_of(old.ids, new, update=update)
    # Each id at its first place, with its last row.
    row_of = {id: row for row, id in enumerate((*old.ids, *new.ids))}
    rows = list(row_of.values())
    features = np.vstack((old.features, new.features[:, columns_of(old.feature_names, new)]))

    def column(name: str) -> tuple[Any, ...]:
        both = [v for some in (old, new) for v in getattr(some, name) or (None,) * len(some)]
        return tuple(both[row] for row in rows)

    contexts, beside = column("contexts"), column("shown")
    if new.shown is None:  # their file has none of the columns
        known = dict(zip(old.ids, old.shown or (None,) * len(old), strict=True))
        beside = tuple(known.get(id) for id in row_of)
    return replace(
        old,
        ids=tuple(row_of),
        **{name: column(name) for name in ("texts", "images", "audio")},
        features=features[rows],
        root=root_of(old.root, new),
        source=new.source,
        groups=all_grouped(column("groups"), new.source),
        contexts=contexts if any(contexts) else None,
        shown=beside if any(beside) else None,
    )


def all_grouped(groups: Sequence[str | None], source: str) -> tuple[str, ...] | None:
    """The groups if each item has one, None if none has.

    Raises:
        DataError: if only some have.
    """
    given = tuple(group for group in groups if group is not None)
    if 0 < len(given) < len(groups):
        what = "then some items of the collection have a group, and some have none"
        raise DataError(f"{source}: {what} (--group names the column)")
    return given or None


def places_of(old: Sequence[str], new: Items, *, update: bool = False) -> dict[str, int]:
    """The place of each id, new ones after the old ones.

    Raises:
        DataError: on a new id that occurs twice, or on a known one without `update`.
    """
    places = {id: place for place, id in enumerate(old)}
    seen: set[str] = set()
    for id in new.ids:
        if id in seen:
            raise DataError(f"{new.source}: two items are named {shown(id)}")
        seen.add(id)
        if places.setdefault(id, len(places)) < len(old) and not update:
            raise DataError(
                f"{new.source}: an item {shown(id)} is there already (--update replaces it)"
            )
    return places


def columns_of(old: Sequence[str], new: Items) -> list[int]:
    """The places of the old items' features in the new ones, which must be the same."""
    where = {name: k for k, name in enumerate(new.feature_names)}
    for name in old:
        if name not in where:
            raise DataError(f"{new.source}: there is no feature {shown(name)}, as the others have")
    more = [name for name in new.feature_names if name not in old]
    if more:
        raise DataError(f"{new.source}: the others have no feature {shown(more[0])}: ignore it")
    return [where[name] for name in old]


def root_of(old: Path | None, new: Items) -> Path | None:
    """The folder of files of old and new items, which must be the same."""
    if old is not None and new.root is not None and old != new.root:
        raise DataError(f"{new.source}: its files lie in {new.root}, the others' in {old}")
    return old or new.root
