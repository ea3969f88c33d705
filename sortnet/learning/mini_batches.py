"""Mini-batches of pairs, taken query by query, so that each document is embedded only once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F32, F64, I32, I64, ComparedPairs, Queries
from sortnet.core.memory import joined_ranges
from sortnet.core.shard import ALONE, Group, own_share

# A query gives an epoch at least `_PAIRS_A_DOCUMENT` pairs for each of its documents, if it has so
# many pairs. A query of more than `_LONG` documents counts as having `_LONG` documents.
_PAIRS_A_DOCUMENT = 6
_LONG = 500
AT_ONCE = 1 << 16  # number of pairs or documents processed at a time, which bounds memory


@dataclass(frozen=True)
class MiniBatch:
    """Mini-batch of pairs, or the share of it that a process of a group computes.

    Attributes:
        queries: the queries.
        docs: (k,) numbers of the documents in the pairs, and perhaps of others of their queries.
        winner, loser: (m,) indexes into `docs` of the better and the worse document of each pair.
        weight: (m,) weights of the pairs.
    """

    queries: Queries
    docs: I64
    winner: I64
    loser: I64
    weight: F32

    @property
    def x(self) -> F32:
        """The features of the documents, (k, d)."""
        return self.queries.features_of(self.docs)


@dataclass(frozen=True)
class _PairRanges:
    """The pairs of each of k queries: a range of the pairs that the query gives to an epoch.

    Attributes:
        queries: (k,) numbers of the queries.
        first: (k,) where the range begins: the number of the query's earlier pairs in the epoch.
        n: (k,) number of the query's pairs in the range.
        n_in_epoch: (k,) number of the query's pairs in the epoch.
    """

    queries: I64
    first: I64
    n: I64
    n_in_epoch: I64

    def cut(self, ends: I64, begin: int, end: int) -> _PairRanges:
        """Cut the pairs begin .. end - 1 out of whole ranges that are put one after another.

        Args:
            ends: (k,) where each range ends, the running sums of `n_in_epoch`.
            begin, end: the numbers of the first pair, and of the first pair after the cut.
        """
        first_query, last_query = np.searchsorted(ends, (begin, end - 1), side="right")
        is_cut = slice(first_query, last_query + 1)
        n_in_epoch = self.n_in_epoch[is_cut]
        starts = ends[is_cut] - n_in_epoch
        # The first query may have pairs before the cut, the last query pairs after it.
        first = np.maximum(begin - starts, 0)
        n_until_end = np.minimum(end - starts, n_in_epoch)
        return _PairRanges(self.queries[is_cut], first, n_until_end - first, n_in_epoch)


@dataclass(frozen=True)
class QueryPairs:
    """Pairs grouped by query, and the documents that occur in the pairs.

    Attributes:
        queries: the queries.
        docs: (n,) numbers of the documents that occur in pairs, ascending.
        doc_offsets: (n_queries + 1,) where in `docs` the documents of each query begin, for the
            n_queries queries that have pairs.
        winner, loser: (m,) indexes into `docs` of the better and the worse document of each pair,
            query by query.
        weight: (m,) weights of the pairs, whose mean is 1.
        offsets: (n_queries + 1,) where in `winner` the pairs of each query begin.
    """

    queries: Queries
    docs: I64
    doc_offsets: I64
    winner: I32
    loser: I32
    weight: F32
    offsets: I64

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.winner)

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
        weight = _weights_of_pairs(queries, pairs, pair_weight, gain)
        winner, loser, weight = _with_reverse_pairs(pairs, weight)
        mean = weight.mean(dtype=np.float64) if len(weight) else 1.0
        occurs = np.zeros(queries.n_docs, np.bool_)
        occurs[winner] = True
        occurs[loser] = True
        # (n_docs + 1,) how many of the documents before each document occur in pairs. This is the
        # index into `docs` of each document in a pair.
        index_in_docs = np.append(np.int32(0), np.cumsum(occurs, dtype=np.int32))
        # The pairs are sorted by winner, so that the pairs of a query follow each other.
        first_pairs = np.searchsorted(winner, queries.offsets)
        has_pairs = np.diff(first_pairs) > 0
        return cls(
            queries,
            docs=np.flatnonzero(occurs),
            doc_offsets=np.append(index_in_docs[queries.offsets[:-1][has_pairs]], occurs.sum()),
            winner=index_in_docs[winner],
            loser=index_in_docs[loser],
            weight=(weight / (mean or 1.0)).astype(np.float32),
            offsets=np.append(first_pairs[:-1][has_pairs], len(winner)),
        )

    def in_epoch(self, usual_pairs: int | None) -> I64:
        """Compute the number of pairs of each query in an epoch, (n_queries,).

        Args:
            usual_pairs: see `pairs_in_epoch`.
        """
        return pairs_in_epoch(np.diff(self.offsets), np.diff(self.doc_offsets), usual_pairs)

    def endless_batches(
        self, size: int, usual_pairs: int | None, rng: np.random.Generator, group: Group = ALONE
    ) -> Iterator[MiniBatch]:
        """Yield mini-batches without end, by repeated passes over the pairs."""
        while len(self):
            yield from self.batches(size, usual_pairs, rng, group)

    def batches(
        self,
        size: int,
        usual_pairs: int | None,
        rng: np.random.Generator | None,
        group: Group = ALONE,
    ) -> Iterator[MiniBatch]:
        """Yield the mini-batches of one pass over the pairs of an epoch.

        The pairs of the epoch lie in one row, query by query. The row is cut into mini-batches, so
        that a query may be divided among several. The processes of a group plan the same
        mini-batches, and each yields its share of their pairs. The sum of their gradients differs
        from the gradient of a single process only by rounding.

        Args:
            size: the number of pairs of a mini-batch, in all processes together.
            usual_pairs: see `pairs_in_epoch`.
            rng: the generator that shuffles the queries, and draws the pairs of a query that gives
                only some of its pairs. If None, nothing is random.
            group: the processes that share each mini-batch.
        """
        n_in_epoch = self.in_epoch(usual_pairs)
        order = np.arange(len(n_in_epoch))
        seed_of_pass = 0
        if rng is not None:
            rng.shuffle(order)
            seed_of_pass = int(rng.integers(1 << 62))

        @lru_cache(2)  # the first and the last query of a mini-batch may occur in another one
        def shuffled(query: int, n: int) -> I64:
            """Shuffle the numbers 0 .. n - 1 in a way that is fixed for a query and this pass."""
            numbers: I64 = np.random.default_rng([seed_of_pass, query]).permutation(n)
            return numbers

        n_in_epoch = n_in_epoch[order]
        row = _PairRanges(order, np.zeros_like(order), n_in_epoch, n_in_epoch)
        ends = np.cumsum(n_in_epoch)
        n_in_all = int(n_in_epoch.sum())
        for begin in range(0, n_in_all, size):
            end = min(begin + size, n_in_all)
            own_begin, own_end = own_share(group, begin, end)
            ranges = row.cut(ends, own_begin, own_end)
            pairs = joined_ranges(self.offsets[ranges.queries] + ranges.first, ranges.n)
            if rng is not None:
                # Every process draws random bits for all pairs of the mini-batch.
                bits = rng.integers(1 << 32, size=end - begin, dtype=np.uint32)
                self._draw_pairs(pairs, ranges, bits[own_begin - begin : own_end - begin])
                self._shuffle_pairs(pairs, ranges, shuffled)
            docs, winner, loser = self._documents_of_batch(ranges, pairs)
            # The loss is divided by the number of pairs, not by the sum of their weights. So a step
            # is small if the pairs have little weight.
            weight = self.weight[pairs] * np.float32(1 / (end - begin))
            yield MiniBatch(self.queries, self.docs[docs], winner, loser, weight)

    def _draw_pairs(self, pairs: I64, ranges: _PairRanges, bits: NDArray[np.uint32]) -> None:
        """Replace pairs of a mini-batch, in place, by random pairs of the same queries.

        Only queries that give some of their pairs to the epoch, not all, get random pairs. A pair
        may be drawn several times.

        Args:
            pairs: (m,) indexes of pairs, query by query.
            ranges: the range of each query's pairs in the mini-batch.
            bits: (m,) 32 random bits for each pair.
        """
        n_pairs = np.diff(self.offsets)[ranges.queries]
        gives_some = ranges.n_in_epoch < n_pairs
        n_drawn = ranges.n[gives_some]
        is_drawn_pair = np.repeat(gives_some, ranges.n)
        first_pair = np.repeat(self.offsets[ranges.queries[gives_some]], n_drawn)
        limits = np.repeat(n_pairs[gives_some], n_drawn)
        # The product of 32 bits and a limit is 64 bits wide, and its upper half is below the limit.
        products = bits[is_drawn_pair].astype(np.uint64)
        products *= limits.astype(np.uint64)
        pairs[is_drawn_pair] = first_pair + (products >> np.uint64(32)).astype(np.int64)

    def _shuffle_pairs(self, pairs: I64, ranges: _PairRanges, shuffled: Callable[..., I64]) -> None:
        """Replace pairs of a mini-batch, in place, by pairs at the same places of a random order.

        Only the pairs of a query that gives all its pairs to the epoch, but in several
        mini-batches, are put in random order. Otherwise the same pairs would always share a
        mini-batch.

        Args:
            pairs: (m,) indexes of pairs, query by query.
            ranges: the range of each query's pairs in the mini-batch.
            shuffled: a function of a query's number and its number n of pairs, which returns the
                numbers 0 .. n - 1 in random order, always the same for a query.
        """
        n_pairs = np.diff(self.offsets)[ranges.queries]
        is_divided = (ranges.n_in_epoch == n_pairs) & (ranges.n < n_pairs)
        ends_in_batch = np.cumsum(ranges.n)
        for k in np.flatnonzero(is_divided).tolist():
            query = ranges.queries[k]
            n = ranges.n[k]
            order = shuffled(int(query), int(n_pairs[k]))
            numbers = order[ranges.first[k] : ranges.first[k] + n]
            end = ends_in_batch[k]
            pairs[end - n : end] = self.offsets[query] + numbers

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
        # A mini-batch has at most two documents for each pair. If its queries have many more, take
        # only the documents in pairs.
        has_unused_documents = n_docs.sum() > 2 * (len(pairs) + _LONG)
        if has_unused_documents:
            docs, indexes = np.unique(np.append(winner, loser), return_inverse=True)
            winner_indexes, loser_indexes = np.split(indexes, 2)
            return docs, winner_indexes, loser_indexes
        # Otherwise take all documents of the queries, since np.unique would take longer. The new
        # numbers of a query's documents are their indexes into `docs`, shifted.
        docs = joined_ranges(starts, n_docs)
        starts_in_batch = np.cumsum(n_docs) - n_docs
        shift_of_pair = np.repeat(starts_in_batch - starts, ranges.n)
        return docs, winner + shift_of_pair, loser + shift_of_pair


def pairs_in_epoch(n_pairs: I64, n_docs: I64, usual_pairs: int | None) -> I64:
    """Compute the number of pairs that an epoch draws from each query, (n_queries,).

    The number is min(n_pairs, max(usual_pairs, 6 * min(n_docs, 500))): a query with few documents
    gives its usual pairs, a longer query more, and no query more pairs than it has.

    Args:
        n_pairs: (n_queries,) the number of pairs of each query.
        n_docs: (n_queries,) the number of documents of each query.
        usual_pairs: the number of pairs that a query with few documents gives. If None, every query
            gives all its pairs.
    """
    if usual_pairs is None:
        return n_pairs
    for_documents = _PAIRS_A_DOCUMENT * np.minimum(n_docs, _LONG)
    n_in_epoch: I64 = np.minimum(n_pairs, np.maximum(for_documents, usual_pairs))
    return n_in_epoch


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
