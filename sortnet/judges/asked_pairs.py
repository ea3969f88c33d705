"""Questions as a judge that is no person reads them: items with all that is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sortnet.files import plain
from sortnet.items import Items

Pair: TypeAlias = dict[str, Any]  # what is asked, as a program reads it; of two items or more
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
    """The line of JSON about two items or more; it has `group` and `context` if items have groups.

    Two items are `left` and `right`. More are in the list `items`, each with its `place`.

    Args:
        left, right: numbers of the items in the first two places.
        id: what the answer may be recognised by.
        further: numbers of the items in the third place and on.
        worst: whether the worst of more than two items is asked for, too.
    """
    pair: Pair = {"id": id, "question": question, "instructions": instructions}
    if criterion is not None:
        pair["criterion"] = criterion
    if items.groups is not None:
        pair |= {"group": items.groups[left], "context": items.context(left)}
    if further:
        numbers = (left, right, *further)
        sides = [
            {"place": place, **_side(items, k)} for place, k in zip(PLACES, numbers, strict=False)
        ]
        return pair | {"items": sides, "worst": worst}
    return pair | {"left": _side(items, left), "right": _side(items, right)}


def sides_of(pair: Pair) -> list[Pair]:
    """The items of a question in the order of their places."""
    if "items" in pair:
        return list(pair["items"])
    return [pair["left"], pair["right"]]


def _side(items: Items, k: int) -> Pair:
    def path(file: str | None) -> str | None:
        return None if file is None else str(items.root / file if items.root else file)

    content = items.content(k)
    files = {"image": path(content.image), "audio": path(content.audio)}
    features = plain(dict(zip(items.feature_names, items.features[k], strict=True)))
    return {**content._asdict(), **files, "features": features}
