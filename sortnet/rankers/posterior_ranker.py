"""The posterior of a preference model as a ranker: scores linear in the features, with spreads.

    s = Φw + u,   w ~ N(μ, Σ) given the judged pairs,   u ~ N(0, υ²) for each document
    margin of i over j = E[s_i - s_j] / √(Var[s_i - s_j])

With features and few judgements it learns faster than a net; what is not linear in the scaled
features it cannot learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sortnet.comparators import Margin
from sortnet.config import COMPARATOR, SCALINGS, Settings, setting
from sortnet.data.scaling import fit_scaler
from sortnet.errors import DataError
from sortnet.preference.laplace import fit as fit_scores
from sortnet.preference.vote_arrays import Votes
from sortnet.rankers.base import ScaledRanker
from sortnet.rankers.folder import Saved
from sortnet.rankers.weights import scaler_tensors, take_scaler
from sortnet.types import F32, F64, I64, JudgedPairs, Progress, Queries


@dataclass(frozen=True)
class PosteriorSettings(Settings):
    """Settings of the posterior."""

    kind: ClassVar[str] = "posterior"
    scaling: str | None = setting(
        None,
        f"Scaling, parts of {', '.join(SCALINGS)} joined by +; default: the best of a few.",
        COMPARATOR,
    )


MENU = ("standard", "normal", "zscore")  # tried where the scaling is open
SETTINGS = PosteriorSettings


@dataclass(frozen=True, eq=False)
class Scores:
    """A comparator: documents by their features, compared by the posterior.

    Attributes:
        mean: (d,) of the weights w.
        draws: (k, d) of w, from the posterior.
        residual: υ², what the features do not tell of a document.
    """

    mean: F64
    draws: F64
    residual: float

    def prepare(self, X: F32) -> F64:
        """(n, 1 + k) expected scores, and those of each draw."""
        weights = np.vstack((self.mean, self.draws))
        scores: F64 = X.astype(np.float64) @ weights.T
        return scores

    def prefer(self, prepared: F64, i: I64, j: I64) -> F32:
        """(m,) expected differences over their standard deviations."""
        difference = prepared[i] - prepared[j]
        spread = np.sqrt(difference[:, 1:].var(axis=1) + 2 * self.residual)
        margin: F32 = (difference[:, 0] / np.maximum(spread, 1e-12)).astype(np.float32)
        return margin


@dataclass(frozen=True, eq=False)
class PosteriorRanker(ScaledRanker):
    """Ranks by expected scores; a margin is an expected difference over its spread."""

    comparator: Scores

    def scores(self, queries: Queries) -> F32:
        self.check_features(queries)
        scores: F32 = (self.scaler(queries).features @ self.comparator.mean).astype(np.float32)
        return scores

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        self.check_features(queries)
        prepared = self.comparator.prepare(self.scaler(queries).features)
        return self.comparator.prefer(prepared, np.asarray(i), np.asarray(j))

    def differentiable(self, queries: Queries) -> tuple[F64, Margin, I64]:
        mean, draws = (torch.from_numpy(w) for w in (self.comparator.mean, self.comparator.draws))
        residual = self.comparator.residual

        def margin(x: Tensor, y: Tensor) -> Tensor:
            difference = x - y
            spread = (difference @ draws.T).var(dim=-1, correction=0) + 2 * residual
            return (difference @ mean) / spread.clamp_min(1e-24).sqrt()

        return self.scaler(queries).features.astype(np.float64), margin, self.scaler.sources

    def tensors(self) -> dict[str, Tensor]:
        named = {
            "mean": self.comparator.mean,
            "draws": self.comparator.draws,
            "residual": np.array([self.comparator.residual]),
        }
        return {name: torch.from_numpy(w) for name, w in named.items()} | scaler_tensors(
            self.scaler
        )


def fit(
    train: Queries,
    vali: Queries,
    config: PosteriorSettings,
    *,
    callbacks: Sequence[Callable[..., Any]] = (),
    progress: Progress = lambda text: None,
) -> PosteriorRanker:
    """The posterior of the training part's judged pairs; `vali` chooses a scaling left open.

    Raises:
        DataError: if the data are graded, not judged pairs.

    Cost: see `sortnet.preference.laplace.fit`; there is an unknown for each document.
    """
    if train.judged is None:
        raise DataError(f"{train.source}: a posterior is learned from judged pairs, not grades")
    if config.scaling is None:
        tried = (fit(train, vali, config.changed(scaling=each), progress=progress) for each in MENU)
        return max(tried, key=lambda ranker: ranker.info["quality"])
    progress("fitting the posterior")
    scaler = fit_scaler(config.scaling, train, seed=config.seed)
    features = scaler(train).features.astype(np.float64)
    weights = fit_scores(features, _votes(train.judged), 1, seed=config.seed).weights
    ranker = PosteriorRanker(
        config,
        scaler=scaler,
        comparator=Scores(weights.mean, weights.draws, weights.residual),
        feature_names=train.feature_names,
    )
    found = config.quality_of(vali, ranker.order(vali))
    return replace(ranker, info={"answers": len(train.judged), "quality": found})


def _votes(known: JudgedPairs) -> Votes:
    """Soft targets as answers of one annotator: p wins and 1 - p losses; an even one is a tie."""
    p, tied = known.target.astype(np.float64), known.target == 0.5
    targets = [np.full(len(p), answer) for answer in (0.5, 1.0, 0.0)]
    weights = [np.where(tied, 1, 0), np.where(tied, 0, p), np.where(tied, 0, 1 - p)]
    weight = (np.stack(weights) * known.weight.astype(np.float64)).ravel()
    left, right = np.tile(known.first, 3), np.tile(known.second, 3)
    none = np.zeros(len(weight), np.int64)
    return Votes(left, right, np.concatenate(targets), none, weight).where(weight > 0)


def load(saved: Saved) -> PosteriorRanker:
    """The posterior in a folder."""
    config = saved.settings(PosteriorSettings)
    scaler = take_scaler(saved, str(config.scaling))
    d = scaler.n_columns
    draws = saved.tensors.get("draws")
    k = len(draws) if draws is not None and draws.ndim == 2 else 0
    mean = saved.take("mean", torch.float64, d).numpy()
    drawn = saved.take("draws", torch.float64, k, d).numpy()
    residual = float(saved.take("residual", torch.float64, 1)[0])
    comparator = Scores(mean, drawn, max(residual, 0.0))
    return PosteriorRanker(
        config,
        scaler=scaler,
        comparator=comparator,
        feature_names=saved.feature_names,
        info=saved.info,
    )


def grids_for(train: Queries) -> list[dict[str, list[Any]]]:
    """What `tune` tries where no grid is given."""
    return [{"scaling": [*MENU, "query+rank"]}]
