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


def refuse_lost(
    X: NDArray[Any], codes: NDArray[Any], names: Sequence[str] | None, source: str
) -> None:
    """Refuse a table (n, d) with a feature whose differences within queries float32 loses.

    Raises:
        DataError: naming it.

    >>> refuse_lost(np.array([[1.0, 1e9 + 1], [2.0, 1e9 + 2]]), [0, 0], ["length", "time"], "data")
    Traceback (most recent call last):
    ...
    sortnet.errors.DataError: data: column 'time': float32 loses the differences of values as \
large as 1e+09: subtract the smallest one first

    Cost: about 10 nanoseconds per number; nothing for types that float32 holds exactly.
    """
    if np.can_cast(X.dtype, np.float32):
        return
    order = np.argsort(codes, kind="stable")
    same = np.diff(np.asarray(codes)[order]) == 0
    i, j = order[:-1][same], order[1:][same]
    lost, spread, size, largest = np.zeros((4, X.shape[1]))
    rows = max(_AT_ONCE // max(X.shape[1], 1), 1)
    for at in range(0, len(i), rows):
        a, b = (X[which[at : at + rows]].astype(np.float64) for which in (i, j))
        with np.errstate(over="ignore", invalid="ignore"):
            true = b - a
            kept = b.astype(np.float32).astype(np.float64) - a.astype(np.float32)
            lost += _sums(kept - true)
        spread += _sums(true)
        size += _sums(a)
        np.fmax(largest, np.fmax.reduce(np.abs(b), axis=0, initial=0), out=largest)
    bad = np.flatnonzero((spread > _NOISE * size) & (lost > _LOST * spread))
    if len(bad):
        k = bad[0]
        name = f"feature {k + 1}" if names is None else f"column {names[k]!r}"
        raise DataError(
            f"{source}: {name}: float32 loses the differences of values as large as "
            f"{largest[k]:.3g}: subtract the smallest one first"
        )


def _sums(values: _F64) -> _F64:
    sums: _F64 = np.nansum(np.abs(values), axis=0)
    return sums
