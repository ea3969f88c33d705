"""More items for a collection that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sortnet.errors import DataError
from sortnet.items.base import Items
from sortnet.items.features import given_only
from sortnet.items.rows import shown


def merge(old: Items, new: Items, *, update: bool = False) -> Items:
    """Items with more behind them; those of an id that is there are replaced where they stand.

    Features that `describe` made are left out: they have to be made again, of all items.

    Args:
        update: whether an id that is there already is replaced, or refused.

    Raises:
        DataError: on an id that is there, other given features, or another folder of files.

    Cost: linear.

    >>> def pile(*ids):
    ...     none = (None,) * len(ids)
    ...     return Items(ids, ids, none, none, np.empty((len(ids), 0), np.float32), ())
    >>> merge(pile("a", "b"), pile("c")).ids
    ('a', 'b', 'c')
    """
    old, new = given_only(old), given_only(new)
    places = places_of(old.ids, new, update=update)
    to = [places[name] for name in new.ids]
    features = np.empty((len(places), len(old.feature_names)), np.float32)
    features[: len(old)] = old.features
    features[to] = new.features[:, _columns(old, new)]
    return replace(
        old,
        ids=tuple(places),
        texts=_placed(old.texts, new.texts, to, len(places)),
        images=_placed(old.images, new.images, to, len(places)),
        audio=_placed(old.audio, new.audio, to, len(places)),
        features=features,
        root=_root(old, new),
        source=new.source,
    )


def places_of(old: Sequence[str], new: Items, *, update: bool = False) -> dict[str, int]:
    """The place of each id, new ones behind those that are there.

    Raises:
        DataError: on a new id that occurs twice, or is there already without `update`.
    """
    places = {id: place for place, id in enumerate(old)}
    seen: set[str] = set()
    for id in new.ids:
        if id in seen:
            raise DataError(f"{new.source}: two items are named {shown(id)}")
        seen.add(id)
        if places.setdefault(id, len(places)) < len(old) and not update:
            raise DataError(
                f"{new.source}: an item {shown(id)} is there already (an update replaces it)"
            )
    return places


def _placed(
    old: tuple[str | None, ...], new: tuple[str | None, ...], to: list[int], n: int
) -> tuple[str | None, ...]:
    values = [*old, *[None] * (n - len(old))]
    for place, value in zip(to, new, strict=True):
        values[place] = value
    return tuple(values)


def _columns(old: Items, new: Items) -> list[int]:
    """Where the columns of the old items are in the new ones, which must be the same."""
    where = {name: k for k, name in enumerate(new.feature_names)}
    for name in old.feature_names:
        if name not in where:
            raise DataError(f"{new.source}: there is no feature {shown(name)}, as the others have")
    more = [name for name in new.feature_names if name not in old.feature_names]
    if more:
        raise DataError(f"{new.source}: the others have no feature {shown(more[0])}: ignore it")
    return [where[name] for name in old.feature_names]


def _root(old: Items, new: Items) -> Path | None:
    if old.root is not None and new.root is not None and old.root != new.root:
        raise DataError(f"{new.source}: its files lie in {new.root}, the others' in {old.root}")
    return old.root or new.root
