"""Convert features to float32 without losing their differences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sortnet.core.arrays import F32, F64, Array, Bool
from sortnet.errors import DataError

# Differences of at most `_NOISE` times the values themselves come from the rounding of float64.
_NOISE = 1e-13
_LOST = 0.01  # share of a feature's differences that may be lost


def origins_of_dates(X: Array, is_date: Bool) -> F64 | None:
    """Choose the number of days that each date is counted from before it is rounded to float32.

    It is the median of the date, so that differences of seconds remain near the median; and 0 for
    other features, and for dates that float32 holds exactly.

    Args:
        X: (n, d) features of any number type.
        is_date: (d,) whether a feature is a date, a number of days.

    Returns:
        The numbers (d,); None if all are 0.

    >>> origins_of_dates(np.array([[1e9, 20_000.1], [2e9, 20_000.2]]), np.array([False, True]))
    array([    0.  , 20000.15])
    """
    origins = np.zeros(X.shape[1])
    for column in np.flatnonzero(is_date):
        days = X[:, column]
        if not _is_float32(days):
            origins[column] = np.nanmedian(days)
    return origins if origins.any() else None


def shortened(X: F64, is_date: Bool) -> F32 | F64:
    """Round features (n, d) to float32, unless this would change a date, a number of days.

    >>> shortened(np.array([[0.1, 20_000.5]]), np.array([False, True])).dtype
    dtype('float32')
    """
    are_exact = all(_is_float32(X[:, column]) for column in np.flatnonzero(is_date))
    return X.astype(np.float32) if are_exact else X


def _is_float32(x: Array) -> bool:
    """Whether float32 holds all numbers exactly, or they are missing."""
    return np.array_equal(x.astype(np.float32), x, equal_nan=True)


def refuse_lost(X: Array, codes: Array, names: Sequence[str] | None, source: str) -> None:
    """Raise DataError if float32 loses the differences of a feature within queries.

    The differences are taken between neighbouring rows of a query. They are lost if rounding
    changes them, in sum, by more than 1 % of their sum. Differences that are as small as the
    rounding errors of float64 may be lost.

    Args:
        X: (n, d) features of any number type.
        codes: (n,) the number of each row's query.
        names: the names of the columns, for the message.
        source: the name of the data, for the message.

    Raises:
        DataError: with the name of the feature.

    >>> refuse_lost(np.array([[1.0, 1e9 + 1], [2.0, 1e9 + 2]]), [0, 0], ["length", "time"], "data")
    Traceback (most recent call last):
    ...
    sortnet.errors.DataError: data: column 'time': float32 loses the differences of values as \
large as 1e+09: subtract the smallest one first, or --ignore time leaves it out

    Cost: about 10 nanoseconds per number; nothing for types that float32 holds exactly.
    """
    if np.can_cast(X.dtype, np.float32):
        return
    order = np.argsort(codes, kind="stable")
    same_query = np.diff(np.asarray(codes)[order]) == 0
    for column in range(X.shape[1]):
        exact = X[order, column].astype(np.float64)
        largest = np.nanmax(np.abs(exact), initial=0.0)
        if largest > np.finfo(np.float32).max:
            continue  # no finite number of float32, which is refused with its row
        if _loses_differences(exact, same_query):
            name = f"feature {column + 1}"
            advice = "subtract the smallest one first"
            if names is not None:
                name = f"column {str(names[column])!r}"
                advice += f", or --ignore {names[column]} leaves it out"
            raise DataError(
                f"{source}: {name}: float32 loses the differences of values as large as "
                f"{largest:.3g}: {advice}"
            )


def _loses_differences(exact: F64, same_query: Bool) -> bool:
    """Check whether float32 loses the differences between neighbouring values of a feature.

    They are lost if rounding changes them, in sum, by more than 1 % of their sum. Differences that
    are as small as the rounding errors of float64 do not matter.

    Args:
        exact: (n,) the values of the feature, query by query.
        same_query: (n - 1,) whether a value and the next value belong to the same query.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        differences = np.diff(exact)[same_query]
        rounded = exact.astype(np.float32).astype(np.float64)
        errors = np.diff(rounded)[same_query] - differences
    total_difference = np.nansum(np.abs(differences))
    total_error = np.nansum(np.abs(errors))
    total_of_values = np.nansum(np.abs(exact[:-1][same_query]))
    is_noise = total_difference <= _NOISE * total_of_values
    return not is_noise and bool(total_error > _LOST * total_difference)
