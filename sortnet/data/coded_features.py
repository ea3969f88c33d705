"""Scaled features of large data, a byte for each value in place of four.

A column's values are divided into at most 256 bins of about as many documents each, as boosted
trees do it. A document keeps the number of its bin, and is read with the mean of the bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sortnet.types import F32, I64
from sortnet.types.memory import room

U8 = NDArray[np.uint8]

CODES = 256
_SIDE_BY_SIDE = 64  # values that are searched for among the edges


@dataclass(frozen=True, eq=False)
class Codebook:
    """The bins of each column.

    Attributes:
        edges: (d, 255) the upper edge of each bin but the last, ascending; infinite where a
            column has fewer bins.
        values: (d, 256) the value of each bin.
    """

    edges: F32
    values: F32

    @classmethod
    def of(cls, sample: F32) -> Codebook:
        """The bins of a sample of documents, (n, d); a column of at most 256 values is exact.

        >>> codebook = Codebook.of(np.array([[0.5], [2.0], [0.5], [1.0]], np.float32))
        >>> codes = np.empty((3, 1), np.uint8)
        >>> codebook.encode(np.array([[1.0], [9.0], [0.6]], np.float32), 0, codes)
        >>> CodedFeatures(codes, codebook.values)[:].tolist()
        [[1.0], [2.0], [0.5]]

        Cost: a sort of every column.
        """
        n, d = sample.shape
        edges = np.full((d, CODES - 1), np.inf, np.float32)
        values = np.zeros((d, CODES), np.float32)
        places = np.arange(1, CODES) * n // CODES
        for column in range(d if n else 0):
            x = np.sort(sample[:, column]).astype(np.float64)  # in which no sum overflows
            starts = np.flatnonzero(np.diff(x)) + 1
            if len(starts) >= CODES:
                starts = np.unique(np.searchsorted(x, x[places]))
                starts = starts[starts > 0]
            below, above = x[starts - 1], x[starts]
            middle = ((below + above) / 2).astype(np.float32)
            edges[column, : len(starts)] = np.where(middle < above, middle, below)
            starts = np.append(0, starts)
            counts = np.diff(np.append(starts, n))
            sums = np.add.reduceat(x, starts)
            values[column, : len(starts)] = sums / counts
        return cls(edges, values)

    def encode(self, X: F32, first: int, codes: U8) -> None:
        """Fill the codes of some columns, of which `first` is the first one.

        Cost: a binary search for each value.
        """
        _fill_codes(X, self.edges[first : first + X.shape[1]], codes)


@dataclass(frozen=True, eq=False)
class CodedFeatures:
    """Features that are decoded where they are read: `[rows]` gives an array of float32.

    Attributes:
        codes: (n, d) the bin of each value.
        values: (d, 256) the value of each bin.
    """

    codes: U8
    values: F32

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.codes.shape
        return n, d

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | I64) -> F32:
        """(m, d) the features of some documents, by a slice or their numbers."""
        docs = np.arange(len(self))[rows] if isinstance(rows, slice) else np.asarray(rows)
        out: F32 = room((len(docs), self.codes.shape[1]))
        _fill_values(self.codes, docs, self.values, out)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All features, for a reader that wants them as one array."""
        return self[:].astype(dtype or np.float32, copy=False)

    @property
    def as_features(self) -> F32:
        """Itself, typed as the array that readers of rows take it for."""
        return cast(F32, self)


@njit(cache=True, nogil=True)
def _fill_codes(X: F32, edges: F32, codes: U8) -> None:
    """The number of edges below each value, by binary searches side by side: no search waits for
    the comparisons of another search."""
    counts = np.empty(_SIDE_BY_SIDE, np.int64)
    x = np.zeros(_SIDE_BY_SIDE, X.dtype)
    for column in range(X.shape[1]):
        ascending = edges[column]
        for first in range(0, len(X), _SIDE_BY_SIDE):
            n = min(_SIDE_BY_SIDE, len(X) - first)
            for row in range(n):
                x[row] = X[first + row, column]
            counts[:] = 0
            half = (len(ascending) + 1) // 2
            while half > 0:
                for k in range(_SIDE_BY_SIDE):
                    counts[k] += half * (ascending[counts[k] + half - 1] < x[k])
                half //= 2
            for row in range(n):
                codes[first + row, column] = counts[row]


@njit(cache=True, nogil=True)
def _fill_values(codes: U8, docs: I64, values: F32, out: F32) -> None:
    for row in range(len(docs)):
        doc = docs[row]
        for column in range(codes.shape[1]):
            out[row, column] = values[column, codes[doc, column]]
