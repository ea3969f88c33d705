"""Where pairs to learn from are kept: in memory, and, of a shard, as the whole numbers them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from sortnet.types import I32, I64, SPLITS, Pairs, PairSink, Queries, Split
from sortnet.types.packed_pairs import moved
from sortnet.types.shard import summed

if TYPE_CHECKING:
    import pandas as pd


class MemoryPairs:
    """A `PairSink` that keeps everything in sorted arrays: 20 bytes per pair.

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
        self._adding = Lock()

    def add(self, split: Split, iteration: int, pairs: Pairs, wrong: Pairs | None = None) -> int:
        """Add an iteration's pairs; returns how many of them were first seen in this iteration.

        Threads may add at once.

        Cost: a copy of the pairs kept.
        """
        missed = pairs.among(wrong).astype(np.int32)
        with self._adding:
            return self._tables[split].add(iteration, pairs.key, missed)

    def pairs(
        self, split: Split, before: int | None = None, docs: tuple[int, int] | None = None
    ) -> Pairs:
        """All pairs first seen before that iteration, ordered by (winner, loser).

        With `docs` only those whose winner is docs[0] to docs[1] - 1.
        """
        with self._adding:
            table = replace(self._tables[split])
        kept = slice(None)
        if docs is not None:
            kept = slice(*np.searchsorted(table.key, np.array(docs, np.int64) << 32).tolist())
        key = table.key[kept]
        return Pairs.of_keys(key if before is None else key[table.first[kept] < before])

    def pairs_frame(self, split: Split | None = None) -> pd.DataFrame:
        """One row per pair: split, winner, loser, first and last iteration, times mis-compared."""
        import pandas as pd

        parts = [split] if split else list(SPLITS)
        frames = [self._tables[part].frame(part) for part in parts]
        frame = pd.concat(frames, ignore_index=True)
        return frame.astype({"split": pd.CategoricalDtype(list(SPLITS))})


def _no_numbers() -> I32:
    return np.empty(0, np.int32)


@dataclass
class _Table:
    """One split's pairs, ordered by key; the same rows as the table in the database."""

    key: I64 = field(default_factory=lambda: Pairs.empty().key)
    first: I32 = field(default_factory=_no_numbers)
    last: I32 = field(default_factory=_no_numbers)
    times: I32 = field(default_factory=_no_numbers)

    def add(self, iteration: int, keys: I64, missed: I32) -> int:
        at = np.searchsorted(self.key, keys)
        known = np.zeros(len(keys), np.bool_)
        inside = at < len(self.key)
        known[inside] = self.key[at[inside]] == keys[inside]
        again, more = at[known], missed[known]
        later = self.last[again] < iteration
        self.times[again[later]] += more[later]
        self.last[again[later]] = iteration
        now = np.count_nonzero(self.first[again] == iteration)
        self._insert(at[~known], keys[~known], missed[~known], iteration)
        return int(now + np.count_nonzero(~known))

    def _insert(self, at: I64, keys: I64, missed: I32, iteration: int) -> None:
        self.key = np.insert(self.key, at, keys)
        self.first = np.insert(self.first, at, iteration)
        self.last = np.insert(self.last, at, iteration)
        self.times = np.insert(self.times, at, missed)

    def frame(self, split: Split) -> pd.DataFrame:
        import pandas as pd

        pairs = Pairs.of_keys(self.key)
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


def own_pairs(sink: PairSink, train: Queries, vali: Queries) -> PairSink:
    """The sink of this process, which counts what all add; the sink itself where there is one."""
    if train.shard is None and vali.shard is None:
        return sink
    return _OwnPairs(sink, {"train": train, "vali": vali})


def own_keys(queries: Queries, key: I64) -> I64:
    """The keys of this shard's pairs among those of the whole, ascending."""
    if queries.shard is None:
        return key
    first = queries.shard.first_doc
    begin, end = np.searchsorted(key, [first << 32, (first + queries.n_docs) << 32])
    ours: I64 = moved(key[begin:end], -first)
    return ours


def keys_of_all(queries: Queries, key: I64) -> I64:
    """The keys of this shard's pairs as the whole has them."""
    return key if queries.shard is None else moved(key, queries.shard.first_doc)


@dataclass(frozen=True)
class _OwnPairs:
    sink: PairSink
    parts: dict[Split, Queries]

    def add(self, split: Split, iteration: int, pairs: Pairs, wrong: Pairs | None = None) -> int:
        part = self.parts[split]
        of_all, wrong_of_all = (
            None if each is None else Pairs.of_keys(keys_of_all(part, each.key))
            for each in (pairs, wrong)
        )
        assert of_all is not None
        return int(summed(part, self.sink.add(split, iteration, of_all, wrong_of_all)))

    def pairs(
        self, split: Split, before: int | None = None, docs: tuple[int, int] | None = None
    ) -> Pairs:
        part = self.parts[split]
        first = 0 if part.shard is None else part.shard.first_doc
        low, high = (0, part.n_docs) if docs is None else docs
        found = self.sink.pairs(split, before, (first + low, first + high))
        return Pairs.of_keys(own_keys(part, found.key))
