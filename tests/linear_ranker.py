"""A ranker as somebody adds one: this file, and one row of `KINDS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sortnet.config import COMPARATOR, Settings, setting
from sortnet.rankers.base import Ranker


@dataclass(frozen=True, eq=False)
class Linear(Ranker):
    """Least squares of the grades on the features."""

    w: np.ndarray  # (n_features,) float64

    def scores(self, queries):
        return (self.scaled(queries).features @ self.w).astype(np.float32)

    def learned(self):
        return {"w": self.w}


@dataclass(frozen=True)
class SETTINGS(Settings):
    kind: ClassVar[str] = "linear"
    ranker = Linear
    grids = ({"ridge": [0.1, 10.0]},)
    ridge: float = setting(1.0, "L2 penalty.", COMPARATOR)

    def solve(self, train, vali, progress):
        X = train.features.astype(np.float64)
        return np.linalg.solve(X.T @ X + self.ridge * np.eye(X.shape[1]), X.T @ train.grades), {}

    def read(self, saved, n_columns):
        return saved.tensors.take("w", np.float64, n_columns)
