"""Scores from answers: features, residuals of items, biases and reliability of annotators."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from sortnet.core import F64, I64
from sortnet.metrics import is_gain
from sortnet.preference.likelihood import MOST_PROBIT
from sortnet.preference.matching import (
    left_out,
    likely_priors,
    matched_annotators,
    matched_measurements,
    matched_prior,
    matched_scales,
    matched_shared,
    measures_alone,
)
from sortnet.preference.posterior import Draws, Posterior
from sortnet.preference.problem import PriorFit, Problem
from sortnet.preference.reliability import Annotators
from sortnet.preference.scales import SHARED, UNKNOWN, Prior, Scales, first_guess
from sortnet.preference.vote_arrays import MODEL, Votes
from sortnet.threads import one_blas_thread

DRAWS = 48
_MANY_DRAWS = 256  # number of draws if draws are cheap
MANY = 20_000  # with more items, items without answers are left out of the equations
_ROUNDS = 12  # rounds of fitting the scales to the answers, at most
_SETTLED = 0.02  # relative change of the variance below which no more rounds are needed
_PLENTY = 200_000  # answers by which the scales are chosen, at most
_FEWER = 20_000  # answers by which models are compared with each other, at most
_ENOUGH = 20  # with fewer measurements an annotator's measurements are not tested against words
_BETTER = 1.0  # standard errors by which words must predict better than measurements
_FIRST_TIE = 0.3  # tie threshold before any answer, if somebody calls a pair alike
# Variance of the errors that models share, relative to the variance of the scores, while nothing
# has measured it. It grows from `_UNMEASURED` towards `SHARED` with the number of outside answers,
# which people gave or which are known. At `_OUTSIDE_ANSWERS` answers it is half of `SHARED`. So the
# first outside answers cost hardly any certainty.
_UNMEASURED = 0.003
_OUTSIDE_ANSWERS = 10.0
_DIFFERING = 0.05  # the variance from which the differences between models are matched


@dataclass(frozen=True, eq=False)
class Weights:
    """Scores of items that nobody has compared: s = Φw + u with u ~ N(0, υ²).

    Attributes:
        mean: (d,) expected weights w.
        draws: (k, d) draws of w.
        residual: υ².
    """

    mean: F64
    draws: F64
    residual: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit: the posterior, and the mode as the start of the next fit."""

    posterior: Posterior
    theta: F64  # (d + n + a,) the mode: weights, residuals, biases
    weights: Weights

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fit as arrays by name, without the scales; see `from_arrays`."""
        posterior = self.posterior
        rng_state = json.dumps(posterior.rng.bit_generator.state)
        arrays = {
            "mean": posterior.mean,
            "draws": posterior.draws,
            "rng": np.frombuffer(rng_state.encode(), np.uint8),
            "theta": self.theta,
            "weights": self.weights.mean,
            "weight_draws": self.weights.draws,
        }
        if posterior.covariance is not None:
            arrays["covariance"] = posterior.covariance
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n: int, scales: Scales) -> Fitted:
        """Rebuild a fit of n items from its `arrays` and its scales."""
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(arrays["rng"].tobytes())
        n_annotators = len(arrays["theta"]) - len(arrays["weights"]) - n
        scales = scales.padded(n_annotators)
        covariance = arrays.get("covariance")
        posterior = _posterior(arrays["mean"], covariance, arrays["draws"], n, rng, scales)
        weights = Weights(arrays["weights"], arrays["weight_draws"], scales.residual)
        return cls(posterior, arrays["theta"], weights)


@one_blas_thread()
def fit(
    features: F64,
    votes: Votes,
    n_annotators: int,
    *,
    scales: Scales | None = None,
    start: F64 | None = None,
    seed: int = 0,
    draws: int | None = None,
) -> Fitted:
    """The posterior of the items' scores given all answers.

    s = Φw + u with w ~ N(0, α²), u ~ N(0, υ²); an answer has the probability of `answers` at
    z = c (s_left - s_right) + b. In an answer of a model, e_left - e_right is added to z, where e,
    the errors that models share, have the prior of s. The mode is found by Newton's method; the
    posterior is Laplace's approximation around it, averaged over the likely priors and widened by
    the uncertainty of the reliabilities c. Without features (d = 0) there are residuals only.

    Args:
        features: (n, d) features of the items, roughly standardised.
        votes: the answers.
        n_annotators: a, the number of annotators.
        scales: α², υ² and so on. None: choose them, see `choose_scales`.
        start: the start of Newton's method, from an earlier fit, perhaps with fewer annotators.
        seed: the seed of the draws.
        draws: the number of draws; None: 256, or 48 above a thousand unknowns.

    Cost: up to a thousand unknowns, a few factorisations of (d + n + 2 a)², and about fifty if
    the scales are chosen; above, conjugate gradients, linear in answers and in n d. If there are
    more than 20,000 items, only items with answers are unknowns; see `_spread_out` for the rest.
    """
    rng = np.random.default_rng(seed)
    if scales is None:
        scales = choose_scales(features, votes, n_annotators, seed=seed)
    scales = scales.padded(n_annotators)
    if scales.shared == UNKNOWN:
        scales = replace(scales, shared=_unmeasured_shared(votes))
    n, d = features.shape
    judged = _items_to_estimate(n, votes)
    if len(judged) == n:
        return _fit(Problem(features, votes, n_annotators, scales), start, draws, rng)[0]
    if start is not None:
        start = np.concatenate((start[:d], start[d + judged], start[d + n :]))
    problem = Problem(features[judged], votes.renumbered(judged), n_annotators, scales)
    of_judged, weight_shifts = _fit(problem, start, draws or DRAWS, rng)
    return _spread_out(of_judged, weight_shifts, features, judged, scales, rng)


def _fit(
    problem: Problem, start: F64 | None, n_draws: int | None, rng: np.random.Generator
) -> tuple[Fitted, F64]:
    """The fit, and (k, d) shifts of the draws' weights by the uncertainty of the reliabilities."""
    n, d = problem.features.shape
    scales = problem.scales
    theta = np.zeros(problem.n_unknowns)
    if start is not None:
        theta[: len(start)] = start
    if n_draws is None:
        n_draws = DRAWS if problem.large else _MANY_DRAWS
    prior_of_draw = _prior_of_each(n_draws, scales)
    fits = []
    for k, prior in enumerate(scales.priors):
        theta = problem.newton(theta, prior, steps=30)
        n_draws_of_prior = int(np.sum(prior_of_draw == k))
        fits.append(problem.fit_under(prior, theta, n_draws_of_prior, rng))
    weights = Weights(
        scales.odds @ np.stack([fit.theta[:d] for fit in fits]),
        np.concatenate([fit.weight_draws for fit in fits]),
        scales.residual,
    )
    mode = fits[0].theta[: d + n + problem.n_annotators]
    fitted = Fitted(_mixed(problem, fits, rng), mode, weights)
    return fitted, np.concatenate([fit.weight_shifts for fit in fits])


