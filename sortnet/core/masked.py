"""Refuse masked values, whose mask numpy would drop without a word."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortnet.errors import DataError


def refuse_masked(**arrays: Any) -> None:
    """Refuse arrays of `numpy.ma` that hide a value, because numpy reads the number behind a mask.

    Args:
        arrays: {name of an array for the message: the array}; other values are accepted.

    Raises:
        DataError: if a value is masked.

    >>> refuse_masked(y=np.ma.array([1, 2, 3], mask=[0, 1, 0]))
    Traceback (most recent call last):
    sortnet.errors.DataError: y, row 1: the value is masked; leave masked rows out
    """
    for name, values in arrays.items():
        if np.ma.is_masked(values):
            row = np.argwhere(np.ma.getmaskarray(values))[0][0]
            raise DataError(f"{name}, row {row}: the value is masked; leave masked rows out")
