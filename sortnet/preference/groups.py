"""Groups of items: only pairs within a group are asked, counted and ranked."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from sortnet.core import I64, Bool
from sortnet.errors import JudgementError


class Groups:
    """The groups of items: only items of the same group are compared with each other.

    Args:
        groups: (n,) name or number of each item's group; None: all items are in one group.
        n_items: n.
        without: items that are not compared any more.

    Attributes:
        of: (n,) the number of each item's group, in the order of their first items.
        members: the items of each group that are compared, in order.
        n_pairs: the number of pairs within groups.

    Raises:
        JudgementError: on another number of groups than items, or no pair within a group.

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
        numbers: dict[Hashable, int] = {}
        names = (0 for _ in range(n_items)) if groups is None else groups
        self.of: I64 = np.array(
            [numbers.setdefault(name, len(numbers)) for name in names], np.int64
        )
        if len(self.of) != n_items:
            raise JudgementError(f"{n_items} items but groups of {len(self.of)}")
        is_compared = np.ones(n_items, np.bool_)
        is_compared[list(without)] = False
        self._sizes: I64 = np.bincount(self.of[is_compared], minlength=len(numbers))
        by_group = np.argsort(self.of, kind="stable")
        self._by_group: I64 = by_group[is_compared[by_group]]  # the compared items
        self._starts: I64 = np.append(0, np.cumsum(self._sizes)[:-1])  # of groups in `_by_group`
        self._places: I64 = self._starts[self.of]  # of items in `_by_group`
        self._places[self._by_group] = np.arange(len(self._by_group))
        self._pairs_of_group: I64 = self._sizes * (self._sizes - 1) // 2
        self.members = tuple(np.split(self._by_group, self._starts[1:]))
        self.n_pairs = int(self._pairs_of_group.sum())
        if not self.n_pairs:
            raise JudgementError(f"{len(self)} groups of one item each: there is no pair to ask")

    def __len__(self) -> int:
        return len(self.members)

    def every(self) -> tuple[I64, I64]:
        """All pairs within groups; not meant for many items."""
        pairs_of_groups = [
            members[np.array(np.triu_indices(len(members), 1))] for members in self.members
        ]
        i, j = np.concatenate(pairs_of_groups, axis=1)
        return i, j

    def draw(self, rng: np.random.Generator, m: int) -> tuple[I64, I64]:
        """Draw m random pairs within groups, each pair with the same probability.

        A group is drawn with a probability in proportion to its number of pairs; then an item of
        the group, and another item of the group.
        """
        n = len(self._by_group)
        if len(self) == 1:
            place = rng.integers(n, size=m)
            # A step of 1 to n - 1 places, round the end, never leads back to the same item.
            other_place = (place + rng.integers(1, n, size=m)) % n
            return self._by_group[place], self._by_group[other_place]
        # The pairs of all groups are numbered, one group after another: a number gives its group.
        pair_number = rng.integers(self.n_pairs, size=m)
        group = np.searchsorted(np.cumsum(self._pairs_of_group), pair_number, side="right")
        i = self._by_group[self._starts[group] + rng.integers(self._sizes[group])]
        return i, self.partners(i, rng)

    def partners(self, i: I64, rng: np.random.Generator) -> I64:
        """A random other item of each item's group; the item itself if it is the only one."""
        size = self._sizes[self.of[i]]
        start = self._starts[self.of[i]]
        # With one group a plain number: numpy draws other steps if the bounds are an array.
        end_of_steps = len(self._by_group) if len(self) == 1 else np.maximum(size, 2)
        steps = rng.integers(1, end_of_steps, size=len(i))
        places = start + (self._places[i] - start + steps) % np.maximum(size, 1)
        return self._by_group[np.minimum(places, len(self._by_group) - 1)]


@dataclass(frozen=True)
class GroupStanding:
    """The distance of one group from the goal.

    Attributes:
        group: its number, in the order of the groups' first items.
        items: number of its items.
        answers: number of answers about its pairs.
        wrong: share of its pairs expected to be in the wrong order, 0 for a single item; if the
            goal is a top, share of the top items expected not to belong there.
        stop: whether to stop asking about it.
    """

    group: int
    items: int
    answers: int
    wrong: float
    stop: bool


def parts_apart(parts: I64, judged: Bool, groups: Groups, *, features: bool) -> str:
    r"""A sentence on items of one group that no chain of answers connects; empty without them.

    Args:
        parts: (n,) each item's connected component in the graph of answers.
        judged: (n,) whether there is an answer about the item.
        groups: groups of the items.
        features: whether the items have features.

    >>> parts = np.array([0, 0, 1, 1, 2])
    >>> sentence = parts_apart(parts, parts < 2, Groups(None, 5), features=False)
    >>> print(sentence.replace(", ", ",\n"))
    4 items fall into 2 sets without any answer between the sets,
    so their order across sets is unknown: keep answering,
    at least 1 answer must link the sets,
    and such pairs are asked early
    """
    n = len(parts)
    group_of_part = np.unique(groups.of[judged] * n + parts[judged]) // n
    n_parts_of_group = np.bincount(group_of_part, minlength=len(groups))
    has_several = n_parts_of_group > 1
    if not has_several.any():
        return ""
    items = f"{np.count_nonzero(judged & has_several[groups.of]):,} items"
    n_groups = int(has_several.sum())
    if len(groups) > 1:
        items += f" of {n_groups:,} groups" if n_groups > 1 else " of 1 group"
    n_parts = int(n_parts_of_group[has_several].sum())
    if features:
        order = "features alone decide their order across sets"
    else:
        order = "their order across sets is unknown"
    # A tree of answers joins the parts of each group.
    n_joining = n_parts - n_groups
    joining = "1 answer" if n_joining == 1 else f"{n_joining:,} answers"
    return (
        f"{items} fall into {n_parts:,} sets without any answer between the sets, so {order}: "
        f"keep answering, at least {joining} must link the sets, and such pairs are asked early"
    )
