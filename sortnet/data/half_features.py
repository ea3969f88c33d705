"""Scaled features of large data in float16, which takes half the memory of float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sortnet.core import F32, I64
from sortnet.core.large_arrays import allocate


@dataclass(frozen=True, eq=False)
class HalfFeatures:
    """Features stored in float16; `features[rows]` returns float32.

    Attributes:
        values: (n, d) the features.

    >>> features = HalfFeatures(np.array([[1.0], [0.1]], np.float16))
    >>> features[1:], len(features)
    (array([[0.09997559]], dtype=float32), 2)
    """

    values: NDArray[np.float16]

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.values.shape
        return n, d

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | I64) -> F32:
        """Features (m, d) of documents, selected by a slice or by document numbers."""
        values = self.values[rows]
        out: F32 = allocate(values.shape)
        out[:] = values
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Convert all features to one array."""
        return self[:].astype(dtype or np.float32, copy=False)

    @property
    def as_features(self) -> F32:
        """This object declared as a float32 array, for functions that accept only arrays."""
        return cast(F32, self)