def _prior_of_each(n_draws: int, scales: Scales) -> I64:
    """(n_draws,) the number of each draw's prior, ascending."""
    return np.searchsorted(np.cumsum(scales.odds), (np.arange(n_draws) + 0.5) / n_draws)


def _items_to_estimate(n: int, votes: Votes) -> I64:
    """All items if they are at most `MANY`, else the items with answers, and at least two items."""
    if n <= MANY:
        return np.arange(n)
    is_judged = np.zeros(n, np.bool_)
    is_judged[[0, 1]] = True
    is_judged[votes.left] = True
    is_judged[votes.right] = True
    return np.flatnonzero(is_judged)


def _spread_out(
    of_judged: Fitted,
    weight_shifts: F64,
    features: F64,
    judged: I64,
    scales: Scales,
    rng: np.random.Generator,
) -> Fitted:
    """Extend a fit of the judged items to all items: s = Φw + u, where u of an unjudged item is
    drawn from the prior.

    No answer depends on the u of an unjudged item, so a fit of all items would have the same
    posterior. Variances are taken from 48 draws, as in all fits above a thousand unknowns, with a
    standard error of 20 %. So single precision is enough for the draws, which take most of the
    memory of a session.
    """
    n, d = features.shape
    n_annotators = len(scales.annotators.side)
    posterior = of_judged.posterior
    weights = of_judged.weights
    n_errors = 0 if posterior.errors is None else n
    draws = np.empty((len(weight_shifts), n + n_annotators + n_errors), np.float32)
    mean = np.zeros(n + n_annotators + n_errors)
    priors = _prior_of_each(len(draws), scales).tolist()
    for draw, w, number in zip(draws, weights.draws + weight_shifts, priors, strict=True):
        prior = scales.priors[number]
        draw[:n] = features @ w + np.sqrt(prior.residual) * rng.standard_normal(n)
        spread = np.sqrt(scales.shared * prior.total(d))
        draw[n + n_annotators :] = spread * rng.standard_normal(n_errors)
    mean[:n] = features @ weights.mean
    places = np.concatenate((judged, np.arange(n, n + n_annotators)))
    theta = np.zeros(d + n + n_annotators)
    theta[np.concatenate((np.arange(d), d + places))] = of_judged.theta
    if n_errors:
        places = np.concatenate((places, n + n_annotators + judged))
    mean[places] = posterior.mean
    draws[:, places] = posterior.draws
    return Fitted(_posterior(mean, None, draws, n, rng, scales), theta, weights)


