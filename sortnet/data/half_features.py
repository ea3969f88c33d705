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
        values: (n_docs, n_features) the features.

    >>> features = HalfFeatures(np.array([[1.0], [0.1]], np.float16))
    >>> features[1:], len(features)
    (array([[0.09997559]], dtype=float32), 2)
    """

    values: NDArray[np.float16]

    @property
    def shape(self) -> tuple[int, int]:
        n_docs, n_features = self.values.shape
        return n_docs, n_features

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice | I64) -> F32:
        """Convert the features of some documents, a slice or an array of numbers, to float32."""
        halves = self.values[rows]
        features: F32 = allocate(halves.shape)
        features[:] = halves
        return features

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Convert all features to one array."""
        return self[:].astype(dtype or np.float32, copy=False)

    @property
    def as_features(self) -> F32:
        """This object, declared as a float32 array, so that type checkers accept it as an array."""
        return cast(F32, self)
