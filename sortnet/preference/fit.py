"""Fit the model of answers: the most probable scores, and Laplace's approximation around them.

Newton's steps are taken separately for the scores, for each bias and for log nu. For up to 1,500
items the equations of a step are those of all scores, with the precision Q of the prior:

    (H + Q) step = slope - Q s            H = G^T W G

G has a row e_i - e_j for each edge of the answers, W the weights of the edges. For more items the
unknowns are the weights of the features and the residuals of the items that have answers, each
divided by its prior standard deviation: s = A x. Their equations are solved by conjugate gradients,
and draws of the posterior are solutions for a perturbed right side:

    (I + A^T H A)^-1 (e + A^T G^T sqrt(W) e')            e and e' standard normal
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotri

from sortnet.core import F32, F64, I64
from sortnet.preference.answers import Answers
from sortnet.preference.model import Annotators, Likelihood, Posterior, Prior, laplacian, likelihood

DENSE = 1500  # up to this number of items, the covariance of all scores is computed
N_DRAWS = 200
_N_DRAWS_OF_MANY = 64
_STEPS = 50
_LONGEST_STEP = 3.0  # of a score
_CLOSE = 1e-9  # the search for the mode ends after a step as short as this
_CLOSE_OF_MANY = 1e-3
BIAS_SD = 1.0  # prior standard deviation of a bias that the answers have earned
_LOG_TIE, _LOG_TIE_SD = -0.7, 1.5  # prior of log nu
_PRECISION = 1e-4  # of a solution by conjugate gradients, relative to its right side
_MOST_ITERATIONS = 300


class _AllScores:
    """Newton's equations for the scores of all items.

    Attributes:
        Q, log_det: the prior precision of the scores, and the logarithm of its determinant.
        factor: the lower Cholesky factor of the precision of the scores, before the last step.
    """

    def __init__(self, answers: Answers, prior: Prior) -> None:
        self._edges = answers.edges
        self.Q, self.log_det = prior.precision()

    def scores(self, unknowns: F64) -> F64:
        """Return the unknowns: they are the scores."""
        return unknowns

    def step(self, at: Likelihood, s: F64) -> F64:
        """Compute Newton's step of the scores."""
        H = laplacian(self._edges.i, self._edges.j, at.weight, len(s)).toarray()
        self.factor: F64 = np.asarray(np.linalg.cholesky(H + self.Q), np.float64)
        step: F64 = cho_solve((self.factor, True), at.slope - self.Q @ s, check_finite=False)
        return step


class _WeightsAndResiduals:
    """Newton's equations for the weights of the features, and the residuals of items with answers.

    Args:
        answers: the answers, with items numbered as `items` lists them.
        prior: the prior of all items.
        items: (n,) the items that have answers.
    """

    def __init__(self, answers: Answers, prior: Prior, items: I64) -> None:
        self._edges = answers.edges
        self.d = prior.columns.width
        self.weight_sd = np.sqrt(prior.variance * prior.share / max(self.d, 1))
        self.residual_sd = np.sqrt(prior.variance * (1 - prior.share))
        self._features = prior.columns.values[items] * self.weight_sd

    def scores(self, unknowns: F64) -> F64:
        """Compute scores (n, ...) from unknowns (d + n, ...)."""
        residuals = self.residual_sd * unknowns[self.d :]
        scores: F64 = self._features @ unknowns[: self.d] + residuals
        return scores

    def _transposed(self, slope: F64) -> F64:
        """Compute the derivative in each unknown from the derivative in each score."""
        return np.concatenate((self._features.T @ slope, self.residual_sd * slope))

    def step(self, at: Likelihood, unknowns: F64) -> F64:
        """Compute Newton's step of the unknowns."""
        right = self._transposed(at.slope) - unknowns
        return self._solve(at, right[:, None])[:, 0]

    def drawn_errors(self, at: Likelihood, rng: np.random.Generator) -> F64:
        """Draw differences of the unknowns from their most probable values, (d + n, draws)."""
        m, n = len(at.weight), len(self._features)
        noise = np.sqrt(at.weight)[:, None] * rng.standard_normal((m, _N_DRAWS_OF_MANY))
        edge = np.arange(m)
        ends = np.concatenate((self._edges.i, self._edges.j))
        signs = np.repeat([1.0, -1.0], m)
        G = sparse.csr_array((signs, (np.tile(edge, 2), ends)), shape=(m, n))
        right = self._transposed(G.T @ noise)
        right += rng.standard_normal(right.shape)
        return self._solve(at, right)

    def _solve(self, at: Likelihood, right: F64) -> F64:
        """Solve (I + A^T H A) x = right for each column by preconditioned conjugate gradients."""
        H = laplacian(self._edges.i, self._edges.j, at.weight, len(self._features))
        stiffness = H.diagonal()
        diagonal = ((self._features**2).T @ stiffness, self.residual_sd**2 * stiffness)
        precondition = 1 / (1 + np.concatenate(diagonal))[:, None]
        x = np.zeros_like(right)
        rest = right.copy()
        direction = precondition * rest
        product = (rest * direction).sum(axis=0)
        goal = _PRECISION**2 * np.maximum((right * right).sum(axis=0), 1e-300)
        for _ in range(_MOST_ITERATIONS):
            image = direction + self._transposed(H @ self.scores(direction))
            length = product / np.maximum((direction * image).sum(axis=0), 1e-300)
            x += length * direction
            rest -= length * image
            if ((rest * rest).sum(axis=0) < goal).all():
                break
            downhill = precondition * rest
            next_product = (rest * downhill).sum(axis=0)
            direction = downhill + next_product / np.maximum(product, 1e-300) * direction
            product = next_product
        return x