def _mixed(problem: Problem, fits: Sequence[PriorFit], rng: np.random.Generator) -> Posterior:
    """Mix the fits under each prior: a Gaussian with the mean and covariance of the mixture."""
    n = len(problem.features)
    scales = problem.scales
    mean = scales.odds @ np.stack([fit.mean for fit in fits])
    draws = np.concatenate([fit.draws for fit in fits])
    covariance = None
    for odds, fit in zip(scales.odds, fits, strict=True):
        if fit.covariance is None:
            continue
        deviation = fit.mean - mean
        component = odds * (fit.covariance + np.outer(deviation, deviation))
        covariance = component if covariance is None else covariance + component
    return _posterior(mean, covariance, draws, n, rng, scales)


def _posterior(
    mean: F64,
    covariance: F64 | None,
    draws: Draws,
    n: int,
    rng: np.random.Generator,
    scales: Scales,
) -> Posterior:
    """The posterior of n items; the side biases of its annotators are taken from mean and draws."""
    biases = slice(n, n + len(scales.annotators.side))
    if covariance is None:
        variance = draws[:, biases].var(axis=0, dtype=np.float64)
    else:
        variance = np.diag(covariance)[biases]
    annotators = replace(scales.annotators, side=mean[biases], side_sd=np.sqrt(variance))
    return Posterior(mean, covariance, draws, annotators, n, rng, scales.tie, scales.ties)


