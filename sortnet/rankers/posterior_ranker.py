"""Rank by the posterior of a preference model, in which scores are linear in the features.

    s = Φw + u,   w ~ N(μ, Σ) given the judged pairs,   u ~ N(0, υ²) for each document
    margin of i over j = E[s_i - s_j] / √(Var[s_i - s_j])

The scores s of the documents depend on the matrix Φ of their scaled features, on weights w and on a
residual u. With few judgements this model learns faster than a net, but it cannot learn scores that
are not linear in the scaled features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sortnet.config import Settings
from sortnet.core import F32, F64, I64, Pairs, Progress, Queries
from sortnet.core.pairs import unordered, unpacked
from sortnet.errors import DataError
from sortnet.preference.laplace import fit as fit_scores
from sortnet.preference.vote_arrays import Votes
from sortnet.rankers.base import Ranker, scaling_setting
from sortnet.rankers.model_folder import Array, Saved

if TYPE_CHECKING:
    from torch import Tensor

    from sortnet.comparators.base import Margin

_SCALINGS_TRIED = ("standard", "normal", "zscore")  # tried if the settings have no scaling
_LEAST_SPREAD = 1e-12  # lower limit of the standard deviation of a difference


@dataclass(frozen=True, eq=False)
class Scores:
    """A comparator that compares documents by the posterior of their scores."""

    mean: F64  # (d,) posterior mean of the weights w of the d features
    draws: F64  # (k, d) k draws of the weights w from the posterior
    residual: float  # υ², variance of a score that the features do not explain

    def prepare(self, X: F32) -> F64:
        """Compute scores (n, 1 + k) of n documents: expected scores, then scores of each draw."""
        weights = np.vstack((self.mean, self.draws))
        scores: F64 = X.astype(np.float64) @ weights.T
        return scores

    def prefer(self, prepared: F64, i: I64, j: I64) -> F32:
        """Compute the margins (m,) of documents i over j: E[s_i - s_j] / √(Var[s_i - s_j])."""
        differences = prepared[i] - prepared[j]  # (m, 1 + k)
        variance = differences[:, 1:].var(axis=1) + 2 * self.residual
        spread = np.maximum(np.sqrt(variance), _LEAST_SPREAD)
        margin: F32 = (differences[:, 0] / spread).astype(np.float32)
        return margin


@dataclass(frozen=True, eq=False)
class PosteriorRanker(Ranker):
    """Ranker by expected scores; a margin is E[s_i - s_j] divided by its standard deviation."""

    comparator: Scores

    def scores(self, queries: Queries) -> F32:
        scores: F32 = (self.scaled(queries).features @ self.comparator.mean).astype(np.float32)
        return scores

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """Compute the margins (m,) of documents i over documents j, see `Scores.prefer`."""
        prepared = self.comparator.prepare(self.scaled(queries).features)
        return self.comparator.prefer(prepared, np.asarray(i), np.asarray(j))

    def differentiable(self) -> Margin:
        """Return the margin of two scaled documents as a torch function."""
        import torch

        mean = torch.from_numpy(self.comparator.mean)
        draws = torch.from_numpy(self.comparator.draws)
        residual = self.comparator.residual

        def margin(x: Tensor, y: Tensor) -> Tensor:
            """Compute E[s_x - s_y] / √(Var[s_x - s_y]) for documents with features x and y."""
            difference = x - y
            variance = (difference @ draws.T).var(dim=-1, correction=0) + 2 * residual
            # The limit is applied before the root, because the root has no gradient at 0.
            return (difference @ mean) / variance.clamp_min(1e-24).sqrt()

        return margin

    def learned(self) -> dict[str, Array]:
        """List the arrays of the posterior by name, as `PosteriorSettings.read` reads them."""
        scores = self.comparator
        residual = np.array([scores.residual])
        return {"mean": scores.mean, "draws": scores.draws, "residual": residual}


@dataclass(frozen=True)
class PosteriorSettings(Settings):
    """Settings of the ranker by a posterior."""

    kind: ClassVar[str] = "posterior"
    ranker: ClassVar[type[PosteriorRanker]] = PosteriorRanker
    grids = ({"scaling": [*_SCALINGS_TRIED, "query+rank"]},)
    takes_judged: ClassVar[bool] = True
    scaling: str | None = scaling_setting("the best of a few scalings")

    def candidates(self, train: Queries) -> list[Self]:
        """List the settings to fit: one for each scaling to try if the scaling is left open."""
        if self.scaling:
            return [self]
        return [self.changed(scaling=scaling) for scaling in _SCALINGS_TRIED]

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[Scores, dict[str, Any]]:
        """Fit the posterior of the weights to the judged pairs of the training queries T.

        The validation queries V are not used.

        Raises:
            DataError: if T has grades and no judged pairs.

        Cost: see `sortnet.preference.laplace.fit`; the fit has an unknown for each document.
        """
        if T.judged is None:
            raise DataError(f"{T.source}: a posterior is learned from judged pairs, not grades")
        progress("fitting the posterior")
        features = T.features.astype(np.float64)
        weights = fit_scores(features, _votes(T.judged), 1, seed=self.seed).weights
        return Scores(weights.mean, weights.draws, weights.residual), {"answers": len(T.judged)}

    def read(self, saved: Saved, n_columns: int) -> Scores:
        """Read the posterior of the weights from a model folder."""
        # `take` refuses draws that do not have two dimensions, whatever their number here.
        unchecked = saved.tensors.get("draws")
        n_draws = len(unchecked) if unchecked is not None and unchecked.ndim == 2 else 0
        mean = saved.take("mean", np.float64, n_columns)
        draws = saved.take("draws", np.float64, n_draws, n_columns)
        residual = saved.take("residual", np.float64, 1)
        return Scores(mean, draws, max(float(residual[0]), 0.0))


def _votes(pairs: Pairs) -> Votes:
    """Convert judged pairs to the votes of one annotator.

    A target p, the probability that the winner is better, becomes p wins and 1 - p losses of the
    winner, or a tie if p is ½.
    """
    # The document with the lower number is put on the left. If all winners were on the left, the
    # fit would find that the annotator prefers the left side.
    left, right = unpacked(unordered(pairs.winner, pairs.loser))
    # Each pair becomes a tie, a win and a loss, and votes without weight are left out.
    is_tie = pairs.target == 0.5
    p_winner = pairs.target.astype(np.float64)
    p_left = np.where(left == pairs.winner, p_winner, 1 - p_winner)
    ties = np.where(is_tie, 1, 0)
    wins = np.where(is_tie, 0, p_left)
    losses = np.where(is_tie, 0, 1 - p_left)
    answer = np.repeat([0.5, 1.0, 0.0], len(pairs))
    weight = (np.stack([ties, wins, losses]) * pairs.weight.astype(np.float64)).ravel()
    annotator = np.zeros(len(weight), np.int64)
    votes = Votes(np.tile(left, 3), np.tile(right, 3), answer, annotator, weight)
    return votes.where(weight > 0)