_Equations: TypeAlias = _AllScores | _WeightsAndResiduals


class _Peak(NamedTuple):
    """The end of Newton's steps.

    Attributes:
        unknowns: the most probable unknowns of the equations.
        annotators: the annotators with their most probable biases.
        prior: the prior with the most probable odds of a tie.
        at: the likelihood before the last step, which was as short as the search allows.
    """

    unknowns: F64
    annotators: Annotators
    prior: Prior
    at: Likelihood


def _climb(
    answers: Answers,
    equations: _Equations,
    prior: Prior,
    annotators: Annotators,
    start: F64,
    close: float,
) -> _Peak:
    """Take Newton's steps until no score and no bias moves farther than `close`."""
    unknowns = start.copy()
    has_ties = bool(answers.tied.any())
    log_nu = float(np.log(prior.tie_odds)) if prior.tie_odds else _LOG_TIE
    for _ in range(_STEPS):
        nu = float(np.exp(log_nu)) if has_ties else 0.0
        at = likelihood(answers, equations.scores(unknowns), annotators, nu)
        step = equations.step(at, unknowns)
        longest = float(np.abs(equations.scores(step)).max(initial=0.0))
        unknowns += step * min(1.0, _LONGEST_STEP / max(longest, close))
        bias_step = _bounded_step(
            at.bias_slope - annotators.bias * BIAS_SD**-2, at.bias_stiffness + BIAS_SD**-2
        )
        bias_step *= annotators.biased
        annotators = replace(annotators, bias=annotators.bias + bias_step)
        if has_ties:
            slope = at.tie_slope - (log_nu - _LOG_TIE) * _LOG_TIE_SD**-2
            log_nu += float(_bounded_step(slope, at.tie_stiffness + _LOG_TIE_SD**-2))
        if max(longest, float(np.abs(bias_step).max(initial=0.0))) < close:
            break
    return _Peak(unknowns, annotators, replace(prior, tie_odds=nu), at)


