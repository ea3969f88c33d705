"""Questions in the form that programs and models read: dicts with the items and features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sortnet.files import Record, plain
from sortnet.items import Items

# The type is a plain dict because a question is sent to programs as JSON.
AskedQuestion: TypeAlias = Record
PLACES = "ABCDEF"  # letters that name the places of a question's items


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
    """Make the dict of a question, ready for JSON, that a program or a model reads.

    A question about two items has the keys `left` and `right`. A question about more items has the
    list `items`, and each of these items has its `place`. If the items are in groups, the question
    also has their `group` and its `context`.

    Args:
        items: all items.
        left: number of the item in the first place.
        right: number of the item in the second place.
        id: name of the question, which an answer may repeat.
        question: text of the question, such as "Which is better?".
        instructions: instructions for the annotator, if there are any.
        criterion: criterion by which the items are compared, if the study has several.
        further: numbers of the items in the third place and the places after it.
        worst: whether the worst of more than two items is asked for, too.
    """
    fields: AskedQuestion = {"id": id, "question": question, "instructions": instructions}
    if criterion is not None:
        fields["criterion"] = criterion
    if items.groups is not None:
        fields |= {"group": items.groups[left], "context": items.context(left)}
    if further:
        numbers_by_place = zip(PLACES, (left, right, *further), strict=False)
        fields["items"] = [
            {"place": place, **_fields_of_item(items, number)} for place, number in numbers_by_place
        ]
        fields["worst"] = worst
    else:
        fields["left"] = _fields_of_item(items, left)
        fields["right"] = _fields_of_item(items, right)
    return fields


def asked_items(question: AskedQuestion) -> list[Record]:
    """Return the dicts of a question's items with their `place`, in the order of the places."""
    items = question.get("items") or [question["left"], question["right"]]
    return [{"place": place, **item} for place, item in zip(PLACES, items, strict=False)]


def _fields_of_item(items: Items, number: int) -> Record:
    """Make the dict of an item: its content, the paths of its files, and its features."""
    content = items.content(number)
    features = dict(zip(items.feature_names, items.features[number], strict=True))
    return {
        **content._asdict(),
        "image": _path(items, content.image),
        "audio": _path(items, content.audio),
        "features": plain(features),
    }


def _path(items: Items, file: str | None) -> str | None:
    """Return the path of an item's file below the folder of the items; None if there is no file."""
    if file is None or not items.root:
        return file
    return str(items.root / file)
