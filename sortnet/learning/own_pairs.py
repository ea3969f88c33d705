"""Pairs of a shard: numbered as the whole numbers its documents where they are kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.types import I64, Pairs, PairSink, Queries, Split
from sortnet.types.packed_pairs import moved
from sortnet.types.shard import summed


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
