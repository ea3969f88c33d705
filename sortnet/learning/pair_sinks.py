"""Pair sinks: a sink in memory, and a sink in which several processes keep the pairs of shards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import (
    I32,
    I64,
    SPLITS,
    ComparedPairs,
    PairSink,
    Queries,
    Split,
)
from sortnet.core.pairs import is_in, moved
from sortnet.core.shard import gather_rows
from sortnet.learning.judges import judged_by_data


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
