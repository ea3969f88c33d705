"""Check that converting features to float32 keeps their differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.core.arrays import F64, Bool
from sortnet.errors import DataError

# Differences of at most `_NOISE` times the values themselves come from the rounding of float64.
_NOISE = 1e-13
_LOST = 0.01  # share of a feature's differences that may be lost


def origins_of(
    X: NDArray[Any], codes: NDArray[Any], is_date: Bool, names: Sequence[str] | None, source: str
) -> F64 | None:
    """Choose the number to subtract from each feature before the feature is rounded to float32.

    It is the median of a date that float32 does not hold exactly, and of any other feature whose
    differences within queries float32 loses; otherwise it is 0. The differences are taken between
    neighbouring rows of a query. They are lost if rounding changes them, in sum, by more than 1 %
    of their sum. Differences that are as small as the rounding errors of float64 may be lost.

    Args:
        X: (n, d) features of any number type.
        codes: (n,) the number of each row's query.
        is_date: (d,) whether a feature is a date.
        names: the names of the columns, for the message.
        source: the name of the data, for the message.

    Returns:
        The numbers (d,); None if all are 0.

    Raises:
        DataError: with the name of a feature whose differences are lost even so.

    >>> origins_of(np.array([[1.0, 1e9 + 1], [2.0, 1e9 + 3]]), [0, 0], [False, False], None, "data")
    array([0.e+00, 1.e+09])

    Cost: about 10 nanoseconds per number; nothing for types that float32 holds exactly.
    """
    if np.can_cast(X.dtype, np.float32):
        return None
    origins = np.zeros(X.shape[1])
    order = np.argsort(codes, kind="stable")
    same_query = np.diff(np.asarray(codes)[order]) == 0
    for column in range(X.shape[1]):
        exact = X[order, column].astype(np.float64)
        present = exact[np.isfinite(exact)]
        is_rounded = bool((present.astype(np.float32) != present).any())
        if not is_rounded:
            continue
        if not is_date[column] and not _loses_differences(exact, same_query):
            continue
        origins[column] = np.median(present)
        if _loses_differences(exact - origins[column], same_query):
            name = f"feature {column + 1}" if names is None else f"column {names[column]!r}"
            advice = "leave it out" if names is None else f"--ignore {names[column]} leaves it out"
            raise DataError(
                f"{source}: {name}: float32 loses the differences of values from "
                f"{present.min():.9g} to {present.max():.9g}: {advice}"
            )
    return origins if origins.any() else None


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