def _bounded_step(slope: F64 | float, stiffness: F64 | float) -> F64:
    """Compute Newton's step, of 1 at most in each direction."""
    return np.clip(np.divide(slope, stiffness), -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Mode:
    """The most probable scores, and Laplace's approximation around them.

    Attributes:
        scores: (n,) the scores.
        annotators: the annotators with their most probable biases.
        prior: the prior with the most probable odds of a tie.
        at: the likelihood before the last step, which was as short as the search allows.
        factor: (n, n) the lower Cholesky factor of the precision of the scores, before that step.
        evidence: the logarithm of the evidence, given the biases and the odds of a tie.
    """

    scores: F64
    annotators: Annotators
    prior: Prior
    at: Likelihood
    factor: F64
    evidence: float

    def drawn(self, n_draws: int, rng: np.random.Generator) -> F64:
        """Draw scores from the Gaussian around the mode, (n_draws, n)."""
        noise = rng.standard_normal((len(self.scores), n_draws))
        drawn: F64 = self.scores + solve_triangular(self.factor, noise, lower=True, trans="T").T
        return drawn


def find_mode(
    answers: Answers,
    prior: Prior,
    annotators: Annotators,
    start: F64 | None = None,
    *,
    close: float = _CLOSE,
) -> Mode:
    """Find the most probable scores, biases and odds of a tie by Newton's method.

    Args:
        answers: the answers.
        prior: the prior.
        annotators: the annotators, with the biases where the search starts.
        start: (n,) the scores where the search starts; zeros if None.
        close: the search ends once no score or bias has moved farther; after 50 steps at last.

    Cost: O(n^3) for each of about six steps.
    """
    equations = _AllScores(answers, prior)
    start = np.zeros(len(prior.columns)) if start is None else start
    s, annotators, prior, at = _climb(answers, equations, prior, annotators, start, close)
    evidence = at.value - 0.5 * float(s @ equations.Q @ s) + 0.5 * equations.log_det
    evidence -= float(np.log(np.diag(equations.factor)).sum())
    return Mode(s, annotators, prior, at, equations.factor, evidence)


def fit(
    answers: Answers, prior: Prior, annotators: Annotators, start: F64 | None = None, *, seed: int
) -> Posterior:
    """Fit scores, biases and the odds of a tie to answers; the hyperparameters are given.

    Args:
        answers: the answers.
        prior: the prior.
        annotators: the annotators.
        start: (n,) the scores where the search for the mode starts.
        seed: the seed of the draws.

    Cost: that of `find_mode`, and O(n^3) for the covariance.
    """
    mode = find_mode(answers, prior, annotators, start)
    lower_half, _ = dpotri(mode.factor, lower=True)
    covariance = np.tril(lower_half) + np.tril(lower_half, -1).T
    draws = mode.drawn(N_DRAWS, np.random.default_rng(seed))
    return Posterior(mode.scores, covariance, draws, mode.annotators, mode.prior)


def fit_many(answers: Answers, prior: Prior, annotators: Annotators, *, seed: int) -> Posterior:
    """Fit the scores of many items without a covariance, and draw from their posterior.

    Cost: about 20 ms an iteration of the draws for 100,000 answers; memory for 64 numbers an item.
    """
    rng = np.random.default_rng(seed)
    items, weights, scores_of_items, peak = _fit_weights_and_residuals(
        answers, prior, annotators, rng
    )
    mode_and_draws: F32 = weights.astype(np.float32) @ prior.columns.values.T.astype(np.float32)
    residual_sd = np.float32(np.sqrt(prior.variance * (1 - prior.share)))
    for draw in mode_and_draws[1:]:  # one by one: all noise would be as large as the draws
        draw += residual_sd * rng.standard_normal(len(draw), np.float32)
    mode_and_draws[:, items] = scores_of_items
    scores = mode_and_draws[0].astype(np.float64)
    return Posterior(scores, None, mode_and_draws[1:], peak.annotators, peak.prior)


def fit_weights(
    answers: Answers, prior: Prior, annotators: Annotators, *, seed: int
) -> tuple[F64, F64]:
    """Fit the weights of the features: return their means, (d,), and draws, (k, d).

    Cost: that of `fit_many`.
    """
    rng = np.random.default_rng(seed)
    _, weights, _, _ = _fit_weights_and_residuals(answers, prior, annotators, rng)
    return weights[0], weights[1:]


def _fit_weights_and_residuals(
    answers: Answers, prior: Prior, annotators: Annotators, rng: np.random.Generator
) -> tuple[I64, F64, F64, _Peak]:
    """Fit the weights of the features, and the scores of the items that have answers.

    Returns:
        The n items with answers; the most probable weights, then draws, (1 + k, d); the scores of
        the items in the same way, (1 + k, n); and the end of the search.
    """
    renumbered, items = answers.of_own_items()
    equations = _WeightsAndResiduals(renumbered, prior, items)
    start = np.zeros(equations.d + len(items))
    peak = _climb(renumbered, equations, prior, annotators, start, _CLOSE_OF_MANY)
    mode = peak.unknowns[:, None]
    mode_and_draws = np.hstack((mode, mode + equations.drawn_errors(peak.at, rng)))
    weights = mode_and_draws[: equations.d] * equations.weight_sd
    return items, weights.T, equations.scores(mode_and_draws).T, peak
