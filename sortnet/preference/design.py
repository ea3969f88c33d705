"""Design matrix of the model: standardised, heavy tails transformed, nothing missing."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sortnet.core import F64
from sortnet.errors import DataError

_TAIL = 4.0  # standard deviations from the mean, at most


def design(features: ArrayLike | None, n_items: int | None = None) -> F64:
    """Standardise (n, d) features: return (n, d') columns of mean 0 and variance 1.

    A missing value becomes the mean. A column with a value further than four standard deviations
    from its mean is replaced by normal scores of its ranks. Constant columns are dropped.

    Raises:
        DataError: on fewer than two items, or an infinite number.

    >>> design([[1.0, 5.0], [3.0, 5.0]])
    array([[-1.],
           [ 1.]])

    Cost: one sort per column.
    """
    X = np.empty((n_items or 0, 0)) if features is None else np.array(features, np.float64)
    if len(X) < 2:
        raise DataError(f"there must be two items to compare, got {len(X)}")
    if n_items is not None and n_items != len(X):
        raise DataError(f"{n_items} items but {len(X)} rows of features")
    if np.isinf(X).any():
        item, column = np.argwhere(np.isinf(X))[0]
        raise DataError(f"item {item}, feature {column + 1}: {X[item, column]} is not finite")
    columns = [column for column in map(_column, X.T) if column is not None]
    if not columns:
        return np.empty((len(X), 0))
    return np.ascontiguousarray(np.stack(columns, axis=1))


def _column(x: F64) -> F64 | None:
    """Make a column of the design matrix from a feature; None if the feature is constant."""
    is_present = ~np.isnan(x)
    values = x[is_present]
    if not len(values) or values.min() == values.max():
        return None
    values = _standard(values)
    if np.abs(values).max() > _TAIL:
        from scipy.stats import rankdata  # imported here: it takes half a second, and is rare

        values = _standard(ndtri((rankdata(values) - 0.5) / len(values)))
    column = np.zeros(len(x))
    column[is_present] = values
    return column


def _standard(x: F64) -> F64:
    """Shift and scale the values to mean 0 and variance 1."""
    standard: F64 = (x - x.mean()) / x.std()
    return standard
