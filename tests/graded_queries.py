"""Graded queries whose grades follow a line in the first two features, but for noise."""

from __future__ import annotations

import numpy as np

from sortnet.core import Queries


def graded(seed: int, n: int = 20, *, size: int = 8, d: int = 3, noise: float = 0.0) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n * size, d)).astype(np.float32)
    truth = X[:, 0] - X[:, 1] + 1 + noise * rng.normal(size=n * size)
    grades = np.clip(np.round(truth), 0, 4).astype(int)
    return Queries.from_arrays(X, grades, group=[size] * n)