@one_blas_thread()
def choose_scales(features: F64, votes: Votes, n_annotators: int, *, seed: int = 0) -> Scales:
    """Choose the scales by the answers; with few answers they stay near the first guess.

    The probabilities of an annotator count as words if words predict left-out answers better: the
    probabilities may be unrelated to the annotator's errors.

    Cost: at most twelve rounds of two Newton steps and the posterior's variances; then two Newton
    steps for each prior around the matched prior; twice or three times as much with measurements.
    If there are more than 200,000 answers, 200,000 of them are drawn. If there are more than 20,000
    items, items without answers are left out, because they are unrelated to the scales.
    """
    if len(votes) > _PLENTY:
        is_kept = votes.drawn(_PLENTY / len(votes), np.random.default_rng(seed))
        is_outside = ~votes.of_kind(MODEL)  # outside answers measure the models
        if is_outside.sum() <= _PLENTY:
            is_kept |= is_outside
        votes = votes.where(is_kept)
    judged = _items_to_estimate(len(features), votes)
    if len(judged) < len(features):
        features, votes = features[judged], votes.renumbered(judged)
    shared = _expected_shared(features, votes, n_annotators, seed)
    match = _match(features, votes, n_annotators, seed, shared)
    in_words = _without_meaning(match, features, votes, n_annotators, seed, shared)
    if in_words:
        match = _match(features, votes.in_words(in_words), n_annotators, seed, shared)
    scales = match.problem.scales
    if len(votes):
        priors, odds = likely_priors(match.problem, match.theta, match.prior)
        scales = replace(scales, priors=priors, odds=odds)
    if in_words:
        scale = scales.annotators.scale.copy()
        scale[in_words] = 0.0
        scales = replace(scales, annotators=replace(scales.annotators, scale=scale))
    return scales


class _Match(NamedTuple):
    """Scales, mode and prior that are matched to the answers.

    Attributes:
        problem: the problem with the matched scales.
        theta: the mode.
        root: a root of the covariance of scores and biases.
        prior: the matched prior.
    """

    problem: Problem
    theta: F64
    root: F64
    prior: Prior


def _match(
    features: F64,
    votes: Votes,
    n_annotators: int,
    seed: int,
    shared: float,
    start: float | None = None,
) -> _Match:
    """Match scales, mode and prior to the answers in turn, until they settle.

    The errors that models share are measured by people and known answers. Where only models have
    answered, these errors are as large as `shared`.

    Args:
        shared: the variance of shared errors relative to that of the scores, as it is expected
            before any answer.
        start: the variance of shared errors in the first round; None: `shared`.
    """
    n, d = features.shape
    rng = np.random.default_rng(seed)
    prior = first_guess(d)
    problem = _first_problem(features, votes, n_annotators, prior, start or shared)
    theta = np.zeros(problem.n_unknowns)
    if not len(votes):
        return _Match(problem, theta, theta[None], prior)
    unjudged = d + np.setdiff1d(np.arange(n), [votes.left, votes.right])
    for k in range(_ROUNDS):
        theta = problem.newton(theta, prior, steps=2)
        solver = problem.solver(problem.likelihood(theta).weight, prior)
        root = solver.root(rng)
        variance = np.einsum("ij,ij->j", root, root)
        if problem.large:  # the variances are estimates, and the prior's are exact
            variance[unjudged] = prior.residual
        prior_before = prior
        prior = matched_prior(problem, prior, theta, solver, root, variance)
        new_shared = matched_shared(problem, theta, variance, prior_before, shared)
        scales = replace(matched_scales(problem, theta, variance), shared=new_shared)
        problem = replace(problem, scales=scales)
        if len(problem.measured):
            annotators = matched_measurements(problem, theta, problem.to_scores(root))
            if measures_alone(problem):
                theta, prior = _in_new_units(theta, prior, problem, annotators)
            problem = _with_annotators(problem, annotators)
        if k % 3 < 2:
            continue
        if problem.compares_annotators:
            if len(problem.measured):
                # The slopes and weights of measurements have changed with their scales. Answers are
                # left out of a covariance that they must belong to.
                theta = problem.newton(theta, prior, steps=2)
                root = problem.solver(problem.likelihood(theta).weight, prior).root(rng)
            scores_root = problem.to_scores(root)
            annotators = matched_annotators(problem, theta, scores_root, prior, rng)
            problem = _with_annotators(problem, annotators)
        change = abs(np.log(prior.total(d) / prior_before.total(d)))
        if change < _SETTLED and (not problem.compares_annotators or k > 3):
            break
    return _Match(problem, theta, problem.to_scores(root), prior)


