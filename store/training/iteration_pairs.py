"""Pairs of the present iteration, kept in memory until the iteration is stored as a whole."""

from __future__ import annotations

import numpy as np

from sortnet.core import ComparedPairs, Split
from sortnet.core.shard import Group
from store.runs.pair_rows import AddedPairs
from store.runs.run import Run


class IterationPairs:
    """A `PairSink` that keeps the pairs of an iteration, for the first process to store.

    Args:
        group: the processes of the run.
        run: the run, whose stored pairs are read; None in all processes but the first.
    """

    def __init__(self, group: Group, run: Run | None = None) -> None:
        self._group = group
        self._run = run
        self._added: list[AddedPairs] = []

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        """Keep an iteration's pairs, see `PairSink.add`."""
        self._added.append(AddedPairs.of(split, iteration, pairs, wrong))

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Send the stored pairs of the first process to all processes, see `PairSink.pairs`."""
        keys = np.empty(0, np.int64)
        if self._run is not None:
            keys = self._run.pairs(split, before).key
        return ComparedPairs.of_keys(self._group.gather(keys))

    def take(self) -> list[AddedPairs]:
        """Return the pairs that were added since the last call."""
        added, self._added = self._added, []
        return added
