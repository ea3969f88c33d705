"""Pairs of documents, and pairs packed into one number each."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sortnet.core.arrays import F32, F64, I64, Ints
from sortnet.errors import DataError

_LARGEST = np.finfo(np.float32).max
_SECOND = np.int64(2**32 - 1)


def packed(i: Ints, j: Ints) -> I64:
    """(m,) i * 2^32 + j: pairs as numbers, whose order is that of i, then of j."""
    return (i.astype(np.int64) << 32) | j


def unpacked(key: I64) -> tuple[I64, I64]:
    """(m,) and (m,) the i and the j of packed pairs."""
    return key >> 32, key & _SECOND


def key_of(i: int, j: int) -> int:
    """One pair as a number."""
    return (i << 32) | j


def pair_of(key: int) -> tuple[int, int]:
    """The i and the j of one packed pair."""
    return key >> 32, key & int(_SECOND)


def unordered(i: Ints, j: Ints) -> I64:
    """(m,) pairs packed with the lower document number first."""
    return packed(np.minimum(i, j), np.maximum(i, j))


def moved(key: I64, by: int) -> I64:
    """Packed pairs with `by` added to all document numbers."""
    return key + by * np.int64(2**32 + 1)


def is_in(keys: I64, ascending: I64) -> NDArray[np.bool_]:
    """(m,) whether each number occurs in an ascending array."""
    if not len(ascending):
        return np.zeros(len(keys), np.bool_)
    places = np.searchsorted(ascending, keys)
    places[places == len(ascending)] = 0
    occurs: NDArray[np.bool_] = ascending[places] == keys
    return occurs


def unique(keys: I64) -> I64:
    """The different numbers, ascending; sorts the given array in place, too."""
    keys.sort()
    # np.unique would hash first, which takes ten times as long as this sort.
    is_first = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
    different: I64 = keys[is_first]
    return different


def refuse_no_pairs(i: Ints, j: Ints) -> None:
    """Refuse columns of documents that are no pairs.

    Raises:
        DataError: on columns that do not fit each other, a document compared with itself, or a
            number that is no document's.
    """
    if i.shape != j.shape or i.ndim != 1:
        raise DataError(f"pairs: {i.shape} documents but {j.shape} others")
    bad = (i == j) | ((i | j) >> 31 != 0)
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"pair {row}: documents {i[row]} and {j[row]} are no pair")


class Pairs:
    """Judged pairs of documents of one query, the better document first.

    Each pair occurs once, ordered by (winner, loser). See `judged` for uncertain judgements.

    Args:
        winner: (m,) numbers of the documents that are better, in any order.
        loser: (m,) numbers of the documents that are worse.

    Attributes:
        key: (m,) int64, ascending: winner * 2^32 + loser. (Document numbers fit 31 bits.)
        target: (m,) float32 the share of the judgements for the winner, from ½, a tie, to 1.
        weight: (m,) float32 the weight of the judgements, above 0.

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
        i, j = np.asarray(winner, np.int64), np.asarray(loser, np.int64)
        refuse_no_pairs(i, j)
        self.key = unique(packed(i, j))
        self.target = np.ones(len(self.key), np.float32)
        self.weight = np.ones(len(self.key), np.float32)

    @classmethod
    def of_keys(cls, key: I64, target: F32, weight: F32) -> Self:
        """Make pairs of ascending keys without duplicates."""
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

        The winner has more than half of the weight; in a tie it is the lower document number.

        Args:
            better, worse: (m,) document numbers.
            soft: (m,) probabilities that the first document is better, 0 to 1; ½ is a tie; None: 1.
            weight: (m,) 0 or more; None: 1. Judgements of weight 0 are left out.

        Raises:
            DataError: on arrays that do not fit each other, a document compared with itself, a
                probability outside [0, 1] or a weight that is negative or no number.

        >>> pairs = Pairs.judged([2, 0, 1], [1, 1, 2])
        >>> pairs.winner.tolist(), pairs.loser.tolist(), pairs.target.tolist()
        ([0, 1], [1, 2], [1.0, 0.5])

        Cost: two sorts.
        """
        i, j = np.asarray(better, np.int64), np.asarray(worse, np.int64)
        p = _numbers("soft", soft, i)
        w = _numbers("weight", weight, i)
        if i.shape != j.shape or i.ndim != 1:
            raise DataError(f"judgements: {i.shape} better documents but {j.shape} worse ones")
        _refuse("a document compared with itself", i == j, i)
        _refuse("not a probability", ~((p >= 0) & (p <= 1)), p)
        _refuse("not a weight", ~((w >= 0) & (w <= _LARGEST)), w)
        low_first, place = np.unique(unordered(i, j), return_inverse=True)
        total = np.bincount(place, w, len(low_first))
        total_for_low = np.bincount(place, w * np.where(i < j, p, 1 - p), len(low_first))
        rounded = np.minimum(total, _LARGEST).astype(np.float32)
        has_weight = rounded > 0
        share_for_low: F64 = np.clip(total_for_low[has_weight] / total[has_weight], 0, 1)
        low, high = unpacked(low_first[has_weight])
        key = np.where(share_for_low < 0.5, packed(high, low), low_first[has_weight])
        target = np.maximum(share_for_low, 1 - share_for_low).astype(np.float32)
        order = np.argsort(key)
        return cls.of_keys(key[order], target[order], rounded[has_weight][order])

    @property
    def winner(self) -> I64:
        """(m,) int64 the document of each pair that should be first, in ascending order."""
        return self.key >> 32

    @property
    def loser(self) -> I64:
        """(m,) int64 the document of each pair that should be behind the winner."""
        return self.key & _SECOND

    def __len__(self) -> int:
        return len(self.key)

    def __or__(self, pairs: Pairs) -> Pairs:
        """The pairs of both sets, which have none in common."""
        key = np.concatenate([self.key, pairs.key])
        target = np.concatenate([self.target, pairs.target])
        weight = np.concatenate([self.weight, pairs.weight])
        order = np.argsort(key)
        return Pairs.of_keys(key[order], target[order], weight[order])

    @property
    def sure(self) -> F64:
        """(m,) the weight of each pair in a measure, 0 where the judgements are undecided."""
        sure: F64 = self.weight.astype(np.float64) * (2 * self.target.astype(np.float64) - 1)
        return sure

    def answers_for(self, i: Ints, j: Ints) -> tuple[F32, F32]:
        """(m,) shares of the judgements for document i of pairs (i, j), and their weights.

        A pair that nobody compared has the share NaN and the weight 1.
        """
        share_for_i = np.full(len(i), np.nan, np.float32)
        weight = np.ones(len(i), np.float32)
        if not len(self):
            return share_for_i, weight
        for key, i_is_winner in ((packed(i, j), True), (packed(j, i), False)):
            places = np.minimum(np.searchsorted(self.key, key), len(self) - 1)
            is_judged = self.key[places] == key
            target = self.target[places[is_judged]]
            share_for_i[is_judged] = target if i_is_winner else 1 - target
            weight[is_judged] = self.weight[places[is_judged]]
        return share_for_i, weight

    def where(self, rows: NDArray[Any]) -> Pairs:
        """Select pairs by a mask or by ascending places."""
        return Pairs.of_keys(self.key[rows], self.target[rows], self.weight[rows])

    def renumbered(self, number: I64) -> Pairs:
        """The pairs with new document numbers; a pair of a document with -1 is left out."""
        i, j = number[self.winner], number[self.loser]
        rows = np.flatnonzero((i >= 0) & (j >= 0))
        key = packed(i[rows], j[rows])
        order = np.argsort(key)
        rows = rows[order]
        return Pairs.of_keys(key[order], self.target[rows], self.weight[rows])

    def __repr__(self) -> str:
        return f"Pairs({len(self)})"


def _numbers(name: str, values: ArrayLike | None, like: I64) -> F64:
    """The values as numbers of the same shape as `like`; 1 where there are none."""
    numbers = np.ones(like.shape) if values is None else np.asarray(values, np.float64)
    if numbers.shape != like.shape:
        raise DataError(f"judgements: {like.shape} pairs but {name} has shape {numbers.shape}")
    return numbers


def _refuse(fault: str, is_wrong: NDArray[np.bool_], values: NDArray[Any]) -> None:
    """Refuse judgements with wrong values, naming the first such judgement."""
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise DataError(f"judgement {row}: {fault}: {values[row]}")
