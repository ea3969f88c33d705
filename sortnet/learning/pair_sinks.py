"""Pair sinks: a sink in memory, and a sink in which several processes keep the pairs of shards."""

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
from sortnet.core.shard import gather_rows
from sortnet.learning.judges import judged_by_data


@dataclass(frozen=True, eq=False)
class CountedPairs:
    """Pairs, with the iterations in which each pair was added or compared wrongly.

    Attributes:
        key: (m,) ascending keys of the pairs, see `ComparedPairs.key`.
        first_iteration: (m,) the iteration that added the pair to the training or validation pairs,
            or NEVER_ADDED.
        first_wrong, last_wrong: (m,) the first and the last iteration in which the pair was wrong,
            or NEVER_WRONG.
        times: (m,) the number of iterations in which the pair was wrong.
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
        """Return a copy with a row for each key; new rows say never added and never wrong.

        Args:
            keys: ascending keys of pairs; some may have a row.
        """
        new_keys = keys[~is_in(keys, self.key)]
        rows = np.searchsorted(self.key, new_keys)
        return CountedPairs(
            np.insert(self.key, rows, new_keys),
            np.insert(self.first_iteration, rows, NEVER_ADDED),
            np.insert(self.first_wrong, rows, NEVER_WRONG),
            np.insert(self.last_wrong, rows, NEVER_WRONG),
            np.insert(self.times, rows, 0),
        )

    def add(self, keys: I64, iteration: int) -> None:
        """Mark pairs as added in an iteration, unless an earlier iteration has added them.

        Args:
            keys: keys of pairs, each of which has a row already.
            iteration: the number of the iteration.
        """
        rows = np.searchsorted(self.key, keys)
        self.first_iteration[rows] = np.minimum(self.first_iteration[rows], iteration)

    def count(self, keys: I64, iteration: int) -> None:
        """Count pairs as wrong in an iteration; a pair counts only once in an iteration.

        Args:
            keys: keys of pairs, each of which has a row already.
            iteration: the number of the iteration.
        """
        rows = np.searchsorted(self.key, keys)
        rows = rows[self.last_wrong[rows] < iteration]  # not counted yet in this iteration
        first_time = rows[self.times[rows] == 0]
        self.first_wrong[first_time] = iteration
        self.last_wrong[rows] = iteration
        self.times[rows] += 1


class MemoryPairs:
    """A `PairSink` in memory: 24 bytes a pair.

    >>> sink = MemoryPairs()
    >>> sink.add("train", 0, ComparedPairs.of([0, 4], [2, 5], margin=[-1, 1], answer=1))
    >>> sink.add("train", 1, ComparedPairs.of([4, 4], [5, 6], margin=-1, answer=1))
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
    ) -> None:
        """Add `pairs`, and count the wrong pairs among them and among `wrong`.

        Cost: a copy of all pairs.
        """
        counted = self._counted[split].with_rows_for(pairs.key)
        counted.count(pairs.key[pairs.wrong], iteration)
        if wrong is not None:  # these pairs get a row, but are not added
            wrong_keys = wrong.key[wrong.wrong]
            counted = counted.with_rows_for(wrong_keys)
            counted.count(wrong_keys, iteration)
        self._counted[split] = counted
        counted.add(pairs.key, iteration)

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Return the pairs that were added before the iteration `before`, or all added pairs."""
        counted = self._counted[split]
        # NEVER_ADDED is larger than the number of any iteration.
        end_iteration = NEVER_ADDED if before is None else before
        return ComparedPairs.of_keys(counted.key[counted.first_iteration < end_iteration])

    def counted(self, split: Split) -> CountedPairs:
        """Return every pair that was added or wrong, with the iterations when that happened."""
        return self._counted[split]


def own_pairs(sink: PairSink, train: Queries, vali: Queries) -> PairSink:
    """Wrap the sink of a process that learns from a shard, a share of the queries.

    The inner sink keeps pairs with the document numbers of all queries. The pairs that are read
    belong to the shard, and have the answers of the data.
    """
    return _OwnPairs(sink, {"train": train, "vali": vali})


def own_keys(queries: Queries, key: I64) -> I64:
    """Select the keys of pairs in this process's shard, with documents numbered in the shard.

    Args:
        queries: the shard; without one, all keys are returned as they are.
        key: (m,) ascending keys of pairs, with the document numbers of all queries.
    """
    if queries.shard is None:
        return key
    first_doc = queries.shard.first_doc
    end_doc = first_doc + queries.n_docs
    # The better document of a pair is the upper half of the key, so the pairs of the shard's
    # documents follow each other.
    begin, end = np.searchsorted(key, [first_doc << 32, end_doc << 32])
    shard_key: I64 = moved(key[begin:end], -first_doc)
    return shard_key


def gather_keys(queries: Queries, own_key: I64) -> I64:
    """Join the keys of the pairs of all processes; a single process gets its own keys back.

    Args:
        queries: this process's queries.
        own_key: (m,) keys of pairs of these queries.

    Returns:
        (n,) keys, in which documents are numbered among the queries of all processes.
    """
    if queries.shard is None:
        return own_key
    return gather_rows(queries, moved(own_key, queries.shard.first_doc))


@dataclass(frozen=True)
class _OwnPairs:
    """Pair sink of a process that learns from a shard; converts the shard's document numbers.

    Attributes:
        sink: the inner sink, whose pairs have the document numbers of all queries.
        parts: the training and the validation queries of this process.
    """

    sink: PairSink
    parts: dict[Split, Queries]

    def _first_doc(self, split: Split) -> int:
        """Return the number of the shard's first document among the documents of all queries."""
        shard = self.parts[split].shard
        return 0 if shard is None else shard.first_doc

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        """Add pairs of this shard to the inner sink."""
        first_doc = self._first_doc(split)
        if first_doc:
            pairs = pairs.moved(first_doc)
            wrong = None if wrong is None else wrong.moved(first_doc)
        self.sink.add(split, iteration, pairs, wrong)

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Return the shard's training or validation pairs, with documents numbered in the shard."""
        part = self.parts[split]
        pairs = self.sink.pairs(split, before)
        if part.shard is not None:
            pairs = ComparedPairs.of_keys(own_keys(part, pairs.key))
        return pairs if part.judged is None else judged_by_data(part, pairs)
