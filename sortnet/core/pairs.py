"""Pairs of documents: judged pairs, and keys, which are pairs packed into one number each.

The key of a pair (i, j) of document numbers is i * 2^32 + j. Keys are ordered by i, then by j.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core.arrays import F32, F64, I64, Array, Bool, Ints, refuse_masked
from sortnet.errors import DataError

_LARGEST = np.finfo(np.float32).max  # the largest weight
_SECOND = np.int64(2**32 - 1)  # the bits of a key that are the second document number


def packed(i: Ints, j: Ints) -> I64:
    """Pack pairs of document numbers into keys i * 2^32 + j, (m,)."""
    return (i.astype(np.int64) << 32) | j


def unpacked(key: I64) -> tuple[I64, I64]:
    """Unpack keys, (m,), into the document numbers i and j, (m,) each."""
    return key >> 32, key & _SECOND


def key_of(i: int, j: int) -> int:
    """Pack a single pair of document numbers into its key, i * 2^32 + j."""
    return (i << 32) | j


def unordered(i: Ints, j: Ints) -> I64:
    """Pack pairs into keys, (m,), with the lower document number first: (i, j) and (j, i) agree."""
    return packed(np.minimum(i, j), np.maximum(i, j))


def moved(key: I64, by: int) -> I64:
    """Add `by` to both document numbers of each key, (m,)."""
    return key + by * np.int64(2**32 + 1)


def is_in(keys: I64, ascending: I64) -> Bool:
    """Check which keys occur in an array of ascending keys; return a mask, (m,)."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    rows = np.searchsorted(ascending, keys)
    rows[rows == len(ascending)] = 0  # a key above the last one differs from the first one, too
    occurs: Bool = ascending[rows] == keys
    return occurs


def unique(keys: I64) -> I64:
    """Return the different keys in ascending order; the given array is sorted in place."""
    keys.sort()
    # np.unique would hash first, which takes ten times as long as this sort.
    is_first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    different: I64 = keys[is_first]
    return different


def all_pairs(offsets: I64) -> tuple[I64, I64]:
    """Return the document numbers i < j of every pair of documents of one query, (m,) each.

    >>> all_pairs(np.array([0, 3, 5]))
    (array([0, 0, 1, 3]), array([1, 2, 2, 4]))
    """
    documents = np.arange(offsets[-1])
    end_of_query = np.repeat(offsets[1:], np.diff(offsets))
    n_after = end_of_query - documents - 1  # number of later documents of the same query
    i = np.repeat(documents, n_after)
    first_pair = np.cumsum(n_after) - n_after
    distance = np.arange(len(i)) - np.repeat(first_pair, n_after) + 1
    return i, i + distance


def refuse_no_pairs(i: Ints, j: Ints) -> None:
    """Raise DataError unless the columns i and j are pairs of two different documents.

    Raises:
        DataError: if the columns have different shapes, a row has the same document twice, or a
            number is below 0 or from 2^31.
    """
    if i.shape != j.shape or i.ndim != 1:
        raise DataError(f"pairs: {i.shape} documents but {j.shape} others")
    is_outside = (i | j) >> 31 != 0  # only numbers from 0 to 2^31 - 1 lose all their bits
    is_wrong = (i == j) | is_outside
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise DataError(f"pair {row}: documents {i[row]} and {j[row]} are no pair")


