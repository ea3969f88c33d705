"""Mis-compared pairs kept in memory: the `PairSink` of a run that needs no database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sortnet.errors import DataError
from sortnet.types import I32, I64, SPLITS, Pairs, Split

if TYPE_CHECKING:
    import pandas as pd

_LOW = np.int64(2**32 - 1)


def pair_keys(pairs: Pairs) -> I64:
    """Pairs as sorted int64 keys, each once; their order is that of (winner, loser).

    A key is `winner * 2^32 + loser`: document numbers fit 31 bits, as they do in `Sorting`.

    Raises:
        DataError: on a document number below 0 or from 2^31, or a document paired with itself.

    >>> pairs_of_keys(pair_keys(Pairs(np.array([7, 2, 7]), np.array([1, 9, 1])))).winner
    array([2, 7])

    Cost: one sort.
    """
    winner = np.asarray(pairs.winner, np.int64)
    loser = np.asarray(pairs.loser, np.int64)
    if winner.shape != loser.shape or winner.ndim != 1:
        raise DataError(f"pairs: {winner.shape} winners but {loser.shape} losers")
    bad = (winner == loser) | ((winner | loser) >> 31 != 0)
    if bad.any():
        at = int(np.argmax(bad))
        raise DataError(f"pair {at}: document {winner[at]} over {loser[at]} is no pair")
    keys: I64 = np.sort((winner << 32) | loser)
    # np.unique would hash first, which takes ten times as long as this sort.
    once: I64 = keys[np.diff(keys, prepend=-1) != 0]
    return once


def pairs_of_keys(keys: I64) -> Pairs:
    """The pairs that `pair_keys` made these keys of."""
    return Pairs(keys >> 32, keys & _LOW)


def union(some: Pairs, others: Pairs) -> Pairs:
    """The pairs of both, each once, ordered by (winner, loser)."""
    winner = np.concatenate([some.winner, others.winner])
    return pairs_of_keys(pair_keys(Pairs(winner, np.concatenate([some.loser, others.loser]))))


class MemoryPairs:
    """A `PairSink` that keeps everything in sorted arrays: 20 bytes a pair.

    >>> sink = MemoryPairs()
    >>> sink.add("train", 0, Pairs(np.array([4, 0]), np.array([5, 2])))
    2
    >>> sink.add("train", 1, Pairs(np.array([4, 4]), np.array([5, 6])))
    1
    >>> sink.pairs("train").loser, sink.pairs("train", before=1).loser
    (array([2, 5, 6]), array([2, 5]))
    """

    def __init__(self) -> None:
        self._tables = {split: _Table() for split in SPLITS}

    def add(self, split: Split, iteration: int, pairs: Pairs) -> int:
        """Add an iteration's pairs; how many pairs were first seen in this iteration.

        Cost: a sort of the pairs given and a copy of those kept.
        """
        return self._tables[split].add(iteration, pair_keys(pairs))

    def pairs(self, split: Split, before: int | None = None) -> Pairs:
        """All pairs first seen before that iteration, ordered by (winner, loser)."""
        table = self._tables[split]
        return pairs_of_keys(table.key if before is None else table.key[table.first < before])

    def pairs_frame(self, split: Split | None = None) -> pd.DataFrame:
        """One row a pair: split, winner, loser, first and last iteration, times mis-compared."""
        import pandas as pd

        parts = [split] if split else list(SPLITS)
        frames = [self._tables[part].frame(part) for part in parts]
        frame = pd.concat(frames, ignore_index=True)
        return frame.astype({"split": pd.CategoricalDtype(list(SPLITS))})


def _no_keys() -> I64:
    return np.empty(0, np.int64)


def _no_numbers() -> I32:
    return np.empty(0, np.int32)


@dataclass
class _Table:
    """One split's pairs, ordered by key; the same rows as the database's table."""

    key: I64 = field(default_factory=_no_keys)
    first: I32 = field(default_factory=_no_numbers)
    last: I32 = field(default_factory=_no_numbers)
    times: I32 = field(default_factory=_no_numbers)

    def add(self, iteration: int, keys: I64) -> int:
        at = np.searchsorted(self.key, keys)
        known = np.zeros(len(keys), np.bool_)
        inside = at < len(self.key)
        known[inside] = self.key[at[inside]] == keys[inside]
        missed_again = at[known]
        missed_again = missed_again[self.last[missed_again] < iteration]
        self.times[missed_again] += 1
        self.last[missed_again] = iteration
        self._insert(at[~known], keys[~known], iteration)
        return int(np.count_nonzero(self.first == iteration))

    def _insert(self, at: I64, keys: I64, iteration: int) -> None:
        self.key = np.insert(self.key, at, keys)
        self.first = np.insert(self.first, at, iteration)
        self.last = np.insert(self.last, at, iteration)
        self.times = np.insert(self.times, at, 1)

    def frame(self, split: Split) -> pd.DataFrame:
        import pandas as pd

        pairs = pairs_of_keys(self.key)
        return pd.DataFrame(
            {
                "split": split,
                "winner": pairs.winner,
                "loser": pairs.loser,
                "first_iteration": self.first,
                "last_iteration": self.last,
                "times": self.times,
            }
        )
