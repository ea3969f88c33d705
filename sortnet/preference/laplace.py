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
from sortnet.preference.posterior import Draws, Posterior
from sortnet.preference.posterior_precision import Precision
from sortnet.preference.problem import SHARED, UNKNOWN, Part, Prior, Problem, Scales, first_guess
from sortnet.preference.reliability import Annotators
from sortnet.preference.vote_arrays import MODEL, Votes
from sortnet.threads import one_blas_thread

DRAWS = 48
_MANY_DRAWS = 256  # if they are cheap
_ROUNDS = 12  # of fitting the scales to the answers
_SETTLED = 0.02  # relative change of the variance after which no more rounds are needed
MANY = 20_000  # items from which on those without answers are left out of the equations
_PLENTY = 200_000  # answers by which the scales are chosen, at most
_FEWER = 20_000  # and those by which models are compared with each other
_ENOUGH = 20  # measurements below which nobody counts as words for that
_BETTER = 1.0  # standard errors by which words must predict better than measurements
# Variance of the errors that models share, relative to that of the scores, while nothing has
# measured it: from the first to `SHARED` with the number of outside answers (of people, and known
# ones), half of `SHARED` with so many. So the first outside answers cost hardly any certainty.
_UNMEASURED = 0.003
_OUTSIDE_ANSWERS = 10.0
_DIFFERING = 0.05  # the variance from which the differences between models are matched
_BELIEF = 10.0  # unknowns that the first guess of a prior scale counts as


@dataclass(frozen=True, eq=False)
class Weights:
    """What a fit says of items that nobody compared: s = Φw + u with u ~ N(0, υ²).

    Attributes:
        mean, draws: (d,) of w, and (k, d).
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
        """The same as arrays by name, but for the scales; see `from_arrays`."""
        posterior, rng = self.posterior, json.dumps(self.posterior.rng.bit_generator.state)
        covariance = {} if posterior.covariance is None else {"covariance": posterior.covariance}
        return {
            **{"mean": posterior.mean, "draws": posterior.draws, **covariance},
            **{"rng": np.frombuffer(rng.encode(), np.uint8), "theta": self.theta},
            **{"weights": self.weights.mean, "weight_draws": self.weights.draws},
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n: int, scales: Scales) -> Fitted:
        """What `arrays` said, of a fit of n items with these scales."""
        rng = np.random.default_rng()
        rng.bit_generator.state = json.loads(arrays["rng"].tobytes())
        mean, draws = arrays["mean"], arrays["draws"]
        scales = scales.of(len(arrays["theta"]) - len(arrays["weights"]) - n)
        posterior = _posterior(mean, arrays.get("covariance"), draws, n, rng, scales)
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
        features: (n, d) roughly standardised.
        votes: the answers.
        n_annotators: a, the number of annotators.
        scales: α², υ² and so on. None: choose them, see `choose_scales`.
        start: of Newton's method, from an earlier fit, perhaps with fewer annotators.
        seed, draws: of the draws, and their number; None: 256, or 48 above a thousand unknowns.

    Cost: up to a thousand unknowns, a few factorisations of (d + n + 2 a)², and about fifty if
    the scales are chosen; above, conjugate gradients, linear in answers and in n d. Of more than
    20,000 items only those with answers are unknowns; see `_spread_out` for the others.
    """
    rng = np.random.default_rng(seed)
    if scales is None:
        scales = choose_scales(features, votes, n_annotators, seed=seed)
    scales = scales.of(n_annotators)
    if np.isnan(scales.shared):
        scales = replace(scales, shared=_unmeasured_shared(votes))
    (n, d), some = features.shape, _judged(len(features), votes)
    if len(some) == n:
        return _fit(Problem(features, votes, n_annotators, scales), start, draws, rng)[0]
    if start is not None:
        start = np.concatenate((start[:d], start[d + some], start[d + n :]))
    problem = Problem(features[some], votes.renumbered(some), n_annotators, scales)
    part, moved = _fit(problem, start, draws or DRAWS, rng)
    return _spread_out(part, moved, features, some, scales, rng)


