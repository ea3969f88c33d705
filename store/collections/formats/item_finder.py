"""Find the items of a collection that a record of another tool is about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from sortnet.files import shown
from sortnet.items import Items
from store.collections.formats.faults import refuse

Record: TypeAlias = Mapping[str, Any]


def text_of(value: Any, role: str = "assistant") -> str | None:
    """Return the text of a field; None if the field has no text.

    The text of a conversation is its last message by `role`. The text of a whole number is its
    digits.
    """
    content = _last_content(value, role) if isinstance(value, list) else value
    if isinstance(content, int) and not isinstance(content, bool):
        return str(content)
    return content.strip() if isinstance(content, str) else None


def _last_content(conversation: Sequence[Any], role: str) -> Any:
    """Return the content of the last message by `role` in a conversation; None without one."""
    messages = [
        message
        for message in conversation
        if isinstance(message, dict) and message.get("role") == role
    ]
    return messages[-1].get("content") if messages else None


class ItemFinder:
    """Finds items of a collection by id, by text, and by the name of their image or sound."""

    def __init__(self, items: Items) -> None:
        """Map ids, texts, names of images and sounds, and contexts of groups to the items."""
        self.items = items
        self.ids = {*items.ids}
        # Each id, text or name is mapped to the numbers of the items that have it. The numbers are
        # keys of a dict, which keeps them in order and without duplicates.
        self._numbers: defaultdict[str, dict[int, None]] = defaultdict(dict)
        columns = (items.ids, items.texts, items.images, items.audio)
        for number, names in enumerate(zip(*columns, strict=True)):
            for name in names:
                if name:
                    self._numbers[name.strip()][number] = None
        groups = items.groups or ()
        contexts = items.contexts or ()
        self._group_names = {*groups}
        self._groups_of_context: defaultdict[str, set[str]] = defaultdict(set)
        # If items have groups but no contexts, nothing is mapped.
        for group, context in zip(groups, contexts, strict=False):
            context_text = (context or "").strip()
            self._groups_of_context[context_text].add(group)

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
        left_numbers = self._candidates(place, left, record)
        right_numbers = self._candidates(place, right, record)
        all_pairs = self._pairs_in_one_group(left_numbers, right_numbers)
        # Two pairs are enough to know that it is not clear which pair is meant.
        first_pairs = list(islice(all_pairs, 2))
        names = f"{shown(text_of(left))} and {shown(text_of(right))}"
        if not first_pairs:
            refuse(place, f"{names} are one item, or of different groups")
        if len(first_pairs) > 1:
            refuse(place, f"{names} are of more than one pair of items: name the items by id")
        left_number, right_number = first_pairs[0]
        return self.items.ids[left_number], self.items.ids[right_number]

    def _candidates(self, place: str, value: Any, record: Record) -> list[int]:
        """List the numbers of all items that a field may mean; raise a DataError if none fits."""
        name = text_of(value)
        if name is None or name not in self._numbers:
            text = shown(value if name is None else name)
            refuse(place, f"no item of the collection has the id or text {text}")
        numbers = [*self._numbers[name]]
        groups = self.items.groups
        groups_of_record = self._groups_of(record)
        if groups is None or not groups_of_record:
            return numbers
        numbers_in_groups = [number for number in numbers if groups[number] in groups_of_record]
        if not numbers_in_groups:
            refuse(place, f"no item of the group of its prompt is {shown(name)}")
        return numbers_in_groups

    def _pairs_in_one_group(
        self, left_numbers: Sequence[int], right_numbers: Sequence[int]
    ) -> Iterator[tuple[int, int]]:
        """Yield each pair of two different items, one of each list, that are in one group."""
        groups = self.items.groups
        for left in left_numbers:
            for right in right_numbers:
                if left != right and (groups is None or groups[left] == groups[right]):
                    yield left, right

    def _groups_of(self, record: Record) -> set[str]:
        """Return the groups whose context is in a record, or else the groups that it names."""
        if not self._group_names:
            return set()
        groups_by_context: set[str] = set()
        for value in record.values():
            text = text_of(value)
            if text:
                groups_by_context |= self._groups_of_context.get(text, set())
        if groups_by_context:
            return groups_by_context
        texts = {text_of(record.get("group")), text_of(record.get("prompt"))}
        return {name for name in texts if name and name in self._group_names}
