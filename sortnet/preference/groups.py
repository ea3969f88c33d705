"""Groups of items: only pairs within a group are asked, counted and ranked."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from sortnet.core import I64, Bool
from sortnet.errors import JudgementError


class Groups:
    """Which items are compared with each other: those of one group.

    Args:
        groups: (n,) name or number of each item's group; None: all are of one.
        n_items: n.
        without: items that are compared no more.

    Attributes:
        of: (n,) the number of each item's group, in the order of their first items.
        members: the items of each group that are compared, in order.
        n_pairs: the number of pairs within groups.

    Raises:
        JudgementError: on another number of groups than items, or no pair within a group.

    >>> groups = Groups(["b", "a", "b"], 3)
    >>> groups.of.tolist(), [m.tolist() for m in groups.members], groups.n_pairs
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
        self.of: I64 = np.array([numbers.setdefault(g, len(numbers)) for g in names], np.int64)
        if len(self.of) != n_items:
            raise JudgementError(f"{n_items} items but groups of {len(self.of)}")
        kept = np.ones(n_items, np.bool_)
        kept[list(without)] = False
        self._sizes: I64 = np.bincount(self.of[kept], minlength=len(numbers))
        self._sorted: I64 = np.argsort(self.of, kind="stable")  # group by group
        self._sorted = self._sorted[kept[self._sorted]]
        self._first: I64 = np.append(0, np.cumsum(self._sizes)[:-1])
        self._at = self._first[self.of]  # each item's place in `_sorted`
        self._at[self._sorted] = np.arange(len(self._sorted))
        self._pairs: I64 = self._sizes * (self._sizes - 1) // 2
        self.members = tuple(np.split(self._sorted, self._first[1:]))
        self.n_pairs = int(self._pairs.sum())
        if not self.n_pairs:
            raise JudgementError(f"{len(self)} groups of one item each: there is no pair to ask")

    def __len__(self) -> int:
        return len(self.members)

    def every(self) -> tuple[I64, I64]:
        """All pairs within groups: only for few of them."""
        pairs = [m[np.array(np.triu_indices(len(m), 1))] for m in self.members]
        i, j = np.concatenate(pairs, axis=1)
        return i, j

    def draw(self, rng: np.random.Generator, m: int) -> tuple[I64, I64]:
        """m pairs within groups, each of them with the same probability."""
        n = len(self._sorted)
        if len(self) == 1:
            i = rng.integers(n, size=m)
            return self._sorted[i], self._sorted[(i + rng.integers(1, n, size=m)) % n]
        drawn = rng.integers(self.n_pairs, size=m)
        group = np.searchsorted(np.cumsum(self._pairs), drawn, side="right")
        i = self._sorted[self._first[group] + rng.integers(self._sizes[group])]
        return i, self.partners(i, rng)

    def partners(self, i: I64, rng: np.random.Generator) -> I64:
        """For each item another one of its group; itself if it is the only one."""
        size, first = self._sizes[self.of[i]], self._first[self.of[i]]
        # A plain number where there is one group only: numpy draws others for an array.
        most = len(self._sorted) if len(self) == 1 else np.maximum(size, 2)
        steps = rng.integers(1, most, size=len(i))
        at = first + (self._at[i] - first + steps) % np.maximum(size, 1)
        return self._sorted[np.minimum(at, len(self._sorted) - 1)]


@dataclass(frozen=True)
class GroupStanding:
    """How close one group is to the goal.

    Attributes:
        group: its number, in the order of the groups' first items.
        items, answers: its numbers of items, and of answers about its pairs.
        wrong: share of its pairs expected to be in the wrong order, 0 for a single item; of a goal
            of top items, share of these expected not to belong there.
        stop: whether to stop asking about it.
    """

    group: int
    items: int
    answers: int
    wrong: float
    stop: bool


def parts_apart(parts: I64, judged: Bool, groups: Groups, *, features: bool) -> str:
    r"""A sentence on items of a group that nobody compared, not even through others; or nothing.

    Given are each item's connected component in the graph of answers, whether there is an answer
    about it, (n,) each, and whether the items have features.

    >>> parts = np.array([0, 0, 1, 1, 2])
    >>> sentence = parts_apart(parts, parts < 2, Groups(None, 5), features=False)
    >>> print(sentence.replace(", ", ",\n"))
    4 items fall into 2 sets without any answer between the sets,
    so their order across sets is unknown: keep answering,
    at least 1 answer must link the sets,
    and such pairs are asked early
    """
    n = len(parts)
    part_groups = np.unique(groups.of[judged] * n + parts[judged]) // n
    counts = np.bincount(part_groups, minlength=len(groups))
    several = counts > 1
    if not several.any():
        return ""
    where = f"{np.count_nonzero(judged & several[groups.of]):,} items"
    n_groups, n_parts = int(several.sum()), int(counts[several].sum())
    if len(groups) > 1:
        where += f" of {n_groups:,} group{'s' if n_groups > 1 else ''}"
    unknown = "their order across sets is unknown"
    order = "features alone decide their order across sets" if features else unknown
    # A tree of answers that joins the parts of each group.
    n_joining = n_parts - n_groups
    joining = "1 answer" if n_joining == 1 else f"{n_joining:,} answers"
    return (
        f"{where} fall into {n_parts:,} sets without any answer between the sets, so {order}: "
        f"keep answering, at least {joining} must link the sets, and such pairs are asked early"
    )
