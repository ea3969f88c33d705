"""The pairs of items that a session may ask about, the same for every annotator."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import I64
from sortnet.errors import JudgementError
from sortnet.preference.base import Pair
from sortnet.preference.groups import Groups

# Up to this number of pairs, all pairs are listed and considered for each question; 200 items have
# this number of pairs. From more pairs, a sample is drawn for each question.
FEW = 20_000
_TRIES = 100


class AskablePairs:
    """The pairs of items that may be asked.

    Both items of such a pair are in the same group and not retired. If the user gave a list of
    pairs, the pair is also in the list.

    Args:
        groups: the groups of the items.
        retired: items that nobody is asked about.
        among: (m, 2) item numbers of the only pairs that may be asked. If None, any two items of
            the same group may be asked.

    Attributes:
        count: the number of pairs.
        every: (m,), (m,) the two items of every pair; None if the user gave no list, and there are
            more than 20,000 pairs.
        listed: whether the user gave a list of pairs.

    Raises:
        JudgementError: on a pair in `among` with an unknown item or with items of two groups.

    >>> pairs = AskablePairs(Groups(["a", "a", "a", "b", "b"], 5), retired=[0])
    >>> (1, 2) in pairs, (0, 1) in pairs, (2, 3) in pairs
    (True, False, False)
    """

    def __init__(
        self, groups: Groups, *, retired: Collection[int] = (), among: ArrayLike | None = None
    ) -> None:
        """List the pairs if they are few, or if the user gave a list."""
        self._groups = groups
        self._group = groups.of
        self._retired = retired
        self.listed = among is not None
        self._listed_pairs: set[Pair] | None = None
        self.every: tuple[I64, I64] | None
        if among is None:
            self.every = groups.every if groups.n_pairs <= FEW else None
            self.count = groups.n_pairs
        else:
            pairs = _checked_pairs(among, groups)
            self._listed_pairs = {(low, high) for low, high in pairs.tolist()}
            self.every = pairs[:, 0], pairs[:, 1]
            self.count = len(pairs)

    def __contains__(self, pair: Pair) -> bool:
        """Whether a pair of items, the lower number first, may be asked."""
        low, high = pair
        if self._group[low] != self._group[high]:
            return False
        if low in self._retired or high in self._retired:
            return False
        return self._listed_pairs is None or pair in self._listed_pairs

    def drawn(self, free: Callable[[int, int], bool], rng: np.random.Generator) -> Pair | None:
        """Draw a free pair, each free pair with the same probability; None if there is none.

        Of more than 20,000 pairs, 100 are drawn at most.
        """
        if self.every is not None:
            rows = rng.permutation(len(self.every[0]))
            i, j = self.every[0][rows], self.every[1][rows]
        else:
            i, j = self._groups.draw(rng, _TRIES)
        for pair in zip(i.tolist(), j.tolist(), strict=True):
            if free(*pair):
                return pair
        return None


def _checked_pairs(among: ArrayLike, groups: Groups) -> I64:
    """Check the list of pairs, and remove repeated pairs.

    Returns:
        (m, 2) each pair once, with the lower item number first.

    Raises:
        JudgementError: on a pair with an unknown item, of one item, or with items of two groups.
    """
    n_items = len(groups.of)
    listed_pairs = np.array(among, np.int64).reshape(-1, 2)
    pairs: I64 = np.unique(np.sort(listed_pairs, axis=1), axis=0)
    for low, high in pairs.tolist():
        if low < 0 or high >= n_items or low == high:
            raise JudgementError(f"({low}, {high}) is no pair of {n_items} items")
        if groups.of[low] != groups.of[high]:
            raise JudgementError(f"({low}, {high}) is a pair across groups")
    return pairs
