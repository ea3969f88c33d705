"""Make the design matrix of a session's features: standardised, and without missing values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from sortnet.core import F64
from sortnet.errors import DataError

_TAIL = 4.0  # largest distance from the mean, in standard deviations, without a transformation


def design(features: ArrayLike | None, n_items: int | None = None) -> F64:
    """Standardise features: return columns of mean 0 and variance 1, one row for each item.

    A missing value becomes the mean. If a column has a value further than four standard deviations
    from the mean, the values are replaced by normal scores of their ranks. Constant columns are
    dropped.

    Args:
        features: (n, d) the features, NaN where a value is missing. If None, there are no features.
        n_items: the number of items n, which must be given if there are no features.

    Raises:
        DataError: if there are fewer than two items, if the number of rows is not `n_items`, or if
            a value is infinite.

    >>> design([[1.0, 5.0], [3.0, 5.0]])
    array([[-1.],
           [ 1.]])

    Cost: one sort per column.
    """
    if features is None:
        n_rows = 0 if n_items is None else n_items
        X = np.empty((n_rows, 0))
    else:
        X = np.array(features, np.float64)
    if len(X) < 2:
        raise DataError(f"there must be two items to compare, got {len(X)}")
    if n_items is not None and n_items != len(X):
        raise DataError(f"{n_items} items but {len(X)} rows of features")
    if np.isinf(X).any():
        item, column = np.argwhere(np.isinf(X))[0]
        raise DataError(f"item {item}, feature {column + 1}: {X[item, column]} is not finite")
    columns = [column for column in map(_standardise_column, X.T) if column is not None]
    if not columns:
        return np.empty((len(X), 0))
    return np.ascontiguousarray(np.stack(columns, axis=1))


def _standardise_column(x: F64) -> F64 | None:
    """Make a column of the design matrix from a feature; return None if the feature is constant."""
    is_present = ~np.isnan(x)
    values = x[is_present]
    if not len(values) or values.min() == values.max():
        return None
    values = _standardise(values)
    if np.abs(values).max() > _TAIL:
        from scipy.stats import rankdata  # imported here: it takes half a second, and is rare

        normal_scores = ndtri((rankdata(values) - 0.5) / len(values))
        values = _standardise(normal_scores)
    column = np.zeros(len(x))
    column[is_present] = values
    return column


def _standardise(x: F64) -> F64:
    """Shift and scale values to mean 0 and variance 1."""
    standardised: F64 = (x - x.mean()) / x.std()
    return standardised
