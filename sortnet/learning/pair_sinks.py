"""Where pairs to learn from are kept: in memory, and, of a shard, as the whole numbers them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.types import I32, I64, SPLITS, Pairs, PairSink, Queries, Split
from sortnet.types.packed_pairs import among, moved
from sortnet.types.shard import summed


class MemoryPairs:
    """A `PairSink` that keeps each pair and its first iteration: 12 bytes.

    >>> sink = MemoryPairs()
    >>> sink.add("train", 0, Pairs(np.array([4, 0]), np.array([5, 2])))
    2
    >>> sink.add("train", 1, Pairs(np.array([4, 4]), np.array([5, 6])))
    1
    >>> sink.pairs("train").loser, sink.pairs("train", before=1).loser
    (array([2, 5, 6]), array([2, 5]))
    """

    def __init__(self) -> None:
        nothing = Pairs.empty().key, np.empty(0, np.int32)
        self._kept: dict[Split, tuple[I64, I32]] = dict.fromkeys(SPLITS, nothing)

    def add(self, split: Split, iteration: int, pairs: Pairs, wrong: Pairs | None = None) -> int:
        """Add an iteration's pairs; returns how many of them were first seen in this iteration.

        Cost: a copy of the pairs kept.
        """
        key, first = self._kept[split]
        at, new = np.searchsorted(key, pairs.key), ~among(pairs.key, key)
        again = np.count_nonzero(first[at[~new]] == iteration)
        self._kept[split] = (
            np.insert(key, at[new], pairs.key[new]),
            np.insert(first, at[new], iteration),
        )
        return int(again + np.count_nonzero(new))

    def pairs(
        self, split: Split, before: int | None = None, docs: tuple[int, int] | None = None
    ) -> Pairs:
        """All pairs first seen before that iteration, see `PairSink`."""
        key, first = self._kept[split]
        if docs is not None:
            some = slice(*np.searchsorted(key, np.array(docs, np.int64) << 32).tolist())
            key, first = key[some], first[some]
        return Pairs.of_keys(key if before is None else key[first < before])


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
