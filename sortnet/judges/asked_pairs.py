"""Questions as a program or a model reads them: dicts with the items and their features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sortnet.files import plain
from sortnet.items import Items

Pair: TypeAlias = dict[str, Any]  # a question about two items or more, as a program reads it
PLACES = "ABCDEF"  # names of the places of a question's items


def pair_of_items(
    items: Items,
    left: int,
    right: int,
    *,
    id: str,
    question: str,
    instructions: str | None,
    criterion: str | None = None,
    further: Sequence[int] = (),
    worst: bool = False,
) -> Pair:
    """The question about two items or more, as a dict that can be written as JSON.

    Two items are `left` and `right`. More items are in the list `items`, each with its `place`.
    Items in groups also have the `group` and its `context`.

    Args:
        left, right: numbers of the items in the first two places.
        id: name of the question, which an answer may repeat.
        further: numbers of the items in the third place and on.
        worst: whether the worst of more than two items is asked for, too.
    """
    pair: Pair = {"id": id, "question": question, "instructions": instructions}
    if criterion is not None:
        pair["criterion"] = criterion
    if items.groups is not None:
        pair |= {"group": items.groups[left], "context": items.context(left)}
    if further:
        in_places = zip(PLACES, (left, right, *further), strict=False)
        pair["items"] = [{"place": place, **_side(items, item)} for place, item in in_places]
        pair["worst"] = worst
    else:
        pair["left"] = _side(items, left)
        pair["right"] = _side(items, right)
    return pair


def sides_of(pair: Pair) -> list[dict[str, Any]]:
    """The items of a question, in the order of their places."""
    if "items" in pair:
        return list(pair["items"])
    return [pair["left"], pair["right"]]


def _side(items: Items, item: int) -> dict[str, Any]:
    """An item of a question: its content, the paths of its files, and its features."""
    content = items.content(item)
    features = dict(zip(items.feature_names, items.features[item], strict=True))
    return {
        **content._asdict(),
        "image": _path(items, content.image),
        "audio": _path(items, content.audio),
        "features": plain(features),
    }


def _path(items: Items, file: str | None) -> str | None:
    """Path of an item's file; None if the item has no such file."""
    if file is None or not items.root:
        return file
    return str(items.root / file)
