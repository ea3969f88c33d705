"""Groups of items: only pairs within a group are asked, counted and ranked."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sortnet.core import I64, Bool
from sortnet.errors import JudgementError


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
        by_group = np.argsort(self.of, kind="stable")
        self._items = by_group[is_compared[by_group]]
        self._size = np.bincount(self.of[is_compared], minlength=len(number_of_name))
        self._start = np.append(0, np.cumsum(self._size)[:-1])  # in the items, of each group
        self.members = tuple(np.split(self._items, self._start[1:]))
        self._pairs_of_group: I64 = self._size * (self._size - 1) // 2
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
        pair_number = rng.integers(self.n_pairs, size=m)  # pairs are numbered group by group
        group = np.searchsorted(np.cumsum(self._pairs_of_group), pair_number, side="right")
        size = self._size[group]
        place = rng.integers(size)
        # The first item follows the last, so that a step of 1 to size - 1 leads to another item.
        other_place = (place + rng.integers(1, size)) % size
        start = self._start[group]
        return self._items[start + place], self._items[start + other_place]


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
