"""Rank by the posterior of a preference model, in which scores are linear in the features.

    s = Φw + u,   w ~ N(μ, Σ) given the judged pairs,   u ~ N(0, υ²) for each document
    margin of i over j = E[s_i - s_j] / √(Var[s_i - s_j])

The scores s of the documents depend on the matrix Φ of their scaled features, on weights w and on a
residual u. With few judgements this model learns faster than a net, but it cannot learn scores that
are not linear in the scaled features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from sortnet.config import Config, Settings
from sortnet.core import F32, F64, Array, Margin, Pairs, Progress, Queries
from sortnet.core.pairs import unordered, unpacked
from sortnet.errors import DataError
from sortnet.preference.answers import Answers, choices_of_two
from sortnet.preference.fit import fit_weights
from sortnet.preference.hyperparameters import choose
from sortnet.preference.model import Annotators, Columns, Prior
from sortnet.rankers.base import Ranker, Solved, scaling_setting
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.model import Model
from sortnet.rankers.model_folder import Saved

_SCALINGS_TRIED = ("standard", "normal", "zscore")  # tried if the settings have no scaling
_LEAST_SHARE = 0.3  # least share of the variance that features explain
# The last digits of equal figures may differ, because their terms are added in different orders.
_DECIMALS = 9
_LEAST_VARIANCE = 1e-24  # lower limit of the variance of a difference of two scores


class Posterior(NamedTuple):
    """The posterior of the scores s = Φw + u."""

    mean: F64  # (d,) posterior mean of the weights w of the d features
    draws: F64  # (k, d) k draws of the weights w from the posterior
    residual: float  # υ², variance of a score that the features do not explain


@dataclass(frozen=True, eq=False)
class PosteriorRanker(Ranker):
    """Ranker by expected scores; a margin is E[s_i - s_j] divided by its standard deviation."""

    posterior: Posterior

    def scores(self, queries: Queries) -> F32:
        scores: F32 = (self.scaled(queries).features @ self.posterior.mean).astype(np.float32)
        return scores

    def margins(self, queries: Queries, i: ArrayLike, j: ArrayLike) -> F32:
        """Compute the margins (m,) of documents i over j: E[s_i - s_j] / √(Var[s_i - s_j])."""
        X = self.scaled(queries).features.astype(np.float64)
        margins, _, _ = self.differentiable()(X[np.asarray(i)], X[np.asarray(j)])
        return margins.astype(np.float32)

    def differentiable(self) -> Margin:
        """Return the margin of two scaled documents, with its gradients.

        With the difference d of the features, the mean weights m and the variance V of the drawn
        scores of d, the margin m · d / √V has the gradient m / √V - (m · d) V' / (2 V √V) in d.
        """
        mean, draws, residual = self.posterior
        centred = draws - draws.mean(axis=0)

        def margin(x: F64, y: F64) -> tuple[F64, F64, F64]:
            """Compute E[s_x - s_y] / √(Var[s_x - s_y]) for documents with features x and y."""
            difference = x - y
            deviations = difference @ centred.T
            exact = (deviations**2).mean(axis=1) + 2 * residual
            variance = np.maximum(exact, _LEAST_VARIANCE)[:, None]
            deviation = np.sqrt(variance)
            margins = (difference @ mean)[:, None] / deviation
            d_variance = 2 * deviations @ centred / len(centred)
            d_variance[exact < _LEAST_VARIANCE] = 0  # where the limit holds
            gradient = mean / deviation - margins * d_variance / (2 * variance)
            return margins[:, 0], gradient, -gradient

        return margin

    def learned(self) -> dict[str, Array]:
        """List the arrays of the posterior by name, as `PosteriorSettings.read` reads them."""
        mean, draws, residual = self.posterior
        return {"mean": mean, "draws": draws, "residual": np.array([residual])}


@dataclass(frozen=True)
class PosteriorSettings(Settings):
    """Settings of the ranker by a posterior."""

    kind: ClassVar[str] = "posterior"
    ranker: ClassVar[type[PosteriorRanker]] = PosteriorRanker
    grids = ({"scaling": [*_SCALINGS_TRIED, "query+rank"]},)
    takes_judged: ClassVar[bool] = True
    scaling: str | None = scaling_setting("the best of a few scalings")

    def candidates(self, train: Queries) -> list[Self]:
        """List candidates: a copy for each scaling to try, or these settings if scaling is set."""
        if self.scaling:
            return [self]
        return [self.changed(scaling=scaling) for scaling in _SCALINGS_TRIED]

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Fit the posterior of the weights to the judged pairs of the training queries.

        The validation queries are not used.

        Raises:
            DataError: if `train` has grades and no judged pairs.

        Cost: the choice of hyperparameters from answers about at most 300 documents, and a fit with
        an unknown for each document, see `fit_many`.
        """
        if train.judged is None:
            raise DataError(f"{train.source}: a posterior is learned from judged pairs, not grades")
        progress("fitting the posterior")
        answers = _answers_of_one_annotator(train.judged)
        prior = Prior(Columns(train.features.astype(np.float64)))
        chosen, annotators = choose(
            answers, prior, squares=None, annotators=Annotators.average(1), seed=self.seed
        )
        # A ranker of new documents has features only, so some of the variance is theirs.
        share = max(chosen.share, _LEAST_SHARE)
        prior = replace(chosen, share=share)
        mean, draws = fit_weights(answers, prior, annotators, seed=self.seed)
        posterior = Posterior(mean, draws, prior.variance * (1 - share))
        return posterior, {"answers": len(train.judged)}

    def read(self, saved: Saved, n_columns: int) -> Posterior:
        """Read the posterior of the weights from a model folder."""
        mean = saved.tensors.take("mean", np.float64, n_columns)
        draws = saved.tensors.take("draws", np.float64, None, n_columns)
        residual = saved.tensors.take("residual", np.float64, 1)
        return Posterior(mean, draws, max(float(residual[0]), 0.0))


