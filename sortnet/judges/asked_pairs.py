"""Pairs as a judge that is no person reads them: both sides with all that is known of them."""

from __future__ import annotations

from typing import Any, TypeAlias

from sortnet.files import plain
from sortnet.items import Items

Pair: TypeAlias = dict[str, Any]  # what is asked, as a program reads it


def pair_of_items(
    items: Items,
    left: int,
    right: int,
    *,
    id: str,
    question: str,
    instructions: str | None,
    criterion: str | None = None,
) -> Pair:
    """The line of JSON about two items; its `group` and `context` are there if items have groups.

    Args:
        left, right: numbers of the items.
        id: what the answer may be recognised by.
    """
    pair: Pair = {"id": id, "question": question, "instructions": instructions}
    if criterion is not None:
        pair["criterion"] = criterion
    if items.groups is not None:
        pair |= {"group": items.groups[left], "context": items.context(left)}
    return pair | {"left": _side(items, left), "right": _side(items, right)}


def _side(items: Items, k: int) -> Pair:
    def path(file: str | None) -> str | None:
        return None if file is None else str(items.root / file if items.root else file)

    content = items.content(k)
    files = {"image": path(content.image), "audio": path(content.audio)}
    features = plain(dict(zip(items.feature_names, items.features[k], strict=True)))
    return {**content._asdict(), **files, "features": features}