def _fit(
    problem: Problem, start: F64 | None, draws: int | None, rng: np.random.Generator
) -> tuple[Fitted, F64]:
    """The fit, and (k, d) how the uncertainty of the reliabilities moves the draws' weights."""
    (n, d), scales = problem.features.shape, problem.scales
    theta = np.zeros(problem.n_unknowns)
    if start is not None:
        theta[: len(start)] = start
    draws = draws or (DRAWS if problem.large else _MANY_DRAWS)
    chosen = _prior_of_each(draws, scales)
    parts = []
    for k, prior in enumerate(scales.priors):
        theta = problem.newton(theta, prior, steps=30)
        parts.append(problem.around(theta, prior, int(np.sum(chosen == k)), rng))
    weights = Weights(
        scales.odds @ np.stack([part.theta[:d] for part in parts]),
        np.concatenate([part.weights for part in parts]),
        scales.residual,
    )
    mode = parts[0].theta[: d + n + problem.n_annotators]
    fitted = Fitted(_together(problem, parts, rng), mode, weights)
    return fitted, np.concatenate([part.moved for part in parts])


def _prior_of_each(draws: int, scales: Scales) -> I64:
    """(draws,) the number of each draw's prior, ascending."""
    return np.searchsorted(np.cumsum(scales.odds), (np.arange(draws) + 0.5) / draws)


def _judged(n: int, votes: Votes) -> I64:
    """The items to estimate: all up to `MANY`, else those with answers, and at least two."""
    if n <= MANY:
        return np.arange(n)
    judged = np.zeros(n, np.bool_)
    judged[[0, 1]] = judged[votes.left] = judged[votes.right] = True
    return np.flatnonzero(judged)


def _spread_out(
    part: Fitted, moved: F64, features: F64, some: I64, scales: Scales, rng: np.random.Generator
) -> Fitted:
    """A fit of some items as one of all: s = Φw + u, where u of the others is as the prior has it.

    No answer depends on their u, so the posterior is that of a fit of all items. As from a thousand
    unknowns on, variances are taken from 48 draws: within 20 % (one standard error). So single
    precision is enough for the draws, which are most of the memory of a session.
    """
    (n, d), a, weights = features.shape, len(scales.annotators.side), part.weights
    known = part.posterior
    errors = n if len(known.mean) > len(some) + a else 0  # that models share
    draws = np.empty((len(moved), n + a + errors), np.float32)
    mean = np.zeros(n + a + errors)
    priors = _prior_of_each(len(moved), scales).tolist()
    for drawn, w, number in zip(draws, weights.draws + moved, priors, strict=True):
        prior = scales.priors[number]
        drawn[:n] = features @ w + np.sqrt(prior.residual) * rng.standard_normal(n)
        spread = np.sqrt(scales.shared * prior.total(d))
        drawn[n + a :] = spread * rng.standard_normal(errors)
    mean[:n] = features @ weights.mean
    there = np.concatenate((some, np.arange(n, n + a), n + a + some if errors else some[:0]))
    mean[there], draws[:, there] = known.mean, known.draws
    theta = np.zeros(d + n + a)
    theta[np.concatenate((np.arange(d), d + there[: len(some) + a]))] = part.theta
    return Fitted(_posterior(mean, None, draws, n, rng, scales), theta, weights)


def _together(problem: Problem, parts: Sequence[Part], rng: np.random.Generator) -> Posterior:
    """The moments of a mixture."""
    n, scales = len(problem.features), problem.scales
    mean = scales.odds @ np.stack([part.mean for part in parts])
    draws = np.concatenate([part.draws for part in parts])
    covariance = None
    for odds, part in zip(scales.odds, parts, strict=True):
        if part.covariance is not None:
            off = part.mean - mean
            more = odds * (part.covariance + np.outer(off, off))
            covariance = more if covariance is None else covariance + more
    return _posterior(mean, covariance, draws, n, rng, scales)


def _posterior(
    mean: F64,
    covariance: F64 | None,
    draws: Draws,
    n: int,
    rng: np.random.Generator,
    scales: Scales,
) -> Posterior:
    biases = slice(n, n + len(scales.annotators.side))
    if covariance is None:
        variance = draws[:, biases].var(axis=0, dtype=np.float64)
    else:
        variance = np.diag(covariance)[biases]
    people = replace(scales.annotators, side=mean[biases], side_sd=np.sqrt(variance))
    return Posterior(mean, covariance, draws, people, n, rng, scales.tie, scales.ties)


