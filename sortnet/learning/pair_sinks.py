"""MemoryPairs: the training and validation pairs of a run, kept in memory."""

from __future__ import annotations

import numpy as np

from sortnet.core import I32, I64, SPLITS, ComparedPairs, Split
from sortnet.core.pairs import is_in


class MemoryPairs:
    """A `PairSink` in memory: 12 bytes a pair. It does not count wrong pairs.

    >>> sink = MemoryPairs()
    >>> sink.add("train", 0, ComparedPairs.of([0, 4], [2, 5], margin=[-1, 1], answer=1))
    >>> sink.add("train", 1, ComparedPairs.of([4, 4], [5, 6], margin=-1, answer=1))
    >>> sink.pairs("train").j.tolist(), sink.pairs("train", before=1).j.tolist()
    ([2, 5, 6], [2, 5])
    """

    def __init__(self) -> None:
        # For each split the ascending keys of the pairs, and the iteration that added each pair.
        nothing = np.empty(0, np.int64), np.empty(0, np.int32)
        self._pairs: dict[Split, tuple[I64, I32]] = dict.fromkeys(SPLITS, nothing)

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        """Add the pairs; a pair that is there already keeps the earlier of the two iterations.

        Cost: a copy of all pairs.
        """
        keys, added_in = self._pairs[split]
        new_keys = pairs.key[~is_in(pairs.key, keys)]
        rows = np.searchsorted(keys, new_keys)
        keys = np.insert(keys, rows, new_keys)
        added_in = np.insert(added_in, rows, iteration)
        rows_of_pairs = np.searchsorted(keys, pairs.key)
        added_in[rows_of_pairs] = np.minimum(added_in[rows_of_pairs], iteration)
        self._pairs[split] = keys, added_in

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Return the pairs that were added before the iteration `before`, or all added pairs."""
        keys, added_in = self._pairs[split]
        return ComparedPairs.of_keys(keys if before is None else keys[added_in < before])
