"""Pair sinks: a sink in memory, and a sink that a shard shares with all processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import (
    I32,
    I64,
    NEVER_ADDED,
    NEVER_WRONG,
    SPLITS,
    ComparedPairs,
    PairSink,
    Queries,
    Split,
)
from sortnet.core.pairs import is_in, moved
from sortnet.core.shard import summed
from sortnet.learning.judges import judged_by_data


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """Ascending pairs, with the iterations in which each pair was added or wrong; (m,) arrays.

    Attributes:
        key: the pairs, as `ComparedPairs.key`.
        first_iteration: the iteration that added the pair to TP or VP; NEVER_ADDED: none.
        first_wrong, last_wrong: the first and the last iteration in which the pair was wrong;
            NEVER_WRONG: none.
        times: the number of iterations in which the pair was wrong.
    """

    key: I64
    first_iteration: I32
    first_wrong: I32
    last_wrong: I32
    times: I32

    @classmethod
    def empty(cls) -> CountedPairs:
        none = np.empty(0, np.int32)
        return cls(np.empty(0, np.int64), none, none, none, none)

    def with_rows_for(self, keys: I64) -> CountedPairs:
        """Add missing rows for ascending keys; the new pairs were never added and never wrong."""
        new_keys = keys[~is_in(keys, self.key)]
        places = np.searchsorted(self.key, new_keys)
        return CountedPairs(
            np.insert(self.key, places, new_keys),
            np.insert(self.first_iteration, places, NEVER_ADDED),
            np.insert(self.first_wrong, places, NEVER_WRONG),
            np.insert(self.last_wrong, places, NEVER_WRONG),
            np.insert(self.times, places, 0),
        )

    def add(self, keys: I64, iteration: int) -> int:
        """Mark pairs, which have rows, as added; return how many this iteration added first."""
        rows = np.searchsorted(self.key, keys)
        self.first_iteration[rows] = np.minimum(self.first_iteration[rows], iteration)
        return int(np.count_nonzero(self.first_iteration[rows] == iteration))

    def count(self, keys: I64, iteration: int) -> None:
        """Count pairs, which have rows, as wrong; a pair counts once in an iteration."""
        rows = np.searchsorted(self.key, keys)
        rows = rows[self.last_wrong[rows] < iteration]
        first_time = rows[self.times[rows] == 0]
        self.first_wrong[first_time] = iteration
        self.last_wrong[rows] = iteration
        self.times[rows] += 1


class MemoryPairs:
    """A `PairSink` in memory: 24 bytes a pair.

    >>> sink = MemoryPairs()
    >>> sink.add("train", 0, ComparedPairs.of([0, 4], [2, 5], margin=[-1, 1], answer=1))
    2
    >>> sink.add("train", 1, ComparedPairs.of([4, 4], [5, 6], margin=-1, answer=1))
    1
    >>> sink.pairs("train").j.tolist(), sink.pairs("train", before=1).j.tolist()
    ([2, 5, 6], [2, 5])
    >>> sink.counted("train").times
    array([1, 1, 1], dtype=int32)
    """

    def __init__(self) -> None:
        self._counted: dict[Split, CountedPairs] = dict.fromkeys(SPLITS, CountedPairs.empty())

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> int:
        """Add an iteration's pairs and count the wrong ones, see `PairSink`.

        Cost: a copy of all pairs.
        """
        counted = self._counted[split].with_rows_for(pairs.key)
        counted.count(pairs.key[pairs.wrong], iteration)
        if wrong is not None:
            key = wrong.key[wrong.wrong]
            counted = counted.with_rows_for(key)
            counted.count(key, iteration)
        self._counted[split] = counted
        return counted.add(pairs.key, iteration)

    def pairs(
        self, split: Split, before: int | None = None, docs: tuple[int, int] | None = None
    ) -> ComparedPairs:
        """The pairs that were added before that iteration, see `PairSink`."""
        counted = self._counted[split]
        rows = slice(None)
        if docs is not None:
            rows = slice(*np.searchsorted(counted.key, np.array(docs, np.int64) << 32).tolist())
        end = NEVER_ADDED if before is None else before
        was_added = counted.first_iteration[rows] < end
        return ComparedPairs.of_keys(counted.key[rows][was_added])

    def counted(self, split: Split) -> CountedPairs:
        """Every pair that was added or wrong, with its iterations."""
        return self._counted[split]


def own_pairs(sink: PairSink, train: Queries, vali: Queries) -> PairSink:
    """Wrap the sink of a process that learns from a shard.

    Pairs are stored with the document numbers of the whole, and new pairs are counted over all
    processes. The pairs that are read belong to the shard, and have the answers of the data.
    """
    return _OwnPairs(sink, {"train": train, "vali": vali})


def own_keys(queries: Queries, key: I64) -> I64:
    """Select the pairs of this shard from ascending pairs of the whole, and number them as here."""
    if queries.shard is None:
        return key
    first = queries.shard.first_doc
    begin, end = np.searchsorted(key, [first << 32, (first + queries.n_docs) << 32])
    shard_key: I64 = moved(key[begin:end], -first)
    return shard_key


def keys_of_all(queries: Queries, key: I64) -> I64:
    """Turn keys of this shard's pairs into keys with the document numbers of the whole."""
    return key if queries.shard is None else moved(key, queries.shard.first_doc)


@dataclass(frozen=True)
class _OwnPairs:
    """The sink that `own_pairs` returns."""

    sink: PairSink
    parts: dict[Split, Queries]

    def _first_doc(self, split: Split) -> int:
        """The number in the whole of the first document of the shard."""
        shard = self.parts[split].shard
        return 0 if shard is None else shard.first_doc

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> int:
        first_doc = self._first_doc(split)
        if first_doc:
            pairs = pairs.moved(first_doc)
            wrong = None if wrong is None else wrong.moved(first_doc)
        n_new = self.sink.add(split, iteration, pairs, wrong)
        return int(summed(self.parts[split], n_new))

    def pairs(
        self, split: Split, before: int | None = None, docs: tuple[int, int] | None = None
    ) -> ComparedPairs:
        part = self.parts[split]
        first_doc = self._first_doc(split)
        low, high = (0, part.n_docs) if docs is None else docs
        pairs = self.sink.pairs(split, before, (first_doc + low, first_doc + high))
        if first_doc:
            pairs = pairs.moved(-first_doc)
        return pairs if part.judged is None else judged_by_data(part, pairs)