@one_blas_thread()
def choose_scales(features: F64, votes: Votes, n_annotators: int, *, seed: int = 0) -> Scales:
    """Choose the scales by the answers; with few answers they stay near the first guess.

    The probabilities of an annotator count as words if the answers are predicted better so, each
    as if it had not been given: probabilities may say nothing of the annotator's errors.

    Cost: at most twelve rounds of two Newton steps and the posterior's variances; then two Newton
    steps for each prior around the matched one; twice or three times as much with measurements. Of
    more than 200,000 answers that many are drawn; of more than 20,000 items only those with answers
    count: the others say nothing of the scales.
    """
    if len(votes) > _PLENTY:
        drawn = votes.drawn(_PLENTY / len(votes), np.random.default_rng(seed))
        others = ~votes.of_kind(MODEL)  # what models are measured by, if that is little
        votes = votes.where(drawn | others if others.sum() <= _PLENTY else drawn)
    if len(some := _judged(len(features), votes)) < len(features):
        features, votes = features[some], votes.renumbered(some)
    shared = _expected_shared(features, votes, n_annotators, seed)
    matched = _match(features, votes, n_annotators, seed, shared)
    in_words = _without_meaning(matched, features, votes, n_annotators, seed, shared)
    if in_words:
        matched = _match(features, votes.in_words(in_words), n_annotators, seed, shared)
        scale = matched.problem.scales.annotators.scale.copy()
        scale[in_words] = 0.0
        annotators = replace(matched.problem.scales.annotators, scale=scale)
        scales = replace(matched.problem.scales, annotators=annotators)
        problem = replace(matched.problem, scales=scales)
        matched = matched._replace(problem=problem)
    if not len(votes):
        return matched.problem.scales
    priors, odds = matched.problem.likely_priors(matched.theta, matched.prior)
    return replace(matched.problem.scales, priors=priors, odds=odds)


class _Matched(NamedTuple):
    """Scales that are matched to the answers, within the problem; the mode, and the prior.

    `root` is of the covariance of scores and biases.
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
) -> _Matched:
    """Match scales, mode and prior to the answers in turn, until they settle.

    The errors that models share are measured by people and known answers. Where only models have
    answered, these errors are as large as `shared`.

    Args:
        shared: the variance of shared errors relative to that of the scores, as it is expected
            before any answer.
        start: the variance from which it is matched; None: `shared`.
    """
    n, d = features.shape
    rng = np.random.default_rng(seed)
    prior = first_guess(d)
    problem = _first_problem(features, votes, n_annotators, prior, start or shared)
    theta = np.zeros(problem.n_unknowns)
    if not len(votes):
        return _Matched(problem, theta, theta[None], prior)
    unjudged = d + np.setdiff1d(np.arange(n), [votes.left, votes.right])
    for k in range(_ROUNDS):
        theta = problem.newton(theta, prior, steps=2)
        solver = problem.solver(problem.likelihood(theta).weight, prior)
        root = solver.root(rng)
        variance = np.einsum("ij,ij->j", root, root)
        if problem.large:  # where these are estimates, as good as the number of draws
            variance[unjudged] = prior.residual
        before, prior = prior, _matched_prior(problem, prior, theta, solver, root, variance)
        ratio = problem.matched_shared(theta, variance, before, shared)
        problem = replace(problem, scales=problem.matched_scales(theta, variance))
        problem = replace(problem, scales=replace(problem.scales, shared=ratio))
        if len(problem.measured):
            people = problem.matched_measurements(theta, problem.to_scores(root))
            if problem.alone:
                theta, prior = _stretched(theta, prior, problem, people)
            problem = replace(problem, scales=replace(problem.scales, annotators=people))
        if k % 3 < 2:
            continue
        if problem.compares:
            if len(problem.measured):
                # The slopes and weights of measurements have changed with their scales. Answers are
                # left out of a covariance that they must belong to.
                theta = problem.newton(theta, prior, steps=2)
                root = problem.solver(problem.likelihood(theta).weight, prior).root(rng)
            people = problem.matched_annotators(theta, problem.to_scores(root), prior, rng)
            problem = replace(problem, scales=replace(problem.scales, annotators=people))
        settled = abs(np.log(prior.total(d) / before.total(d))) < _SETTLED
        if settled and (not problem.compares or k > 3):
            break
    return _Matched(problem, theta, problem.to_scores(root), prior)


def _expected_shared(features: F64, votes: Votes, n_annotators: int, seed: int) -> float:
    """The expected variance of errors that models share, relative to that of the scores.

    The errors are at least as large as those by which the other models differ from the one with the
    most answers. That models agree does not make the errors small: before outside answers measure
    them, the variance grows with the number of these answers towards `SHARED`.
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
    beside_one = _match(
        features, of_models.others_beside_one(), n_annotators, seed, _UNMEASURED, start=_DIFFERING
    )
    return max(unmeasured, beside_one.problem.scales.shared)