def _with_annotators(problem: Problem, annotators: Annotators) -> Problem:
    return replace(problem, scales=replace(problem.scales, annotators=annotators))


def _expected_shared(features: F64, votes: Votes, n_annotators: int, seed: int) -> float:
    """The expected variance of errors that models share, relative to the variance of the scores.

    The variance is at least the variance by which models differ from the model with the most
    answers. Agreement does not make the errors small: until outside answers measure the variance,
    it grows with their number towards `SHARED`.
    """
    of_models = votes.where(votes.of_kind(MODEL))
    if not len(of_models):
        return UNKNOWN
    unmeasured = _unmeasured_shared(votes)
    if len(np.unique(of_models.annotator)) == 1:
        return unmeasured
    if len(of_models) > _FEWER:
        drawn = of_models.drawn(_FEWER / len(of_models), np.random.default_rng(seed))
        of_models = of_models.where(drawn)
    # The model with the most answers counts as outside, so that it measures the other models.
    match = _match(
        features, of_models.others_beside_one(), n_annotators, seed, _UNMEASURED, start=_DIFFERING
    )
    return max(unmeasured, match.problem.scales.shared)


def _unmeasured_shared(votes: Votes) -> float:
    """The variance of shared errors, relative to the scores' variance, before it is measured."""
    n_outside = np.count_nonzero(votes.first & ~votes.of_kind(MODEL))
    return max(SHARED * n_outside / (n_outside + _OUTSIDE_ANSWERS), _UNMEASURED)


def _first_problem(
    features: F64, votes: Votes, n_annotators: int, prior: Prior, shared: float
) -> Problem:
    """The problem to start matching with, in which all annotators are average."""
    is_tie = votes.target == 0.5
    ties = float(np.mean(is_tie[votes.first])) if len(votes) else 0.0
    tie = _FIRST_TIE if is_tie[votes.of_pairs].any() else 0.0
    average = Annotators.average(n_annotators)
    scales = Scales((prior,), np.ones(1), average, tie=tie, ties=ties, shared=shared)
    return Problem(features, votes, n_annotators, scales)


def _in_new_units(
    theta: F64, prior: Prior, problem: Problem, annotators: Annotators
) -> tuple[F64, Prior]:
    """The mode and the prior in units of the new error of the only annotator's measurements."""
    number = problem.votes.annotator[problem.measured[0]]
    factor = float(problem.scales.annotators.scale[number] / annotators.scale[number])
    return theta * factor, Prior(prior.weight * factor**2, prior.residual * factor**2)


def _without_meaning(
    match: _Match, features: F64, votes: Votes, n_annotators: int, seed: int, shared: float
) -> list[int]:
    """The annotators whose measurements are to count as words.

    These are the annotators whose answers are predicted better from words, and the annotators who
    are always as sure as possible.
    """
    rows = match.problem.measured
    if not len(rows):
        return []
    by_words = _match(features, votes.in_words(), n_annotators, seed, shared)
    gain = _left_out_log_p(by_words, rows) - _left_out_log_p(match, rows)
    annotator = votes.annotator[rows]
    assert votes.probit is not None
    is_unsure = np.abs(votes.probit[rows]) < MOST_PROBIT
    in_words = []
    for number in np.unique(annotator).tolist():
        is_own = annotator == number
        is_better = is_own.sum() >= _ENOUGH and is_gain(gain[is_own], _BETTER, ddof=0)
        if is_better or not is_unsure[is_own].any():
            in_words.append(number)
    return in_words


def _left_out_log_p(match: _Match, rows: I64) -> F64:
    """Log-probability of the words of answers, each predicted from all other answers."""
    mean, variance = left_out(match.problem, match.theta, match.root, rows)
    sign = np.sign(match.problem.votes.target[rows] - 0.5)
    log_p: F64 = log_ndtr(sign * mean / np.sqrt(1 + variance))
    return log_p
