"""Groups of items, and the pairs that may be asked about, the same for every annotator."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import I64, Bool
from sortnet.errors import JudgementError
from sortnet.preference.base import Pair

# Up to this number of pairs, all pairs are listed and considered for each question; 200 items have
# this number of pairs. From more pairs, a sample is drawn for each question.
FEW = 20_000
_TRIES = 100


class Groups:
    """The groups of items: only items of the same group are compared with each other.

    Args:
        groups: (n,) the name or number of each item's group. If None, all items are in one group.
        n_items: the number of items n.
        without: the retired items, which are not compared any more.
        among: (m, 2) item numbers of the only pairs that may be asked about. If None, any two items
            of the same group may be asked about.

    Attributes:
        of: (n,) the number of each item's group. Groups are numbered from 0, in the order of their
            first items.
        members: the compared items of each group, in ascending order.
        n_pairs: the number of pairs within groups.

    Raises:
        JudgementError: unless `groups` has n names, and there is a pair within a group; or on a
            pair in `among` with an unknown item or with items of two groups.

    >>> groups = Groups(["b", "a", "b"], 3)
    >>> groups.of.tolist(), [members.tolist() for members in groups.members], groups.n_pairs
    ([0, 1, 0], [[0, 2], [1]], 1)
    >>> groups.may_ask((0, 2)), groups.may_ask((0, 1))
    (True, False)
    """

    def __init__(
        self,
        groups: Iterable[Hashable] | None,
        n_items: int,
        *,
        without: Collection[int] = (),
        among: ArrayLike | None = None,
    ) -> None:
        names = [0] * n_items if groups is None else [*groups]
        if len(names) != n_items:
            raise JudgementError(f"{n_items} items but groups of {len(names)}")
        number_of_name = {name: number for number, name in enumerate(dict.fromkeys(names))}
        self.of: I64 = np.array([number_of_name[name] for name in names], np.int64)
        self._is_compared = np.ones(n_items, np.bool_)
        self._is_compared[list(without)] = False
        by_group = np.argsort(self.of, kind="stable")
        self._items = by_group[self._is_compared[by_group]]
        self._size = np.bincount(self.of[self._is_compared], minlength=len(number_of_name))
        self._start = np.append(0, np.cumsum(self._size)[:-1])  # in the items, of each group
        self.members = tuple(np.split(self._items, self._start[1:]))
        self._pairs_of_group: I64 = self._size * (self._size - 1) // 2
        self.n_pairs = int(self._pairs_of_group.sum())
        if not self.n_pairs:
            raise JudgementError(f"{len(self)} groups of one item each: there is no pair to ask")
        self._listed = None if among is None else self._checked(among)

    def __len__(self) -> int:
        return len(self.members)

    def members_beside(self, item: int) -> I64:
        """Return the compared items of an item's group."""
        members: I64 = self.members[self.of[item]]
        return members

    def _checked(self, among: ArrayLike) -> set[Pair]:
        """Check the list of pairs, and return each pair once, with the lower item number first."""
        n_items = len(self.of)
        pairs = np.sort(np.array(among, np.int64).reshape(-1, 2), axis=1).tolist()
        for low, high in pairs:
            if low < 0 or high >= n_items or low == high:
                raise JudgementError(f"({low}, {high}) is no pair of {n_items} items")
            if self.of[low] != self.of[high]:
                raise JudgementError(f"({low}, {high}) is a pair across groups")
        return {(low, high) for low, high in pairs}

    def all_within(self) -> tuple[I64, I64]:
        """List all pairs within groups, as two arrays of items; not meant for many items."""
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

    @property
    def n_askable(self) -> int:
        """The number of pairs that may be asked about."""
        return self.n_pairs if self._listed is None else len(self._listed)

    @property
    def listed(self) -> tuple[I64, I64] | None:
        """The two items of each pair of the user's list; None if there is no list."""
        return None if self._listed is None else self.askable

    @cached_property
    def askable(self) -> tuple[I64, I64] | None:
        """The two items of each pair that may be asked about; None for more than 20,000 pairs.

        The pairs of a user's list are listed, however many they are.
        """
        if self._listed is not None:
            i, j = np.array(sorted(self._listed), np.int64).reshape(-1, 2).T
            return i, j
        return self.all_within() if self.n_pairs <= FEW else None

    def may_ask(self, pair: Pair) -> bool:
        """Whether a pair of items, the lower number first, may be asked about."""
        if self._listed is not None and pair not in self._listed:
            return False
        low, high = pair
        are_compared = self._is_compared[low] and self._is_compared[high]
        return bool(are_compared and self.of[low] == self.of[high])

    def draw_free(self, free: Callable[[int, int], bool], rng: np.random.Generator) -> Pair | None:
        """Draw a free pair, each free pair with the same probability; None if there is none.

        Of more than 20,000 pairs, 100 are drawn at most.
        """
        if self.askable is None:
            i, j = self.draw(rng, _TRIES)
        else:
            i, j = rng.permutation(self.askable, axis=1)
        pairs = zip(i.tolist(), j.tolist(), strict=True)
        return next((pair for pair in pairs if free(*pair)), None)


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
    group_and_part = np.unique(np.column_stack((groups.of, parts))[judged], axis=0)
    n_parts_of_group = np.bincount(group_and_part[:, 0], minlength=len(groups))
    is_apart = n_parts_of_group > 1
    if not is_apart.any():
        return None
    return Apart(
        n_items=int(np.count_nonzero(judged & is_apart[groups.of])),
        n_groups=int(is_apart.sum()),
        n_parts=int(n_parts_of_group[is_apart].sum()),
    )
