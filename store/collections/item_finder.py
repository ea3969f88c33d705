"""Find the items of a collection that a record of another tool is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from typing import Any, NoReturn, TypeAlias

from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items import Items

Record: TypeAlias = Mapping[str, Any]


def refuse(place: str, fault: str) -> NoReturn:
    """Raise a DataError about `place`, which is the name of a file or of one of its rows."""
    raise DataError(f"{place}: {fault}")


def objects_in(value: Any) -> list[Record]:
    """List the objects of a JSON array; a value that is no array has none."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text_of(value: Any, role: str = "assistant") -> str | None:
    """Return the text of a field; None if the field has no text.

    The text of a conversation is its last message by `role`. The text of a whole number is its
    digits.
    """
    if isinstance(value, list):
        messages = [message for message in objects_in(value) if message.get("role") == role]
        value = messages[-1].get("content") if messages else None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else None


class ItemFinder:
    """Finds items of a collection by id, by text, and by the name of their image or sound."""

    def __init__(self, items: Items) -> None:
        """Map ids, texts, names of images and sounds, and contexts of groups to the items."""
        self.ids = items.ids
        # Each id, text or name is mapped to the numbers of the items that have it. The numbers are
        # keys of a dict, which keeps them in order and without duplicates.
        self._numbers: defaultdict[str, dict[int, None]] = defaultdict(dict)
        columns = [items.ids, items.texts, items.images, items.audio]
        for number, names in enumerate(zip(*columns, strict=True)):
            for name in filter(None, names):
                self._numbers[name.strip()][number] = None
        self._group = items.groups or ("",) * len(items)
        # A group is found by its name, and by its context, which several groups may share.
        self._groups_of_context: defaultdict[str, set[str]] = defaultdict(set)
        for group, context in zip(self._group, items.contexts or (), strict=False):
            self._groups_of_context[(context or "").strip()].add(group)

    def is_item(self, value: Any) -> bool:
        """Whether an item has this id, text or name."""
        return text_of(value) in self._numbers

    def pair(self, place: str, left: Any, right: Any, record: Record) -> tuple[str, str]:
        """Find two items of one group, and return their ids.

        If the record names a group or a group's context, the items must be in this group.

        Args:
            place: the file and row, for messages.
            left: the field of the left item: its id, text, or name of an image or sound.
            right: the field of the right item, like `left`.
            record: the record.

        Raises:
            DataError: if no pair of items fits, or more than one pair.
        """
        groups = self._groups_of(record) or {*self._group}
        pairs = (
            (self.ids[first], self.ids[second])
            for first in self._numbers_of(place, left)
            for second in self._numbers_of(place, right)
            if first != second and self._group[first] == self._group[second]
            if self._group[first] in groups
        )
        # Two pairs are enough to know that it is not clear which pair is meant.
        first_pairs = list(islice(pairs, 2))
        names = f"{shown(text_of(left))} and {shown(text_of(right))}"
        if not first_pairs:
            refuse(place, f"{names} are one item, or not both of the group of the prompt")
        if len(first_pairs) > 1:
            refuse(place, f"{names} are of more than one pair of items: name the items by id")
        return first_pairs[0]

    def _numbers_of(self, place: str, value: Any) -> list[int]:
        """List the numbers of all items that a field may mean; raise a DataError if none fits."""
        name = text_of(value)
        if name is None or name not in self._numbers:
            text = shown(value if name is None else name)
            refuse(
                place, f"no item of the collection has the id or text {text} (sortnet items add)"
            )
        return [*self._numbers[name]]

    def _groups_of(self, record: Record) -> set[str]:
        """Return the groups whose context is in a record, or else the groups that it names."""
        texts = {text_of(value) for value in record.values()} - {"", None}
        by_context = [self._groups_of_context.get(str(text), set()) for text in texts]
        names = {text_of(record.get("group")), text_of(record.get("prompt"))}
        by_name = {group for group in self._group if group and group in names}
        return set().union(*by_context) or by_name
