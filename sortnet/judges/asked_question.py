"""Questions in the form that programs and models read: dicts with the items and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from sortnet.files import plain
from sortnet.items import Items

# The type is a plain dict because a question is sent to programs as JSON.
AskedQuestion: TypeAlias = dict[str, Any]
PLACES = "ABCDEF"  # names of the places of a question's items


def asked_question(
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
) -> AskedQuestion:
    """Make the dict, ready for JSON, that a program or a model is asked with.

    A dict about two items has them as `left` and `right`. A dict about more items has the list
    `items`, each with its `place`.
    Items in groups also have the `group` and its `context`.

    Args:
        left, right: numbers of the items in the first two places.
        id: name of the question, which an answer may repeat.
        further: numbers of the items in the third place and on.
        worst: whether the worst of more than two items is asked for, too.
    """
    fields: AskedQuestion = {"id": id, "question": question, "instructions": instructions}
    if criterion is not None:
        fields["criterion"] = criterion
    if items.groups is not None:
        fields |= {"group": items.groups[left], "context": items.context(left)}
    if further:
        in_places = zip(PLACES, (left, right, *further), strict=False)
        fields["items"] = [{"place": place, **_side(items, item)} for place, item in in_places]
        fields["worst"] = worst
    else:
        fields["left"] = _side(items, left)
        fields["right"] = _side(items, right)
    return fields


def asked_items(question: AskedQuestion) -> list[dict[str, Any]]:
    """The items of a question, in the order of their places."""
    if "items" in question:
        return list(question["items"])
    return [question["left"], question["right"]]


def _side(items: Items, item: int) -> dict[str, Any]:
    """Make the dict of an item: its content, the paths of its files, and its features."""
    content = items.content(item)
    features = dict(zip(items.feature_names, items.features[item], strict=True))
    return {
        **content._asdict(),
        "image": _path(items, content.image),
        "audio": _path(items, content.audio),
        "features": plain(features),
    }


def _path(items: Items, file: str | None) -> str | None:
    """The path of a file below the root of the items; None without a file."""
    if file is None or not items.root:
        return file
    return str(items.root / file)
