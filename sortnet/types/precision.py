"""Check that converting features to float32 keeps their differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError

_F64: TypeAlias = NDArray[np.float64]
_I64: TypeAlias = NDArray[np.int64]

_AT_ONCE = 1 << 18  # numbers compared at a time, so that temporaries stay small
_NOISE = 1e-13  # differences this far below the values are float64's own rounding
_LOST = 0.01  # the share of a feature's differences that may be lost


class Differences:
    """How much of the features' differences between consecutive rows of a query float32 loses.

    >>> X = np.array([[1.0, 1e9 + 1], [2.0, 1e9 + 2]])
    >>> seen = Differences(2)
    >>> seen.add(X, *neighbours(np.array([0, 0])))
    >>> seen.refuse(["length", "time"], "data")
    Traceback (most recent call last):
    ...
    sortnet.errors.DataError: data: column 'time': float32 loses the differences of values as \
large as 1e+09: subtract the smallest one first
    """

    def __init__(self, n_features: int) -> None:
        self._sums = np.zeros((4, n_features))

    def add(self, X: NDArray[Any], i: _I64, j: _I64, first: int = 0) -> None:
        """Compare rows i of X with rows j; X holds the features from number `first`.

        Cost: about 10 nanoseconds per number; nothing for types that float32 holds exactly.
        """
        if np.can_cast(X.dtype, np.float32):
            return
        rows = max(_AT_ONCE // max(X.shape[1], 1), 1)
        for at in range(0, len(i), rows):
            a, b = (X[which[at : at + rows]].astype(np.float64) for which in (i, j))
            with np.errstate(over="ignore", invalid="ignore"):
                true = b - a
                kept = b.astype(np.float32).astype(np.float64) - a.astype(np.float32)
                lost = _sums(kept - true)
            largest = np.fmax.reduce(np.abs(b), axis=0, initial=0)
            self.add_sums(np.stack([lost, _sums(true), _sums(a), largest]), first)

    def add_sums(self, sums: _F64, first: int = 0) -> None:
        """Add the (4, m) sums over rows of the features from number `first`.

        They are the differences that float32 loses, the differences, the values, all without
        their signs, and the largest value.
        """
        own = self._sums[:, first : first + sums.shape[1]]
        own[:3] += sums[:3]
        np.fmax(own[3], sums[3], out=own[3])

    def refuse(self, names: Sequence[str] | None, source: str) -> None:
        """Refuse the first feature whose differences are lost.

        Raises:
            DataError: naming it.
        """
        lost, spread, size, largest = self._sums
        bad = np.flatnonzero((spread > _NOISE * size) & (lost > _LOST * spread))
        if len(bad):
            k = bad[0]
            name = f"feature {k + 1}" if names is None else f"column {names[k]!r}"
            raise DataError(
                f"{source}: {name}: float32 loses the differences of values as large as "
                f"{largest[k]:.3g}: subtract the smallest one first"
            )


def refuse_lost(
    X: NDArray[Any], codes: NDArray[Any], names: Sequence[str] | None, source: str
) -> None:
    """Refuse a table (n, d) with a feature whose differences within queries are lost.

    Raises:
        DataError: naming it.
    """
    if np.can_cast(X.dtype, np.float32):
        return
    seen = Differences(X.shape[1])
    seen.add(X, *neighbours(codes))
    seen.refuse(names, source)


def neighbours(codes: NDArray[np.integer[Any]]) -> tuple[_I64, _I64]:
    """Consecutive rows of the same query: the numbers of the first and of the second rows.

    >>> [rows.tolist() for rows in neighbours(np.array([5, 7, 5, 5]))]
    [[0, 2], [2, 3]]
    """
    order = np.argsort(codes, kind="stable")
    same = codes[order[1:]] == codes[order[:-1]]
    return order[:-1][same], order[1:][same]


def _sums(values: _F64) -> _F64:
    sums: _F64 = np.nansum(np.abs(values), axis=0)
    return sums
