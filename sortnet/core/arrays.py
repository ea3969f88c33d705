"""Short names of array types for annotations, and a refusal of arrays that hide values."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError

F32: TypeAlias = NDArray[np.float32]
F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]
I64: TypeAlias = NDArray[np.int64]
Bool: TypeAlias = NDArray[np.bool_]
Str: TypeAlias = NDArray[np.str_]
Ints: TypeAlias = NDArray[np.integer[Any]]
Array: TypeAlias = NDArray[Any]


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