class Pairs:
    """Judged pairs of documents of one query, the better document first.

    Each pair occurs once, and the pairs are ordered by (winner, loser). `Pairs.judged` makes pairs
    of uncertain or contradictory judgements.

    Args:
        winner: (m,) numbers of the documents that are better, in any order.
        loser: (m,) numbers of the documents that are worse.

    Attributes:
        key: (m,) int64 keys winner * 2^32 + loser, ascending. A document number fits 31 bits.
        target: (m,) float32 shares of the judgements that prefer the winner, from 0.5 for a tie to
            1.
        weight: (m,) float32 weights of the judgements, above 0.

    Raises:
        DataError: on a document number below 0 or from 2^31, or a document paired with itself.

    >>> pairs = Pairs(np.array([7, 2, 7]), np.array([1, 9, 1]))
    >>> pairs.winner, pairs.loser
    (array([2, 7]), array([9, 1]))
    >>> len(pairs | Pairs(np.array([0]), np.array([1])))
    3

    Cost: one sort.
    """

    __slots__ = ("key", "target", "weight")
    key: I64
    target: F32
    weight: F32

    def __init__(self, winner: ArrayLike, loser: ArrayLike) -> None:
        """Make pairs of sure judgements, with target and weight 1; duplicates count once."""
        i, j = np.asarray(winner, np.int64), np.asarray(loser, np.int64)
        refuse_no_pairs(i, j)
        self.key = unique(packed(i, j))
        self.target = np.ones(len(self.key), np.float32)
        self.weight = np.ones(len(self.key), np.float32)

    @classmethod
    def of_keys(cls, key: I64, target: F32, weight: F32) -> Self:
        """Make pairs from ascending keys without duplicates, their targets and their weights."""
        pairs = cls.__new__(cls)
        pairs.key = key
        pairs.target = target
        pairs.weight = weight
        return pairs

    @classmethod
    def empty(cls) -> Self:
        return cls([], [])

    @classmethod
    def judged(
        cls,
        better: ArrayLike,
        worse: ArrayLike,
        *,
        soft: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> Self:
        """Make pairs of judgements; judgements of the same two documents add up by their weights.

        The winner of a pair has more than half of the weight. In a tie the document with the lower
        number is the winner.

        Args:
            better, worse: (m,) numbers of the better and of the worse document of each judgement.
            soft: (m,) probabilities that document `better` is better, 0 to 1; 0.5 is a tie. If
                None, all are 1.
            weight: (m,) weights, 0 or more. If None, all are 1. Judgements of weight 0 are left
                out.

        Raises:
            DataError: if the arrays have different shapes, a document is compared with itself, a
                probability is not from 0 to 1, or a weight is negative or no number.

        >>> pairs = Pairs.judged([2, 0, 1], [1, 1, 2])
        >>> pairs.winner.tolist(), pairs.loser.tolist(), pairs.target.tolist()
        ([0, 1], [1, 2], [1.0, 0.5])

        Cost: two sorts.
        """
        refuse_masked(better=better, worse=worse, soft=soft, weight=weight)
        i, j = np.asarray(better, np.int64), np.asarray(worse, np.int64)
        p = np.ones(i.shape) if soft is None else np.asarray(soft, np.float64)
        w = np.ones(i.shape) if weight is None else np.asarray(weight, np.float64)
        if i.ndim != 1 or not i.shape == j.shape == p.shape == w.shape:
            raise DataError(
                f"judgements: {i.shape} better documents but {j.shape} worse ones; soft has shape "
                f"{p.shape}, weight has shape {w.shape}"
            )
        faults = {  # comparisons with NaN are false
            "a document compared with itself": (i == j, i),
            "not a probability": (~((p >= 0) & (p <= 1)), p),
            "not a weight": (~((w >= 0) & (w <= _LARGEST)), w),
        }
        for fault, (is_wrong, values) in faults.items():
            if is_wrong.any():
                row = int(np.argmax(is_wrong))
                raise DataError(f"judgement {row}: {fault}: {values[row]}")
        return cls._of_sums(i, j, p, w)

    @classmethod
    def _of_sums(cls, i: I64, j: I64, p: F64, w: F64) -> Self:
        """Make pairs of valid judgements, and add up the weights of the judgements of each pair.

        With the weights w and the probabilities p of all judgements of two documents, the pair has
        the weight Σ w, and its target is the share Σ w p / Σ w for the winner.

        Args:
            i, j: (m,) numbers of the documents of each judgement.
            p: (m,) probabilities that document i is better.
            w: (m,) weights of the judgements.
        """
        # `low` and `high` are the documents with the lower and the higher number of a pair.
        all_keys, pair_of_judgement = np.unique(unordered(i, j), return_inverse=True)
        p_low = np.where(i < j, p, 1 - p)
        total = np.bincount(pair_of_judgement, w, len(all_keys))
        total_for_low = np.bincount(pair_of_judgement, w * p_low, len(all_keys))
        rounded_total = np.minimum(total, _LARGEST).astype(np.float32)

        has_weight = rounded_total > 0
        low_high_key = all_keys[has_weight]
        weight = rounded_total[has_weight]
        share_for_low: F64 = np.clip(total_for_low[has_weight] / total[has_weight], 0, 1)

        # The winner is first in the key of a pair.
        low, high = unpacked(low_high_key)
        key = np.where(share_for_low < 0.5, packed(high, low), low_high_key)
        target = np.maximum(share_for_low, 1 - share_for_low).astype(np.float32)
        order = np.argsort(key)
        return cls.of_keys(key[order], target[order], weight[order])

    @property
    def winner(self) -> I64:
        """Number (m,) int64 of the better document of each pair, in ascending order."""
        return self.key >> 32

    @property
    def loser(self) -> I64:
        """Number (m,) int64 of the worse document of each pair."""
        return self.key & _SECOND

    def __len__(self) -> int:
        return len(self.key)

    def __or__(self, pairs: Pairs) -> Pairs:
        """Unite two sets of pairs, which must have no pair in common."""
        key = np.concatenate([self.key, pairs.key])
        target = np.concatenate([self.target, pairs.target])
        weight = np.concatenate([self.weight, pairs.weight])
        order = np.argsort(key)
        return Pairs.of_keys(key[order], target[order], weight[order])

    @property
    def sure(self) -> F64:
        """Weight (m,) of each pair in a measure: weight * (2 target - 1), which is 0 for a tie."""
        sure: F64 = self.weight.astype(np.float64) * (2 * self.target.astype(np.float64) - 1)
        return sure

    def answers_for(self, i: Ints, j: Ints) -> tuple[F32, F32]:
        """Look up the judgements of pairs (i, j) of documents.

        Args:
            i, j: (m,) document numbers, in any order.

        Returns:
            (m,) shares of the judgements that prefer document i, and (m,) weights of the
            judgements. A pair that nobody compared has the share NaN and the weight 1.
        """
        share_for_i = np.full(len(i), np.nan, np.float32)
        weight = np.ones(len(i), np.float32)
        if not len(self):
            return share_for_i, weight
        # A judged pair is stored once, with its winner first. So it is found either as (i, j), or
        # else as (j, i), and no answer is set twice.
        for keys, is_reversed in ((packed(i, j), False), (packed(j, i), True)):
            rows = np.minimum(np.searchsorted(self.key, keys), len(self) - 1)
            is_judged = self.key[rows] == keys
            target = self.target[rows[is_judged]]
            share_for_i[is_judged] = 1 - target if is_reversed else target
            weight[is_judged] = self.weight[rows[is_judged]]
        return share_for_i, weight

    def where(self, rows: Array) -> Pairs:
        """Select pairs by a mask or by ascending row numbers."""
        return Pairs.of_keys(self.key[rows], self.target[rows], self.weight[rows])

    def renumbered(self, number: I64) -> Pairs:
        """Replace the document numbers of all pairs by new numbers.

        Args:
            number: (n_docs,) the new number of each document. A pair of a document whose new number
                is -1 is left out.
        """
        i, j = number[self.winner], number[self.loser]
        rows = np.flatnonzero((i >= 0) & (j >= 0))
        key = packed(i[rows], j[rows])
        order = np.argsort(key)
        rows = rows[order]
        return Pairs.of_keys(key[order], self.target[rows], self.weight[rows])

    def __repr__(self) -> str:
        return f"Pairs({len(self)})"
