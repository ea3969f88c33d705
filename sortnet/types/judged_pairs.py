"""Judged pairs: what is known of documents that have no grades."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sortnet.errors import DataError

_F32: TypeAlias = NDArray[np.float32]
_F64: TypeAlias = NDArray[np.float64]
_I64: TypeAlias = NDArray[np.int64]
_LARGEST = np.finfo(np.float32).max
_SECOND = np.int64(2**32 - 1)


@dataclass(frozen=True, eq=False)
class JudgedPairs:
    """Pairs of documents that somebody has compared, each once, ascending.

    Attributes:
        key: (m,) first * 2^32 + second, document numbers with first < second.
        target: (m,) float32, the share of the judgements for the first one, a tie being half for
            each: 1 if all prefer it, 0 if all prefer the second.
        weight: (m,) float32 above 0, such as the sum of the judges' reliabilities.

    >>> known = JudgedPairs.of([2, 0, 1], [1, 1, 2])
    >>> known.first.tolist(), known.second.tolist(), known.target.tolist()
    ([0, 1], [1, 2], [1.0, 0.5])
    """

    key: _I64
    target: _F32
    weight: _F32

    @classmethod
    def of(
        cls,
        better: ArrayLike,
        worse: ArrayLike,
        *,
        soft: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> JudgedPairs:
        """Judgements as pairs; those about the same pair are added up by their weights.

        Args:
            better, worse: (m,) document numbers.
            soft: (m,) how probably the first is the better one, 0 to 1; ½ is a tie; None: 1.
            weight: (m,) 0 or more; None: 1. What has no weight is left out.

        Raises:
            DataError: on arrays that do not fit each other, a document compared with itself, a
                probability outside [0, 1] or a weight that is negative or no number.

        Cost: one sort.
        """
        i, j = (np.asarray(each, np.int64) for each in (better, worse))
        p = _numbers("soft", soft, i)
        w = _numbers("weight", weight, i)
        if i.shape != j.shape or i.ndim != 1:
            raise DataError(f"judgements: {i.shape} better documents but {j.shape} worse ones")
        _refuse("a document compared with itself", i == j, i)
        _refuse("not a probability", ~((p >= 0) & (p <= 1)), p)
        _refuse("not a weight", ~((w >= 0) & (w <= _LARGEST)), w)
        low, high = np.minimum(i, j), np.maximum(i, j)
        key, place = np.unique((low << 32) | high, return_inverse=True)
        total = np.bincount(place, w, len(key))
        for_first = np.bincount(place, w * np.where(i < j, p, 1 - p), len(key))
        rounded = np.minimum(total, _LARGEST).astype(np.float32)
        some = rounded > 0
        target = np.clip(for_first[some] / total[some], 0, 1)
        return cls(key[some], target.astype(np.float32), rounded[some])

    def __len__(self) -> int:
        return len(self.key)

    @property
    def first(self) -> _I64:
        """(m,) the documents of the lower numbers, ascending."""
        return self.key >> 32

    @property
    def second(self) -> _I64:
        """(m,) the documents of the higher numbers."""
        return self.key & _SECOND

    @property
    def sure(self) -> _F64:
        """(m,) how much each pair counts in a measure: nothing if the judges were undecided."""
        target, weight = (each.astype(np.float64) for each in (self.target, self.weight))
        decided: _F64 = weight * np.abs(2 * target - 1)
        return decided

    def of_pairs(self, i: NDArray[Any], j: NDArray[Any]) -> tuple[_F32, _F32]:
        """(m,) targets for document i of each pair (i, j), NaN if nobody compared them; weights.

        The weight of a pair that nobody compared is 1.
        """
        if not len(self):
            return np.full(len(i), np.nan, np.float32), np.ones(len(i), np.float32)
        key = (np.minimum(i, j).astype(np.int64) << 32) | np.maximum(i, j)
        at = np.minimum(np.searchsorted(self.key, key), len(self) - 1)
        there = self.key[at] == key
        for_i = np.where(i < j, self.target[at], 1 - self.target[at])
        known = np.where(there, for_i, np.float32(np.nan))
        return known, np.where(there, self.weight[at], np.float32(1))

    def __or__(self, others: JudgedPairs) -> JudgedPairs:
        """These and others, of which none is about the same documents."""
        key, target, weight = (
            np.concatenate((getattr(self, name), getattr(others, name)))
            for name in ("key", "target", "weight")
        )
        order = np.argsort(key)
        return JudgedPairs(key[order], target[order], weight[order])

    def where(self, mask: NDArray[np.bool_]) -> JudgedPairs:
        """Some of the pairs."""
        return JudgedPairs(self.key[mask], self.target[mask], self.weight[mask])

    def renumbered(self, number: _I64) -> JudgedPairs:
        """The pairs by other document numbers; those of documents with -1 are left out.

        Args:
            number: (n_docs,) new numbers, ascending within a query.
        """
        first, second = number[self.first], number[self.second]
        kept = np.flatnonzero((first >= 0) & (second >= 0))
        key = (first[kept] << 32) | second[kept]
        order = np.argsort(key)
        kept = kept[order]
        return JudgedPairs(key[order], self.target[kept], self.weight[kept])


def _numbers(name: str, values: ArrayLike | None, like: _I64) -> _F64:
    given = np.ones(like.shape) if values is None else np.asarray(values, np.float64)
    if given.shape != like.shape:
        raise DataError(f"judgements: {like.shape} pairs but {name} has shape {given.shape}")
    return given


def _refuse(what: str, wrong: NDArray[np.bool_], values: NDArray[Any]) -> None:
    if wrong.any():
        at = int(np.argmax(wrong))
        raise DataError(f"judgement {at}: {what}: {values[at]}")
