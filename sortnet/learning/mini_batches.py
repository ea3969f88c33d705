"""Mini-batches of pairs, taken query by query, so that each document is embedded only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sortnet.comparators.base import to_device
from sortnet.core import F32, F64, I32, I64, Bool, ComparedPairs, Queries
from sortnet.core.shard import gather_rows, sum_of_earlier_processes, sum_over_processes

# An epoch has at least `_PAIRS_A_DOCUMENT` pairs for each document of a query, if the query has so
# many pairs. A longer query counts as having `_LONG` documents.
_PAIRS_A_DOCUMENT = 6
_LONG = 500
_BYTES_OF_FLOAT32 = 4
AT_ONCE = 1 << 16  # number of pairs or documents processed at a time, which bounds memory


@dataclass(frozen=True)
class MiniBatch:
    """Mini-batch of pairs, with the features of the documents in the pairs.

    Attributes:
        x: (k, d) features of k documents.
        winner, loser: (m,) row numbers in `x` of the better and the worse document of each pair.
        weight: (m,) weights of the pairs.
    """

    x: Tensor
    winner: Tensor
    loser: Tensor
    weight: Tensor


@dataclass(frozen=True)
class _PairRanges:
    """The pairs of each of k queries that belong to a mini-batch: a range of consecutive pairs.

    The mini-batches of an epoch take the pairs of a query one after another.

    Attributes:
        queries: (k,) numbers of the queries, among this process's queries that have pairs.
        first: (k,) where the range begins: the number of the query's pairs in earlier mini-batches.
        n: (k,) number of the query's pairs in this mini-batch.
        n_in_epoch: (k,) number of the query's pairs in the epoch.
    """

    queries: I64
    first: I64
    n: I64
    n_in_epoch: I64


@dataclass(frozen=True)
class QueryPairs:
    """Pairs grouped by query, and the documents that occur in the pairs.

    Processes that share a training plan the same mini-batches, and each process computes the pairs
    of its own queries. The sum of their gradients differs from the gradient of a single process
    only by rounding.

    Attributes:
        queries: this process's queries.
        docs: (n,) numbers of the documents that occur in pairs, ascending.
        doc_offsets: (n_own + 1,) where in `docs` the documents of each query begin, for the n_own
            queries of this process that have pairs.
        winner, loser: (m,) indexes into `docs` of the better and the worse document of each pair,
            query by query.
        weight: (m,) weights of the pairs, whose mean is 1; None if all weights are 1.
        offsets: (n_own + 1,) where in `winner` the pairs of each query begin.
        n_pairs: (n_queries,) the number of pairs of each query that has pairs, over all processes.
        n_docs: (n_queries,) the number of documents in the pairs of each query of `n_pairs`.
        first: the index into `n_pairs` of this process's first query.
        features_on_gpu: (n, d) features of `docs` on a GPU; None if each mini-batch copies its own
            features.
    """

    queries: Queries
    docs: I64
    doc_offsets: I64
    winner: I32
    loser: I32
    weight: F32 | None
    offsets: I64
    n_pairs: I64
    n_docs: I64
    first: int
    features_on_gpu: Tensor | None = None

    def __len__(self) -> int:
        """The number of pairs in all processes."""
        return int(self.n_pairs.sum())

    @classmethod
    def of(
        cls,
        queries: Queries,
        pairs: ComparedPairs,
        pair_weight: str = "none",
        gain: F32 | None = None,
    ) -> QueryPairs:
        """Group pairs by query, and number the documents that occur in pairs.

        Args:
            queries: the queries, to whose document numbers the pairs refer.
            pairs: the pairs, `in_order`.
            pair_weight: `grade` to weight a pair by the grade of its better document.
            gain: (m,) factors of the weights of the pairs.
        """
        winner, loser, weight = _weighted(queries, pairs, pair_weight, gain)
        occurs = np.zeros(queries.n_docs, np.bool_)
        occurs[winner] = True
        occurs[loser] = True
        # (n_docs + 1,) the number of earlier documents that occur in pairs. For a document that
        # occurs itself, it is the document's index into `docs`.
        index = np.append(np.int32(0), np.cumsum(occurs, dtype=np.int32))
        # Winners ascend and documents are numbered query by query, so that the pairs of a query
        # are a run.
        n_pairs_of_query = np.diff(np.searchsorted(winner, queries.offsets))
        with_pairs = np.flatnonzero(n_pairs_of_query)  # this process's queries that have pairs
        own_n_pairs = n_pairs_of_query[with_pairs]
        doc_offsets = np.append(index[queries.offsets[with_pairs]], index[-1]).astype(np.int64)
        own_n_docs = np.diff(doc_offsets)
        own_counts = np.stack((own_n_pairs, own_n_docs), axis=1)
        n_pairs, n_docs = gather_rows(queries, own_counts).T  # of all processes
        return cls(
            queries,
            docs=np.flatnonzero(occurs),
            doc_offsets=doc_offsets,
            winner=index[winner],
            loser=index[loser],
            weight=weight,
            offsets=np.append(0, np.cumsum(own_n_pairs)),
            n_pairs=n_pairs,
            n_docs=n_docs,
            first=sum_of_earlier_processes(queries, len(with_pairs)),
        )

    def with_features_on(self, device: torch.device) -> QueryPairs:
        """Copy the documents' features to a GPU, if they fit into a quarter of its free memory.

        Otherwise each mini-batch copies the features of its documents.
        """
        if device.type != "cuda":
            return self
        n_bytes = _BYTES_OF_FLOAT32 * len(self.docs) * self.queries.n_features
        free_bytes, _ = torch.cuda.mem_get_info(device)
        if n_bytes > free_bytes // 4:
            return self
        return replace(self, features_on_gpu=self._features(device))

    def _features(self, device: torch.device) -> Tensor:
        """Copy the features, (n, d), of all documents that occur in pairs to a device."""
        copies = []
        for start in range(0, max(len(self.docs), 1), AT_ONCE):
            docs = self.docs[start : start + AT_ONCE]
            copies.append(to_device(self.queries.features[docs], device))
        return torch.cat(copies)

    def in_epoch(self, most: int | None) -> I64:
        """Compute the number of pairs of each query in an epoch, (n_queries,).

        Args:
            most: see `pairs_in_epoch`.
        """
        return pairs_in_epoch(self.n_pairs, self.n_docs, most)

    def endless_batches(
        self, size: int, most: int | None, rng: np.random.Generator, device: torch.device
    ) -> Iterator[MiniBatch]:
        """Yield mini-batches without end, by repeated passes over the pairs; see `batches`."""
        while len(self):
            yield from self.batches(size, most, rng, device)

    def batches(
        self, size: int, most: int | None, rng: np.random.Generator | None, device: torch.device
    ) -> Iterator[MiniBatch]:
        """Yield the mini-batches of one pass over the pairs of an epoch.

        The pairs of the epoch lie in one row, query by query. The row is cut into mini-batches, so
        that a query may be divided among several. Each process yields the pairs of its own queries.

        Args:
            size: the number of pairs of a mini-batch, in all processes together.
            most: see `pairs_in_epoch`.
            rng: the generator that shuffles the queries, and draws the pairs of a query that gives
                only some of its pairs. If None, nothing is random.
            device: the device of the mini-batches.
        """
        order = np.arange(len(self.n_pairs))
        seed_of_pass = 0
        if rng is not None:
            rng.shuffle(order)
            seed_of_pass = int(rng.integers(1 << 62))

        @lru_cache(2)  # the first and the last query of a mini-batch may occur in another one
        def shuffled(query: int, n: int) -> I64:
            """Shuffle the numbers 0 .. n - 1 in a way that is fixed for a query and this pass."""
            numbers: I64 = np.random.default_rng([seed_of_pass, query]).permutation(n)
            return numbers

        n_of_query = self.in_epoch(most)[order]
        ends = np.cumsum(n_of_query)  # the end of each query in the row of pairs
        n_in_all = int(n_of_query.sum())
        for begin in range(0, n_in_all, size):
            end = min(begin + size, n_in_all)
            ranges, is_own_pair = self._ranges_in_batch(order, n_of_query, ends, begin, end)
            pairs = _ranges(self.offsets[ranges.queries] + ranges.first, ranges.n)
            if rng is not None:
                # Every process draws the numbers of the whole mini-batch, and uses its own.
                bits = rng.integers(1 << 32, size=end - begin, dtype=np.uint32)
                own_bits = bits[is_own_pair]
                self._replace_by_random(pairs, ranges, own_bits, shuffled)
            yield self._batch(ranges, pairs, end - begin, device)

    def _ranges_in_batch(
        self, order: I64, n_of_query: I64, ends: I64, begin: int, end: int
    ) -> tuple[_PairRanges, Bool]:
        """Find out which pairs of this process's queries belong to a mini-batch.

        All pairs of the epoch lie in one row, query by query, and the mini-batch is a part of it.

        Args:
            order: (n_queries,) the queries of all processes, in the order of the pass.
            n_of_query: (n_queries,) the number of pairs of each query of `order` in the epoch.
            ends: (n_queries,) the end of each query of `order` in the row of pairs.
            begin, end: the mini-batch is the pairs begin .. end - 1 of the row.

        Returns:
            The pairs of this process's queries, and a mask (end - begin,) of the pairs of the
            mini-batch that belong to this process.
        """
        first_query, last_query = np.searchsorted(ends, (begin, end - 1), side="right")
        in_batch = slice(first_query, last_query + 1)
        n_in_epoch = n_of_query[in_batch]
        starts = ends[in_batch] - n_in_epoch
        # The first query may have pairs before the mini-batch, the last query pairs after it.
        n_before_batch = np.maximum(begin - starts, 0)
        n_until_end = np.minimum(end - starts, n_in_epoch)
        n_in_batch = n_until_end - n_before_batch
        n_own_queries = len(self.offsets) - 1
        queries = order[in_batch] - self.first
        is_own = (queries >= 0) & (queries < n_own_queries)
        ranges = _PairRanges(
            queries[is_own], n_before_batch[is_own], n_in_batch[is_own], n_in_epoch[is_own]
        )
        return ranges, np.repeat(is_own, n_in_batch)

    def _replace_by_random(
        self,
        pairs: I64,
        ranges: _PairRanges,
        bits: NDArray[np.uint32],
        shuffled: Callable[..., I64],
    ) -> None:
        """Replace pairs of a mini-batch, in place, by random pairs of the same queries.

        If a query gives only some of its pairs to the epoch, its pairs are drawn with replacement.
        If a query gives all its pairs, in several mini-batches, their order is shuffled.

        Args:
            pairs: (m,) indexes of pairs, query by query, which are replaced.
            ranges: the range of each query's pairs in the mini-batch.
            bits: (m,) 32 random bits for each pair.
            shuffled: a function of a query's number and its number n of pairs, which returns the
                numbers 0 .. n - 1 in random order, always the same for a query.
        """
        queries = ranges.queries
        n_in_batch = ranges.n
        first_pair = self.offsets[queries]
        n_pairs = np.diff(self.offsets)[queries]
        is_sampled = ranges.n_in_epoch < n_pairs
        is_sampled_pair = np.repeat(is_sampled, n_in_batch)
        n_sampled = n_in_batch[is_sampled]
        limits = np.repeat(n_pairs[is_sampled], n_sampled)
        numbers = _random_below(limits, bits[is_sampled_pair])
        pairs[is_sampled_pair] = np.repeat(first_pair[is_sampled], n_sampled) + numbers

        # `pairs` has the pairs of query k from start_in_batch[k] to end_in_batch[k] - 1. They are
        # the pairs first[k] to first[k] + n_in_batch[k] - 1 of the query in its shuffled order.
        end_in_batch = np.cumsum(n_in_batch)
        start_in_batch = end_in_batch - n_in_batch
        is_divided = ~is_sampled & (n_in_batch < n_pairs)
        for k in np.flatnonzero(is_divided).tolist():
            shuffled_numbers = shuffled(int(queries[k]) + self.first, int(n_pairs[k]))
            end = ranges.first[k] + n_in_batch[k]
            numbers_in_batch = shuffled_numbers[ranges.first[k] : end]
            pairs[start_in_batch[k] : end_in_batch[k]] = first_pair[k] + numbers_in_batch

    def _documents_of_batch(self, ranges: _PairRanges, pairs: I64) -> tuple[I64, I64, I64]:
        """Choose the documents whose features a mini-batch needs, and number its pairs by them.

        Args:
            ranges: the range of each query's pairs in the mini-batch.
            pairs: (m,) indexes of the pairs, query by query.

        Returns:
            (k,) indexes into `docs`, and the (m,) winners and losers of the pairs as indexes into
            these k documents.
        """
        starts = self.doc_offsets[ranges.queries]
        n_docs = self.doc_offsets[ranges.queries + 1] - starts
        winner = self.winner[pairs].astype(np.int64)
        loser = self.loser[pairs].astype(np.int64)
        if n_docs.sum() > 2 * (len(pairs) + _LONG):
            # The mini-batch has only a few of the documents of long queries: take only these.
            docs, indexes = np.unique(np.append(winner, loser), return_inverse=True)
            winner, loser = np.split(indexes, 2)
            return docs, winner, loser
        # Take all documents of the queries, since np.unique would take longer.
        docs = _ranges(starts, n_docs)
        starts_in_batch = np.cumsum(n_docs) - n_docs
        shift = np.repeat(starts_in_batch - starts, ranges.n)
        return docs, winner + shift, loser + shift

    def _batch(
        self, ranges: _PairRanges, pairs: I64, n_in_all: int, device: torch.device
    ) -> MiniBatch:
        """Make the mini-batch of the given pairs, with the features of their documents.

        Args:
            ranges: the range of each query's pairs in the mini-batch.
            pairs: (m,) indexes of the pairs, query by query.
            n_in_all: the number of pairs of the mini-batch in all processes together.
            device: the device of the mini-batch.
        """
        docs, winner, loser = self._documents_of_batch(ranges, pairs)
        # The loss is a sum over the mini-batch: divided by the number of pairs, and not by their
        # weights, it makes a small step if the pairs have little weight.
        weight = np.full(len(pairs), 1 / n_in_all, np.float32)
        if self.weight is not None:
            weight *= self.weight[pairs]
        if self.features_on_gpu is None:
            x = to_device(self.queries.features[self.docs[docs]], device)
        else:
            x = self.features_on_gpu[to_device(docs, device)]
        return MiniBatch(
            x, to_device(winner, device), to_device(loser, device), to_device(weight, device)
        )


def pairs_in_epoch(n_pairs: I64, n_docs: I64, most: int | None) -> I64:
    """Compute the number of pairs that an epoch draws from each query, (n_queries,).

    A query gives `most` pairs, or 6 pairs for each of its documents if that is more, where at most
    500 documents count. It gives all its pairs if it has fewer.

    Args:
        n_pairs: (n_queries,) the number of pairs of each query.
        n_docs: (n_queries,) the number of documents of each query.
        most: the number of pairs of a query; if None, every query gives all its pairs.
    """
    if most is None:
        return n_pairs
    for_documents = _PAIRS_A_DOCUMENT * np.minimum(n_docs, _LONG)
    n_in_epoch: I64 = np.minimum(n_pairs, np.maximum(for_documents, most))
    return n_in_epoch


def _weighted(
    queries: Queries, pairs: ComparedPairs, pair_weight: str, gain: F32 | None
) -> tuple[I32, I32, F32 | None]:
    """Return the winners, losers and weights of all pairs to learn from, sorted by winner.

    Returns:
        (m,) winners, losers and weights. The weights are divided by their mean, unless all are 0;
        None means that all weights are 1.
    """
    weight = _weights_of_pairs(queries, pairs, pair_weight, gain)
    winner, loser, weight = _with_reverse_pairs(pairs, weight)
    if _are_all_equal(queries, weight):
        return winner, loser, None
    total, n = sum_over_processes(queries, np.array([weight.sum(dtype=np.float64), len(weight)]))
    mean = total / n
    if mean == 0:  # all weights are 0, which the training refuses
        mean = 1.0
    return winner, loser, (weight / mean).astype(np.float32)


def _weights_of_pairs(
    queries: Queries, pairs: ComparedPairs, pair_weight: str, gain: F32 | None
) -> F32 | F64:
    """Compute the weights of pairs, (m,).

    The weight of a pair is the product of the weight of its judgement, the weights of its two
    documents, its `gain`, and the grade of its better document if `pair_weight` is "grade".
    """
    winner, loser = pairs.i, pairs.j
    weight: F32 | F64 = np.ones(len(pairs), np.float32) if gain is None else gain
    if queries.weights is not None:  # the product of two float32 may exceed the range of float32
        weight = weight * queries.weights[winner].astype(np.float64) * queries.weights[loser]
    if pair_weight == "grade":
        weight = weight * queries.grades[winner]
    if queries.judged is not None:
        _, judgement_weight = queries.judged.answers_for(winner, loser)
        weight = weight * judgement_weight
    return weight


def _with_reverse_pairs(pairs: ComparedPairs, weight: F32 | F64) -> tuple[I32, I32, F32 | F64]:
    """Add every pair whose answer p is below 1 a second time, with its documents swapped.

    The pair gets its weight times p, and the swapped pair the weight times 1 - p.

    Returns:
        (m,) winners, losers and weights, sorted by winner.
    """
    winner, loser = pairs.i, pairs.j
    is_unsure = pairs.answer < 1
    if not is_unsure.any():
        return winner, loser, weight
    p = np.nan_to_num(pairs.answer, nan=1.0)
    reverse_weight = (weight * (1 - p))[is_unsure]
    all_weights = np.append(weight * p, reverse_weight)
    all_winners = np.append(winner, loser[is_unsure])
    all_losers = np.append(loser, winner[is_unsure])
    order = np.argsort(all_winners, kind="stable")
    return all_winners[order], all_losers[order], all_weights[order]


def _are_all_equal(queries: Queries, weight: F32 | F64) -> bool:
    """Whether all weights in all processes are the same number above 0, or there are none."""
    own_extremes = [weight.min(), weight.max()] if len(weight) else []
    extremes = gather_rows(queries, np.array(own_extremes, np.float64))
    if not len(extremes):
        return True
    return bool(extremes[0] > 0 and (extremes == extremes[0]).all())


def _random_below(limits: I64, bits: NDArray[np.uint32]) -> I64:
    """Turn 32 random bits each into random numbers from 0 to limit - 1, (m,).

    The product of 32 bits and a limit is 64 bits wide, and its upper half is below the limit.
    """
    products = bits.astype(np.uint64)
    products *= limits.astype(np.uint64)
    return (products >> np.uint64(32)).astype(np.int64)


def _ranges(starts: I64, sizes: I64) -> I64:
    """Concatenate the ranges start .. start + size - 1 of all given starts and sizes.

    >>> _ranges(np.array([5, 1]), np.array([2, 3])).tolist()
    [5, 6, 1, 2, 3]
    """
    n_before = np.cumsum(sizes) - sizes
    indexes: I64 = np.arange(sizes.sum()) + np.repeat(starts - n_before, sizes)
    return indexes
