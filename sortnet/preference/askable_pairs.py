"""The pairs of items that a session may ask about, the same for every annotator."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import I64
from sortnet.errors import JudgementError
from sortnet.preference.base import Pair
from sortnet.preference.groups import Groups

FEW = 20_000  # up to this number, all pairs (of 200 items) are candidates, else a sample


class AskablePairs:
    """The pairs that may be asked: both items in one group, not retired, and in the list if given.

    Args:
        groups: the groups of the items.
        retired: items that nobody is asked about.
        among: (m, 2) the only pairs that may be asked; None for all within groups.

    Attributes:
        count: the number of pairs.
        every: (m,), (m,) the two items of every pair; None if there is no list and more than
            20,000 pairs.
        listed: whether there is a list.

    Raises:
        JudgementError: on a pair in `among` of unknown items or across groups.

    >>> pairs = AskablePairs(Groups(["a", "a", "a", "b", "b"], 5), retired=[0])
    >>> (1, 2) in pairs, (0, 1) in pairs, (2, 3) in pairs
    (True, False, False)
    """

    def __init__(
        self, groups: Groups, *, retired: Collection[int] = (), among: ArrayLike | None = None
    ) -> None:
        self._group, self._retired = groups.of, retired
        self.listed = among is not None
        self._allowed: set[Pair] | None = None
        self.every: tuple[I64, I64] | None
        if among is None:
            self.every = groups.every() if groups.n_pairs <= FEW else None
            self.count = groups.n_pairs
        else:
            pairs = _checked_pairs(among, groups)
            self._allowed = {(i, j) for i, j in pairs.tolist()}
            self.every = pairs[:, 0], pairs[:, 1]
            self.count = len(pairs)

    def __contains__(self, pair: Pair) -> bool:
        """Whether a pair may be asked; the item with the lower number comes first in the pair."""
        low, high = pair
        if self._group[low] != self._group[high]:
            return False
        if low in self._retired or high in self._retired:
            return False
        return self._allowed is None or pair in self._allowed


def _checked_pairs(among: ArrayLike, groups: Groups) -> I64:
    """Check the listed pairs; return (m, 2) each pair once, with the lower item number first."""
    n_items = len(groups.of)
    pairs: I64 = np.unique(np.sort(np.array(among, np.int64).reshape(-1, 2), axis=1), axis=0)
    for low, high in pairs.tolist():
        if low < 0 or high >= n_items or low == high:
            raise JudgementError(f"({low}, {high}) is no pair of {n_items} items")
        if groups.of[low] != groups.of[high]:
            raise JudgementError(f"({low}, {high}) is a pair across groups")
    return pairs
