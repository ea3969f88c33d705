"""Pairs of documents, and the one number that each is."""

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
    """(m,) a number for each pair, whichever of the two is first."""
    return packed(np.minimum(i, j), np.maximum(i, j))


def moved(key: I64, by: int) -> I64:
    """Packed pairs of documents whose numbers are higher by some."""
    return key + by * np.int64(2**32 + 1)


def is_in(keys: I64, others: I64) -> NDArray[np.bool_]:
    """(m,) whether each number is one of the others, which are ascending."""
    if not len(others):
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(others, keys)
    at[at == len(others)] = 0
    there: NDArray[np.bool_] = others[at] == keys
    return there


def unique(keys: I64) -> I64:
    """Each of the numbers once, ascending; the array given is sorted too."""
    keys.sort()
    # np.unique would hash first, which takes ten times as long as this sort.
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    once: I64 = keys[new]
    return once


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
        at = int(np.argmax(bad))
        raise DataError(f"pair {at}: documents {i[at]} and {j[at]} are no pair")


class Pairs:
    """Judged pairs of documents of one query, the better one first.

    Each pair is there once, ordered by (winner, loser). See `judged` for judges who are not sure.

    Args:
        winner: (m,) numbers of the documents that are surely better, in any order.
        loser: (m,) document numbers.

    Attributes:
        key: (m,) int64, ascending: winner * 2^32 + loser. (Document numbers fit 31 bits.)
        target: (m,) float32 the share of the judgements for the winner, from ½, a tie, to 1.
        weight: (m,) float32 of the judgements, above 0.

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
        """The pairs of keys that are ascending, each once."""
        pairs = cls.__new__(cls)
        pairs.key, pairs.target, pairs.weight = key, target, weight
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
        """Judgements as pairs; those about the same two documents are added up by their weights.

        The winner is that of more than half of the weight; of a tie the lower number.

        Args:
            better, worse: (m,) document numbers.
            soft: (m,) how probably the first is the better one, 0 to 1; ½ is a tie; None: 1.
            weight: (m,) 0 or more; None: 1. What has no weight is left out.

        Raises:
            DataError: on arrays that do not fit each other, a document compared with itself, a
                probability outside [0, 1] or a weight that is negative or no number.

        >>> known = Pairs.judged([2, 0, 1], [1, 1, 2])
        >>> known.winner.tolist(), known.loser.tolist(), known.target.tolist()
        ([0, 1], [1, 2], [1.0, 0.5])

        Cost: two sorts.
        """
        i, j = (np.asarray(each, np.int64) for each in (better, worse))
        p = _numbers("soft", soft, i)
        w = _numbers("weight", weight, i)
        if i.shape != j.shape or i.ndim != 1:
            raise DataError(f"judgements: {i.shape} better documents but {j.shape} worse ones")
        _refuse("a document compared with itself", i == j, i)
        _refuse("not a probability", ~((p >= 0) & (p <= 1)), p)
        _refuse("not a weight", ~((w >= 0) & (w <= _LARGEST)), w)
        key, place = np.unique(unordered(i, j), return_inverse=True)
        total = np.bincount(place, w, len(key))
        for_low = np.bincount(place, w * np.where(i < j, p, 1 - p), len(key))
        rounded = np.minimum(total, _LARGEST).astype(np.float32)
        some = rounded > 0
        target: F64 = np.clip(for_low[some] / total[some], 0, 1)
        low, high = unpacked(key[some])
        key = np.where(target < 0.5, packed(high, low), key[some])
        order = np.argsort(key)
        share = np.maximum(target, 1 - target).astype(np.float32)
        return cls.of_keys(key[order], share[order], rounded[some][order])

    @property
    def winner(self) -> I64:
        """(m,) int64 the documents that should be first, ascending."""
        return self.key >> 32

    @property
    def loser(self) -> I64:
        """(m,) int64 the documents that should be after them."""
        return self.key & _SECOND

    def __len__(self) -> int:
        return len(self.key)

    def __or__(self, other: Pairs) -> Pairs:
        """The pairs of both sets, which have none in common."""
        key = np.concatenate([self.key, other.key])
        target = np.concatenate([self.target, other.target])
        weight = np.concatenate([self.weight, other.weight])
        order = np.argsort(key)
        return Pairs.of_keys(key[order], target[order], weight[order])

    @property
    def sure(self) -> F64:
        """(m,) how much each counts in a measure: nothing if the judges were undecided."""
        sure: F64 = self.weight.astype(np.float64) * (2 * self.target.astype(np.float64) - 1)
        return sure

    def answers_for(self, i: Ints, j: Ints) -> tuple[F32, F32]:
        """(m,) targets for document i of judged pairs (i, j), NaN if nobody compared them; weights.

        The weight of a pair that nobody compared is 1.
        """
        target, weight = np.full(len(i), np.nan, np.float32), np.ones(len(i), np.float32)
        if len(self):
            for turned, key in enumerate((packed(i, j), packed(j, i))):
                at = np.minimum(np.searchsorted(self.key, key), len(self) - 1)
                there = self.key[at] == key
                for_i = self.target[at[there]]
                target[there] = 1 - for_i if turned else for_i
                weight[there] = self.weight[at[there]]
        return target, weight

    def where(self, rows: NDArray[Any]) -> Pairs:
        """Some of the pairs, by a mask or their places, which ascend."""
        return Pairs.of_keys(self.key[rows], self.target[rows], self.weight[rows])

    def renumbered(self, number: I64) -> Pairs:
        """The pairs by other document numbers; those of documents with -1 are left out."""
        i, j = number[self.winner], number[self.loser]
        kept = np.flatnonzero((i >= 0) & (j >= 0))
        key = packed(i[kept], j[kept])
        order = np.argsort(key)
        made = self.where(kept[order])
        return Pairs.of_keys(key[order], made.target, made.weight)

    def __repr__(self) -> str:
        return f"Pairs({len(self)})"


def _numbers(name: str, values: ArrayLike | None, like: I64) -> F64:
    given = np.ones(like.shape) if values is None else np.asarray(values, np.float64)
    if given.shape != like.shape:
        raise DataError(f"judgements: {like.shape} pairs but {name} has shape {given.shape}")
    return given


def _refuse(what: str, wrong: NDArray[np.bool_], values: NDArray[Any]) -> None:
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(f"judgement {at}: {what}: {values[at]}")
