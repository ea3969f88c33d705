"""A ranker as somebody adds one: this file, and one row of `KINDS`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from sortnet.config import COMPARATOR, Settings, setting
from sortnet.rankers.base import Ranker, check_graded


@dataclass(frozen=True)
class SETTINGS(Settings):
    kind: ClassVar[str] = "linear"
    ridge: float = setting(1.0, "L2 penalty.", COMPARATOR)


@dataclass(frozen=True, eq=False)
class Linear(Ranker):
    """Least squares of the grades on the features."""

    w: np.ndarray  # (n_features,) float64

    @property
    def n_features(self):
        return len(self.w)

    def scores(self, queries):
        self.check_features(queries)
        return (queries.features @ self.w).astype(np.float32)

    def tensors(self):
        return {"w": torch.from_numpy(self.w)}


def fit(train, vali, config, *, progress=lambda text: None):
    check_graded(train, config)
    X = train.features.astype(np.float64)
    w = np.linalg.solve(X.T @ X + config.ridge * np.eye(X.shape[1]), X.T @ train.grades)
    return Linear(config, w, feature_names=train.feature_names)


def load(saved):
    w = saved.take("w", torch.float64, saved.n_features).numpy()
    settings = saved.settings(SETTINGS)
    return Linear(settings, w, feature_names=saved.feature_names, info=saved.info)


def grids_for(train):
    return [{"ridge": [0.1, 10.0]}]
