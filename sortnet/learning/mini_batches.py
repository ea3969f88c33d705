"""Mini-batches of pairs by whole queries, so that each document is embedded only once."""

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

_PAIRS_A_DOCUMENT = 6  # least number of pairs of a query in an epoch, for each document
_LONG = 500  # a query counts as having at most this many documents
AT_ONCE = 1 << 16  # pairs processed at a time, which bounds memory


@dataclass(frozen=True)
class MiniBatch:
    """Mini-batch of pairs, with the features of the documents in the pairs.

    Attributes:
        x: (k, d) features of documents.
        winner, loser: (m,) indexes into the documents.
        weight: (m,) of the pairs.
    """

    x: Tensor
    winner: Tensor
    loser: Tensor
    weight: Tensor


@dataclass(frozen=True)
class _Shares:
    """Pairs that each of n queries contributes to a mini-batch, as a run of the query's pairs.

    Attributes:
        queries: numbers of the queries, among this process's queries that have pairs.
        first: the number of the query's pairs in mini-batches before, where the run begins.
        n: the number of the query's pairs in this mini-batch.
        n_in_epoch: the number of the query's pairs in the epoch.
    """

    queries: I64
    first: I64
    n: I64
    n_in_epoch: I64


@dataclass(frozen=True)
class QueryPairs:
    """Pairs grouped by query, and the documents that occur in the pairs.

    Processes that share a training plan the same mini-batches, and each has the pairs of its own
    queries: a gradient differs from that of one process by the rounding of a sum.
    """

    queries: Queries
    # (n,) numbers of the documents that occur in pairs, ascending
    docs: I64
    # (n_own + 1,) where the documents of each of this process's queries with pairs begin in `docs`
    doc_offsets: I64
    # (m,) indexes of the better and of the worse documents into `docs`, query by query
    winner: I32
    loser: I32
    # (m,) weights of the pairs, whose mean is 1; None if all weights are 1
    weight: F32 | None
    # (n_own + 1,) where the pairs of each of these queries begin
    offsets: I64
    # (n_queries,) number of pairs of each query that has pairs, over the queries of all processes
    n_pairs: I64
    # (n_queries,) number of documents that occur in these pairs
    n_docs: I64
    # place of this process's first query among the queries of all processes
    first: int
    # (n, d) features of `docs`, if they are kept on a GPU
    kept: Tensor | None = None

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
        """Group pairs, which must be in order, by query; `gain` (m,) multiplies their weights."""
        winner, loser, weight = _weighted(queries, pairs, pair_weight, gain)
        occurs = np.zeros(queries.n_docs, np.bool_)
        occurs[winner] = occurs[loser] = True
        # (n_docs + 1,) the index into `docs` that each document has, if it occurs in a pair
        index = np.append(np.int32(0), np.cumsum(occurs, dtype=np.int32))
        # Winners ascend and documents are numbered query by query: each query's pairs are a run.
        sizes = np.diff(np.searchsorted(winner, queries.offsets))
        with_pairs = np.flatnonzero(sizes)
        doc_offsets = np.append(index[queries.offsets[with_pairs]], index[-1]).astype(np.int64)
        own_counts = np.stack((sizes[with_pairs], np.diff(doc_offsets)), axis=1)
        n_pairs, n_docs = gathered(queries, own_counts).T
        return cls(
            queries,
            docs=np.flatnonzero(occurs),
            doc_offsets=doc_offsets,
            winner=index[winner],
            loser=index[loser],
            weight=weight,
            offsets=np.append(0, np.cumsum(sizes[with_pairs])),
            n_pairs=n_pairs,
            n_docs=n_docs,
            first=before(queries, len(with_pairs)),
        )

    def kept_on(self, device: torch.device) -> QueryPairs:
        """Copy the documents' features to a GPU, if they fit into a quarter of its free memory.

        Otherwise each mini-batch sends the features of its documents.
        """
        size = 4 * len(self.docs) * self.queries.n_features
        if device.type != "cuda" or size > torch.cuda.mem_get_info(device)[0] // 4:
            return self
        return replace(self, kept=self._features(device))

    def _features(self, device: torch.device) -> Tensor:
        """Features (n, d) of all documents that occur in pairs, copied to a device."""
        starts = range(0, max(len(self.docs), 1), AT_ONCE)
        runs = (self.docs[start : start + AT_ONCE] for start in starts)
        return torch.cat([to_device(self.queries.features[docs], device) for docs in runs])

    def in_epoch(self, most: int | None) -> I64:
        """Number (n_queries,) of pairs of each query in an epoch, see `pairs_in_epoch`."""
        return pairs_in_epoch(self.n_pairs, self.n_docs, most)

    def endless_batches(
        self, size: int, most: int | None, rng: np.random.Generator, device: torch.device
    ) -> Iterator[MiniBatch]:
        """Yield mini-batches without end, by passing over all pairs again and again."""
        while len(self):
            yield from self.batches(size, most, rng, device)

    def batches(
        self, size: int, most: int | None, rng: np.random.Generator | None, device: torch.device
    ) -> Iterator[MiniBatch]:
        """Yield the mini-batches of one pass, of `size` pairs each in all processes together.

        With a generator the queries come in random order, and a query that gives only some of its
        pairs gives random pairs.
        """
        order = np.arange(len(self.n_pairs))
        seed = 0
        if rng is not None:
            rng.shuffle(order)
            seed = int(rng.integers(1 << 62))

        @lru_cache(2)  # a query may be divided among mini-batches
        def shuffled(query: int, n: int) -> I64:
            places: I64 = np.random.default_rng([seed, query]).permutation(n)
            return places

        sizes = self.in_epoch(most)[order]
        ends = np.cumsum(sizes)
        for begin in range(0, int(sizes.sum()), size):
            end = min(begin + size, int(ends[-1]))
            first, last = np.searchsorted(ends, (begin, end - 1), side="right")
            in_batch = slice(first, last + 1)  # queries, in the order of this pass
            n_in_epoch = sizes[in_batch]
            starts = ends[in_batch] - n_in_epoch
            n_before = np.maximum(begin - starts, 0)
            n = np.minimum(end - starts, n_in_epoch) - n_before
            queries = order[in_batch] - self.first
            is_own = (queries >= 0) & (queries < len(self.offsets) - 1)
            shares = _Shares(queries[is_own], n_before[is_own], n[is_own], n_in_epoch[is_own])
            pairs = _ranges(self.offsets[shares.queries] + shares.first, shares.n)
            if rng is not None:
                bits = rng.integers(1 << 32, size=end - begin, dtype=np.uint32)
                self._draw(pairs, shares, bits[np.repeat(is_own, n)], shuffled)
            yield self._batch(shares, pairs, end - begin, device)

    def _draw(
        self, pairs: I64, shares: _Shares, bits: NDArray[np.uint32], shuffled: Callable[..., I64]
    ) -> None:
        """Replace pairs of a mini-batch, in place, by random pairs of the same queries.

        A query that gives only some of its pairs to the epoch gets pairs drawn with replacement. A
        query that gives all of them, in several mini-batches, has them in random order.
        """
        queries, n = shares.queries, shares.n
        first_pair = self.offsets[queries]
        n_pairs = np.diff(self.offsets)[queries]
        is_sampled = shares.n_in_epoch < n_pairs
        to_draw = np.repeat(is_sampled, n)
        n_sampled = n[is_sampled]
        # The product of 32 random bits and n_pairs is 64 bits wide; its upper half is a random
        # number below n_pairs.
        wide = bits[to_draw].astype(np.uint64)
        wide *= np.repeat(n_pairs[is_sampled], n_sampled).astype(np.uint64)
        number = (wide >> np.uint64(32)).astype(np.int64)
        pairs[to_draw] = np.repeat(first_pair[is_sampled], n_sampled) + number
        ends = np.cumsum(n)
        for k in np.flatnonzero(~is_sampled & (n < n_pairs)).tolist():
            order = shuffled(int(queries[k]) + self.first, int(n_pairs[k]))
            numbers = order[shares.first[k] : shares.first[k] + n[k]]
            pairs[ends[k] - n[k] : ends[k]] = first_pair[k] + numbers

    def _batch(self, shares: _Shares, pairs: I64, n_in_all: int, device: torch.device) -> MiniBatch:
        """Make the mini-batch of these pairs; it has `n_in_all` pairs in all processes together."""
        starts = self.doc_offsets[shares.queries]
        n_docs = self.doc_offsets[shares.queries + 1] - starts
        winner = self.winner[pairs].astype(np.int64)
        loser = self.loser[pairs].astype(np.int64)
        if n_docs.sum() > 2 * (len(pairs) + _LONG):  # a small batch has few of a long query's docs
            docs, places = np.unique(np.append(winner, loser), return_inverse=True)
            winner, loser = np.split(places, 2)
        else:
            docs = _ranges(starts, n_docs)
            shift = np.repeat(np.cumsum(n_docs) - n_docs - starts, shares.n)
            winner, loser = winner + shift, loser + shift
        weight = np.full(len(pairs), 1 / n_in_all, np.float32)
        if self.weight is not None:  # a batch of little weight makes a small step
            weight *= self.weight[pairs]
        if self.kept is None:
            x = to_device(self.queries.features[self.docs[docs]], device)
        else:
            x = self.kept[to_device(docs, device)]
        return MiniBatch(
            x, to_device(winner, device), to_device(loser, device), to_device(weight, device)
        )