def _unmeasured_shared(votes: Votes) -> float:
    """The variance of shared errors, relative to that of the scores, that nothing has measured."""
    n_outside = np.count_nonzero(votes.first & ~votes.of_kind(MODEL))
    return max(SHARED * n_outside / (n_outside + _OUTSIDE_ANSWERS), _UNMEASURED)


def _first_problem(
    features: F64, votes: Votes, n_annotators: int, prior: Prior, shared: float
) -> Problem:
    """The problem with average annotators."""
    scales = Scales((prior,), np.ones(1), Annotators.average(n_annotators), shared=shared)
    is_tie = votes.target == 0.5
    ties = float(np.mean(is_tie[votes.first])) if len(votes) else 0.0
    between_pairs = bool(is_tie[votes.of_pairs].any())
    return Problem(
        features, votes, n_annotators, replace(scales, tie=0.3 * between_pairs, ties=ties)
    )


def _stretched(theta: F64, prior: Prior, problem: Problem, people: Annotators) -> tuple[F64, Prior]:
    """The mode and the prior in units of a new error of the only annotator's measurements."""
    who = problem.votes.annotator[problem.measured[0]]
    factor = float(problem.scales.annotators.scale[who] / people.scale[who])
    return theta * factor, Prior(prior.weight * factor**2, prior.residual * factor**2)


def _without_meaning(
    matched: _Matched, features: F64, votes: Votes, n_annotators: int, seed: int, shared: float
) -> list[int]:
    """The annotators whose answers are predicted better if their measurements count as words, and
    those who are always as sure as can be.
    """
    rows = matched.problem.measured
    if not len(rows):
        return []
    by_words = _match(features, votes.in_words(), n_annotators, seed, shared)
    gain = _left_out_log_p(by_words, rows) - _left_out_log_p(matched, rows)
    annotator = votes.annotator[rows]
    assert votes.probit is not None
    within = np.abs(votes.probit[rows]) < MOST_PROBIT
    in_words = []
    for who in np.unique(annotator).tolist():
        own = annotator == who
        is_better = own.sum() >= _ENOUGH and is_gain(gain[own], _BETTER, ddof=0)
        if is_better or not within[own].any():
            in_words.append(who)
    return in_words


def _left_out_log_p(matched: _Matched, rows: I64) -> F64:
    """Log-probability of the words of some answers, each as if it had not been given."""
    problem, root = matched.problem, matched.root
    mean, variance = problem.left_out(matched.theta, root, rows)
    sign = np.sign(problem.votes.target[rows] - 0.5)
    log_p: F64 = log_ndtr(sign * mean / np.sqrt(1 + variance))
    return log_p


def _matched_prior(
    problem: Problem, prior: Prior, theta: F64, solver: Precision, root: F64, variance: F64
) -> Prior:
    """MacKay's update: squares of the unknowns over the number of well-determined ones.

    Of many unknowns, what the update leaves out is added, see `Problem.lost_weights`; with few
    unknowns, `Problem.likely_priors` corrects it.

    Args:
        problem: with the prior.
        prior: the present one.
        theta: the mode.
        solver: of the posterior's precision at the mode.
        root: of the covariance of the unknowns.
        variance: of the unknowns.
    """
    n, d = problem.features.shape
    guess = first_guess(d)
    of_weights, of_residuals, most = 0.0, 0.0, 1.0
    if problem.large:
        of_weights, of_residuals = problem.lost_weights(
            theta, problem.to_scores(root), prior, solver
        )
        # Variances estimated from draws are too large as often as too small: with only the former
        # cut, items with few answers would count as determined, and their residuals vanish.
        most = np.inf

    def matched(part: slice, present: float, guessed: float, lost: float) -> float:
        determined = max(np.sum(1 - np.minimum(variance[part] / present, most)), 0.0)
        square = theta[part] @ theta[part] + present * lost
        return float((square + _BELIEF * guessed) / (determined + _BELIEF))

    weight = matched(slice(d), prior.weight, guess.weight, of_weights) if d else prior.weight
    return Prior(weight, matched(slice(d, d + n), prior.residual, guess.residual, of_residuals))
