"""Groups of items: only pairs within a group are asked, counted and ranked."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sortnet.core import I64, Bool
from sortnet.errors import JudgementError


@dataclass(frozen=True, eq=False)
class _ItemsByGroup:
    """The compared items, group by group; an index counts items in this order, from 0.

    Attributes:
        items: (c,) the numbers of the compared items, in ascending order within a group.
        size: (g,) the number of compared items of each group.
        start: (g,) the index of each group's first item.
        index: (n,) the index of each item; an item that is not compared has its group's `start`.
    """

    items: I64
    size: I64
    start: I64
    index: I64


def _items_by_group(group: I64, n_groups: int, is_compared: Bool) -> _ItemsByGroup:
    """Sort the compared items by group.

    Args:
        group: (n,) the number of each item's group.
        n_groups: the number of groups.
        is_compared: (n,) whether each item is compared.
    """
    by_group = np.argsort(group, kind="stable")
    items = by_group[is_compared[by_group]]
    size = np.bincount(group[is_compared], minlength=n_groups)
    start = np.append(0, np.cumsum(size)[:-1])
    index = start[group]
    index[items] = np.arange(len(items))
    return _ItemsByGroup(items, size, start, index)


class Groups:
    """The groups of items: only items of the same group are compared with each other.

    Args:
        groups: (n,) the name or number of each item's group. If None, all items are in one group.
        n_items: the number of items n.
        without: the items that are not compared any more.

    Attributes:
        of: (n,) the number of each item's group. Groups are numbered from 0, in the order of their
            first items.
        members: the compared items of each group, in ascending order.
        n_pairs: the number of pairs within groups.

    Raises:
        JudgementError: unless `groups` has n names, and there is a pair within a group.

    >>> groups = Groups(["b", "a", "b"], 3)
    >>> groups.of.tolist(), [members.tolist() for members in groups.members], groups.n_pairs
    ([0, 1, 0], [[0, 2], [1]], 1)
    """

    def __init__(
        self,
        groups: Iterable[Hashable] | None,
        n_items: int,
        *,
        without: Collection[int] = (),
    ) -> None:
        number_of_name: dict[Hashable, int] = {}
        names = (0 for _ in range(n_items)) if groups is None else groups
        numbers = [number_of_name.setdefault(name, len(number_of_name)) for name in names]
        self.of: I64 = np.array(numbers, np.int64)
        if len(self.of) != n_items:
            raise JudgementError(f"{n_items} items but groups of {len(self.of)}")
        is_compared = np.ones(n_items, np.bool_)
        is_compared[list(without)] = False
        self._by_group = _items_by_group(self.of, len(number_of_name), is_compared)
        self.members = tuple(np.split(self._by_group.items, self._by_group.start[1:]))
        size = self._by_group.size
        self._pairs_of_group: I64 = size * (size - 1) // 2
        self.n_pairs = int(self._pairs_of_group.sum())
        if not self.n_pairs:
            raise JudgementError(f"{len(self)} groups of one item each: there is no pair to ask")

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def every(self) -> tuple[I64, I64]:
        """All pairs within groups, as two arrays of items; not meant for many items."""
        pairs_of_groups = [
            members[np.array(np.triu_indices(len(members), 1))] for members in self.members
        ]
        i, j = np.concatenate(pairs_of_groups, axis=1)
        return i, j

    def draw(self, rng: np.random.Generator, m: int) -> tuple[I64, I64]:
        """Draw m random pairs within groups, each pair with the same probability.

        A group is drawn with a probability in proportion to the number of its pairs. Then an item
        of the group is drawn, and another item of the group.
        """
        by_group = self._by_group
        if len(self) == 1:
            n = len(by_group.items)
            index = rng.integers(n, size=m)
            # After a step of 1 to n - 1 items, continued at the first item after the last item, the
            # other item is never the same item.
            other_index = (index + rng.integers(1, n, size=m)) % n
            return by_group.items[index], by_group.items[other_index]
        # The pairs are numbered group by group. So a random number of a pair draws a group with a
        # probability in proportion to the number of its pairs.
        pair_number = rng.integers(self.n_pairs, size=m)
        group = np.searchsorted(np.cumsum(self._pairs_of_group), pair_number, side="right")
        index_in_group = rng.integers(by_group.size[group])
        i = by_group.items[by_group.start[group] + index_in_group]
        return i, self.partners(i, rng)

    def partners(self, i: I64, rng: np.random.Generator) -> I64:
        """Draw a random other item of the same group for each item i.

        The items of a group are arranged in a circle, and the partner is a random number of steps
        further on. An item that is the only one of its group gets itself. An item of a group
        without compared items gets some item.
        """
        items = self._by_group.items
        group = self.of[i]
        size = self._by_group.size[group]
        start = self._by_group.start[group]  # the index in `items` of the group's first item
        place = self._by_group.index[i] - start  # in the group, from 0
        steps = self._draw_steps(size, rng)
        # Both bounds matter only for groups without compared items: such a group has the size 0,
        # and if it is the last group, it starts after the last item.
        place_of_partner = (place + steps) % np.maximum(size, 1)
        index_of_partner = np.minimum(start + place_of_partner, len(items) - 1)
        return items[index_of_partner]

    def _draw_steps(self, size: I64, rng: np.random.Generator) -> I64:
        """Draw a number from 1 to size - 1 for each size of a group; 1 if the size is below 2."""
        if len(self) == 1:
            # A plain number as bound gives other random numbers than an array. A session with one
            # group must keep its random numbers.
            return rng.integers(1, len(self._by_group.items), size=len(size))
        return rng.integers(1, np.maximum(size, 2), size=len(size))


class Apart(NamedTuple):
    """The judged items whose group falls into several parts without any answer between the parts.

    Attributes:
        n_items: the number of these items.
        n_groups: the number of their groups.
        n_parts: the number of parts of all these groups together.
    """

    n_items: int
    n_groups: int
    n_parts: int


def count_apart(parts: I64, judged: Bool, groups: Groups) -> Apart | None:
    """Count the groups that fall into parts without any answer between them, and their items.

    Return None if all judged items of each group are connected by a chain of answers.

    Args:
        parts: (n,) the number of each item's connected component in the graph of answers.
        judged: (n,) whether there is an answer about the item.
        groups: the groups of the items.

    >>> parts = np.array([0, 0, 1, 1, 2])
    >>> count_apart(parts, parts < 2, Groups(None, 5))
    Apart(n_items=4, n_groups=1, n_parts=2)
    """
    # Each combination of a group and a part gets the number group * n + part.
    n = len(parts)
    combinations = np.unique(groups.of[judged] * n + parts[judged])
    n_parts_of_group = np.bincount(combinations // n, minlength=len(groups))
    is_apart = n_parts_of_group > 1
    if not is_apart.any():
        return None
    return Apart(
        n_items=int(np.count_nonzero(judged & is_apart[groups.of])),
        n_groups=int(is_apart.sum()),
        n_parts=int(n_parts_of_group[is_apart].sum()),
    )
