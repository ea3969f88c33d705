"""Mini-batches of pairs, whole queries at a time: a document is embedded once for all its pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sortnet.comparators.base import to_device
from sortnet.core import F32, F64, I32, I64, ComparedPairs, Queries
from sortnet.core.shard import before, gathered, summed

_A_DOCUMENT = 6  # pairs for each document of a query with many
_LONG = 500  # but of no more documents than this
AT_ONCE = 1 << 16  # pairs worked on at a time, which bounds memory


@dataclass(frozen=True)
class MiniBatch:
    """Some documents' features (k, d); pairs as indexes into them, (m,); the pairs' weights."""

    x: Tensor
    winner: Tensor
    loser: Tensor
    weight: Tensor


@dataclass(frozen=True)
class _Parts:
    """The part of a mini-batch that each of some queries has, (n,) each."""

    queries: I64  # among the own ones that have pairs
    low: I64  # pairs of the query in mini-batches before
    taken: I64  # in this one
    sizes: I64  # in the epoch


@dataclass(frozen=True)
class QueryPairs:
    """Pairs query by query, and the documents that occur in them.

    Processes that share a training plan the same mini-batches, and each has the pairs of its own
    queries: a gradient differs from that of one process by the rounding of a sum.
    """

    queries: Queries
    docs: I64  # (n,) documents that occur in pairs, ascending
    doc_offsets: I64  # (n_own + 1,) of a query's part of `docs`, of own queries that have pairs
    winner: I32  # (m,) indexes into `docs`, query by query
    loser: I32
    weight: F32 | None  # (m,) of the pairs, 1 in the mean; None: 1
    offsets: I64  # (n_own + 1,) of a query's part of the pairs
    n_pairs: I64  # (n_queries,) of each query that has some, those of other processes too
    n_docs: I64  # (n_queries,) that occur in them
    first: int  # the number of the first own query among these
    kept: Tensor | None = None  # (n, d) the features of `docs`, on a GPU

    def __len__(self) -> int:
        return int(self.n_pairs.sum())

    @classmethod
    def of(
        cls,
        queries: Queries,
        pairs: ComparedPairs,
        pair_weight: str = "none",
        gain: F32 | None = None,
    ) -> QueryPairs:
        """Pairs of some queries, in order; `gain` is (m,) what the weights are multiplied by."""
        winner, loser, weight = _weighted(queries, pairs, pair_weight, gain)
        occurs = np.zeros(queries.n_docs, np.bool_)
        occurs[winner] = occurs[loser] = True
        number = np.append(np.int32(0), np.cumsum(occurs, dtype=np.int32))  # among those that occur
        # Ordered by the winner, and documents are numbered query by query.
        sizes = np.diff(np.searchsorted(winner, queries.offsets))
        some = np.flatnonzero(sizes)
        doc_offsets = np.append(number[queries.offsets[some]], number[-1]).astype(np.int64)
        own = np.stack((sizes[some], np.diff(doc_offsets)), axis=1)
        n_pairs, n_docs = gathered(queries, own).T
        return cls(
            queries,
            np.flatnonzero(occurs),
            doc_offsets,
            number[winner],
            number[loser],
            weight,
            np.append(0, np.cumsum(sizes[some])),
            n_pairs,
            n_docs,
            before(queries, len(some)),
        )

    def kept_on(self, device: torch.device) -> QueryPairs:
        """With the documents' features on a GPU, if they take at most a quarter of its free memory.

        Else those of a mini-batch are sent with it.
        """
        size = 4 * len(self.docs) * self.queries.n_features
        if device.type != "cuda" or size > torch.cuda.mem_get_info(device)[0] // 4:
            return self
        return replace(self, kept=self._features(device))

    def _features(self, device: torch.device) -> Tensor:
        starts = range(0, max(len(self.docs), 1), AT_ONCE)
        rows = (self.docs[start : start + AT_ONCE] for start in starts)
        return torch.cat([to_device(self.queries.features[some], device) for some in rows])

    def in_epoch(self, most: int | None) -> I64:
        """(n_queries,) pairs of each query in an epoch."""
        return pairs_in_epoch(self.n_pairs, self.n_docs, most)

    def endless_batches(
        self, size: int, most: int | None, rng: np.random.Generator, device: torch.device
    ) -> Iterator[MiniBatch]:
        """Mini-batches of one pass over the pairs after the other."""
        while len(self):
            yield from self.batches(size, most, rng, device)

    def batches(
        self, size: int, most: int | None, rng: np.random.Generator | None, device: torch.device
    ) -> Iterator[MiniBatch]:
        """Mini-batches of `size` pairs, of each the own ones; given a generator, of queries in
        random order, and of those that give only some of their pairs other ones.
        """
        order, seed = np.arange(len(self.n_pairs)), 0
        if rng is not None:
            rng.shuffle(order)
            seed = int(rng.integers(1 << 62))

        @lru_cache(2)  # of a query that is divided among mini-batches
        def shuffled(query: int, n: int) -> I64:
            places: I64 = np.random.default_rng([seed, query]).permutation(n)
            return places

        sizes = self.in_epoch(most)[order]
        ends = np.cumsum(sizes)
        for begin in range(0, int(sizes.sum()), size):
            end = min(begin + size, int(ends[-1]))
            first, last = np.searchsorted(ends, (begin, end - 1), side="right")
            here = slice(first, last + 1)
            starts = ends[here] - sizes[here]
            low = np.maximum(begin - starts, 0)
            taken = np.minimum(end - starts, sizes[here]) - low
            queries = order[here] - self.first
            own = (queries >= 0) & (queries < len(self.offsets) - 1)
            parts = _Parts(queries[own], low[own], taken[own], sizes[here][own])
            pairs = _ranges(self.offsets[parts.queries] + parts.low, parts.taken)
            if rng is not None:
                bits = rng.integers(1 << 32, size=end - begin, dtype=np.uint32)
                self._draw(pairs, parts, bits[np.repeat(own, taken)], shuffled)
            yield self._batch(parts, pairs, end - begin, device)

    def _draw(
        self, pairs: I64, parts: _Parts, bits: NDArray[np.uint32], shuffled: Callable[..., I64]
    ) -> None:
        """Draw other pairs, in place, for each query of which not all are taken, with replacement.

        A query that is divided among mini-batches has its pairs in random order.
        """
        queries, taken = parts.queries, parts.taken
        firsts, all_of = self.offsets[queries], np.diff(self.offsets)[queries]
        some = parts.sizes < all_of
        drawn, n = np.repeat(some, taken), taken[some]
        at = bits[drawn].astype(np.uint64) * np.repeat(all_of[some], n).astype(np.uint64)
        pairs[drawn] = np.repeat(firsts[some], n) + (at >> np.uint64(32)).astype(np.int64)
        ends = np.cumsum(taken)
        for k in np.flatnonzero(~some & (taken < all_of)).tolist():
            order = shuffled(int(queries[k]) + self.first, int(all_of[k]))
            here = order[parts.low[k] : parts.low[k] + taken[k]]
            pairs[ends[k] - taken[k] : ends[k]] = firsts[k] + here

    def _batch(self, parts: _Parts, pairs: I64, of_all: int, device: torch.device) -> MiniBatch:
        """The documents of some queries, and their pairs: `of_all` with those of others."""
        starts = self.doc_offsets[parts.queries]
        n_docs = self.doc_offsets[parts.queries + 1] - starts
        winner, loser = (each[pairs].astype(np.int64) for each in (self.winner, self.loser))
        if n_docs.sum() > 2 * (len(pairs) + _LONG):  # of a long query few occur in a small batch
            some, places = np.unique(np.append(winner, loser), return_inverse=True)
            winner, loser = np.split(places, 2)
        else:
            some = _ranges(starts, n_docs)
            shift = np.repeat(np.cumsum(n_docs) - n_docs - starts, parts.taken)
            winner, loser = winner + shift, loser + shift
        weight = np.full(len(pairs), 1 / of_all, np.float32)
        if self.weight is not None:  # a batch of little weight makes a small step
            weight *= self.weight[pairs]
        if self.kept is None:
            x = to_device(self.queries.features[self.docs[some]], device)
        else:
            x = self.kept[to_device(some, device)]
        return MiniBatch(x, *(to_device(each, device) for each in (winner, loser, weight)))


def pairs_in_epoch(n_pairs: I64, n_docs: I64, most: int | None) -> I64:
    """(n_queries,) pairs that an epoch draws of queries with these numbers of pairs and documents.

    At most `most` of a query (None: all), or 6 for each of its documents, of 500 at most, where
    that is more.
    """
    if most is None:
        return n_pairs
    documents = np.minimum(n_docs, _LONG)
    drawn: I64 = np.minimum(n_pairs, np.maximum(_A_DOCUMENT * documents, most))
    return drawn


def _weighted(
    queries: Queries, pairs: ComparedPairs, pair_weight: str, gain: F32 | None
) -> tuple[I32, I32, F32 | None]:
    """Winners, losers and weights of the pairs, 1 in the mean unless all are 0; None: 1. Ordered by
    the winner.

    The weight of a pair is that of its judgement times those of its documents, times the grade
    of the better one if `pair_weight` says so, and times its `gain`.
    """
    winner, loser = pairs.i, pairs.j
    weight: F32 | F64 = np.ones(len(pairs), np.float32) if gain is None else gain
    if queries.weights is not None:  # a product may leave float32's range
        weight = weight * queries.weights[winner].astype(np.float64) * queries.weights[loser]
    if pair_weight == "grade":
        weight = weight * queries.grades[winner]
    if queries.judged is not None:
        weight = weight * queries.judged.answers_for(winner, loser)[1]
    unsure = pairs.answer < 1
    if unsure.any():
        p = np.nan_to_num(pairs.answer, nan=1.0)
        weight = np.append(weight * p, (weight * (1 - p))[unsure])
        winner, loser = np.append(winner, loser[unsure]), np.append(loser, winner[unsure])
        order = np.argsort(winner, kind="stable")
        winner, loser, weight = winner[order], loser[order], weight[order]
    extremes = [weight.min(), weight.max()] if len(weight) else []
    ends = gathered(queries, np.array(extremes, np.float64))
    if not len(ends) or (ends[0] > 0 and (ends == ends[0]).all()):
        return winner, loser, None
    total, n = summed(queries, np.array([weight.sum(dtype=np.float64), len(weight)]))
    return winner, loser, (weight / (total / n or 1.0)).astype(np.float32)


def _ranges(starts: I64, sizes: I64) -> I64:
    """The indexes start .. start + size - 1 of each range, one range after the other."""
    before = np.cumsum(sizes) - sizes
    indexes: I64 = np.arange(sizes.sum()) + np.repeat(starts - before, sizes)
    return indexes