def pairs_in_epoch(n_pairs: I64, n_docs: I64, most: int | None) -> I64:
    """Number (n_queries,) of pairs that an epoch draws from each query.

    A query gives `most` pairs (None: all), or 6 for each of its documents, counting up to 500
    documents, where that is more; but never more pairs than it has.
    """
    if most is None:
        return n_pairs
    for_documents = _PAIRS_A_DOCUMENT * np.minimum(n_docs, _LONG)
    n_in_epoch: I64 = np.minimum(n_pairs, np.maximum(for_documents, most))
    return n_in_epoch


def _weighted(
    queries: Queries, pairs: ComparedPairs, pair_weight: str, gain: F32 | None
) -> tuple[I32, I32, F32 | None]:
    """Winners, losers and weights of all pairs, sorted by winner.

    The weight of a pair is the weight of its judgement times the weights of its documents, times
    the grade of the better document if `pair_weight` is "grade", and times its `gain`. The weights
    are 1 in the mean unless all are 0; None: all are 1. A pair with an answer p < 1 also occurs
    in reverse: the two weigh p and 1 - p.
    """
    winner, loser = pairs.i, pairs.j
    weight: F32 | F64 = np.ones(len(pairs), np.float32) if gain is None else gain
    if queries.weights is not None:  # a product of weights may exceed float32's range
        weight = weight * queries.weights[winner].astype(np.float64) * queries.weights[loser]
    if pair_weight == "grade":
        weight = weight * queries.grades[winner]
    if queries.judged is not None:
        weight = weight * queries.judged.answers_for(winner, loser)[1]
    unsure = pairs.answer < 1
    if unsure.any():
        p = np.nan_to_num(pairs.answer, nan=1.0)
        weight = np.append(weight * p, (weight * (1 - p))[unsure])
        reverse_winner = loser[unsure]
        reverse_loser = winner[unsure]
        winner = np.append(winner, reverse_winner)
        loser = np.append(loser, reverse_loser)
        order = np.argsort(winner, kind="stable")
        winner = winner[order]
        loser = loser[order]
        weight = weight[order]
    # If the least and the greatest weight of all processes are equal, no weights are needed.
    own_extremes = [weight.min(), weight.max()] if len(weight) else []
    extremes = gathered(queries, np.array(own_extremes, np.float64))
    if not len(extremes) or (extremes[0] > 0 and (extremes == extremes[0]).all()):
        return winner, loser, None
    total, n = summed(queries, np.array([weight.sum(dtype=np.float64), len(weight)]))
    mean = total / n
    if mean == 0:  # all weights are 0, which the training refuses
        mean = 1.0
    return winner, loser, (weight / mean).astype(np.float32)


def _ranges(starts: I64, sizes: I64) -> I64:
    """Concatenate the indexes start .. start + size - 1 of all ranges."""
    n_before = np.cumsum(sizes) - sizes
    indexes: I64 = np.arange(sizes.sum()) + np.repeat(starts - n_before, sizes)
    return indexes