def _answers_of_one_annotator(pairs: Pairs) -> Answers:
    """Convert judged pairs to answers, as if a single annotator had judged all of them.

    The document with the lower number is shown first. If all winners were first, the fit would find
    that the annotator prefers the first place.
    """
    first, second = unpacked(unordered(pairs.winner, pairs.loser))
    p_winner = pairs.target.astype(np.float64)
    p_first = np.where(first == pairs.winner, p_winner, 1 - p_winner)
    m = len(pairs)
    items = np.column_stack((first, second))
    answers = choices_of_two(items, p_first, np.zeros(m, np.int64))
    return replace(answers, weight=pairs.weight.astype(np.float64))


def better_ranker(train: Queries, vali: Queries, config: Config) -> Ranker:
    """Fit a comparator and a posterior to judged pairs; return the better predictor.

    Args:
        train: queries with judged pairs.
        vali: queries with the judged pairs that are held out.
        config: settings of the comparator; the posterior gets the same seed.

    Raises:
        DataError: if there are too few judged pairs.

    Cost: a training of the comparator, and a second for the posterior.
    """
    net = fit_ranker(train, vali, config)
    assert isinstance(net, Model)
    return better_than_posterior(net, train, vali)


def better_than_posterior(net: Model, train: Queries, vali: Queries) -> Ranker:
    """Fit a posterior to the same judged pairs; return the better of the posterior and `net`.

    Without judged pairs, `net` is returned. `info["kept"]` of the result tells the kind of ranker
    that was kept, the measure, the figures of both rankers and the reason.

    Args:
        net: the comparator, trained on `train` and chosen by `vali`.
        train: the training queries.
        vali: the validation queries, whose judged pairs are predicted.
    """
    rankers: list[Ranker] = [net]
    reason = f"best on the validation queries of iterations 0 to {net.info['iterations'] - 1}"
    if vali.judged is not None:
        rankers.append(fit_ranker(train, vali, PosteriorSettings(seed=net.config.seed)))
        reason = "better on the judgements held out"
    figures = {ranker.config.kind: float(ranker.info["quality"]) for ranker in rankers}
    rounded = {kind: round(figure, _DECIMALS) for kind, figure in figures.items()}
    best = max(rankers, key=lambda ranker: rounded[ranker.config.kind])
    if len(rankers) > 1 and len({*rounded.values()}) == 1:
        reason = "as good as the posterior on the judgements held out"
    choice = {
        "kind": best.config.kind,
        "measure": net.config.rank_quality.name,
        "figures": figures,
        "reason": reason,
    }
    info = {**net.info, "quality": figures[best.config.kind], "kept": choice}
    return replace(best, info=info)
