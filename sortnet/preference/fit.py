"""Fit the model of answers: the most probable scores, and Laplace's approximation around them.

The scores, each bias and log nu take Newton's steps at once, each as if the others stayed. For up
to 1,500 items the equations of a step are those of all scores, with the precision Q of the prior:

    (H + Q) step = slope - Q s            H = G^T W G

G has a row e_i - e_j for each edge of the answers, W the weights of the edges. For more items the
unknowns are the weights of the features and the residuals of the items that have answers, each
divided by its prior standard deviation: s = A x. Their equations are solved by conjugate gradients,
and draws of the posterior are solutions for a perturbed right side:

    (I + A^T H A)^-1 (e + A^T G^T sqrt(W) e')            e and e' standard normal
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotri

from sortnet.core import F32, F64
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
_TINY = 1e-300


class _Search:
    """A search for the most probable unknowns, biases and odds of a tie.

    A subclass has `unknowns`, `scores` and `step`.

    Attributes:
        unknowns: the most probable unknowns.
        annotators: the annotators with their most probable biases.
        prior: the prior with the most probable odds of a tie.
        at: the likelihood before the last step, which was as short as the search allows.
    """

    unknowns: F64
    at: Likelihood

    def __init__(self, answers: Answers, prior: Prior, annotators: Annotators) -> None:
        self.answers = answers
        self.prior = prior
        self.annotators = annotators

    def scores(self, unknowns: F64) -> F64:
        """Compute scores (n, ...) from unknowns."""
        raise NotImplementedError

    def step(self) -> F64:
        """Compute Newton's step of the unknowns."""
        raise NotImplementedError

    def climb(self, close: float) -> None:
        """Take Newton's steps until no score and no bias moves farther than `close`."""
        has_ties = bool(self.answers.tied.any())
        log_nu = float(np.log(self.prior.tie_odds)) if self.prior.tie_odds else _LOG_TIE
        for _ in range(_STEPS):
            nu = float(np.exp(log_nu)) if has_ties else 0.0
            self.at = likelihood(self.answers, self.scores(self.unknowns), self.annotators, nu)
            step = self.step()
            longest = float(np.abs(self.scores(step)).max(initial=0.0))
            self.unknowns = self.unknowns + step * min(1.0, _LONGEST_STEP / max(longest, close))
            bias_slope = self.at.bias_slope - self.annotators.bias * BIAS_SD**-2
            bias_step = bias_slope / (self.at.bias_stiffness + BIAS_SD**-2)
            bias_step = np.clip(bias_step, -1.0, 1.0) * self.annotators.biased
            self.annotators = replace(self.annotators, bias=self.annotators.bias + bias_step)
            if has_ties:
                tie_slope = self.at.tie_slope - (log_nu - _LOG_TIE) * _LOG_TIE_SD**-2
                tie_step = tie_slope / (self.at.tie_stiffness + _LOG_TIE_SD**-2)
                log_nu += float(np.clip(tie_step, -1.0, 1.0))
            if max(longest, float(np.abs(bias_step).max(initial=0.0))) < close:
                break
        self.prior = replace(self.prior, tie_odds=nu)


class Mode(_Search):
    """The most probable scores of all items, and Laplace's approximation around them.

    Attributes:
        factor: (n, n) the lower Cholesky factor of the precision of the scores before the last
            step.
    """

    def __init__(
        self, answers: Answers, prior: Prior, annotators: Annotators, start: F64 | None
    ) -> None:
        super().__init__(answers, prior, annotators)
        self.unknowns = np.zeros(len(prior.columns)) if start is None else start
        self._Q, self._log_det = prior.precision()

    def scores(self, unknowns: F64) -> F64:
        """Return the unknowns: they are the scores."""
        return unknowns

    def step(self) -> F64:
        """Compute Newton's step of the scores."""
        edges = self.answers.edges
        n = len(self.unknowns)
        weights = np.bincount(edges.i * n + edges.j, self.at.weight, n * n).reshape(n, n)
        weights = weights + weights.T
        precision = self._Q - weights
        precision[np.diag_indices(n)] += weights.sum(axis=0)
        self.factor: F64 = np.asarray(np.linalg.cholesky(precision), np.float64)
        slope = self.at.slope - self._Q @ self.unknowns
        step: F64 = cho_solve((self.factor, True), slope, check_finite=False)
        return step

    @property
    def evidence(self) -> float:
        """The logarithm of the evidence, given the biases and the odds of a tie of the mode."""
        log_prior = 0.5 * self._log_det - 0.5 * float(self.unknowns @ self._Q @ self.unknowns)
        return self.at.value + log_prior - float(np.log(np.diag(self.factor)).sum())

    def drawn(self, n_draws: int, rng: np.random.Generator) -> F64:
        """Draw scores from the Gaussian around the mode, (n_draws, n)."""
        noise = rng.standard_normal((len(self.unknowns), n_draws))
        errors = solve_triangular(self.factor, noise, lower=True, trans="T")
        draws: F64 = self.unknowns + errors.T
        return draws


class _WeightsAndResiduals(_Search):
    """The most probable weights of the features, and residuals of the items that have answers.

    Attributes:
        items: (n,) the items that have answers.
        d: the number of features.
        weight_sd, residual_sd: the prior standard deviations of a weight and of a residual.
    """

    def __init__(self, answers: Answers, prior: Prior, annotators: Annotators) -> None:
        renumbered, self.items = answers.of_own_items()
        super().__init__(renumbered, prior, annotators)
        self.d = prior.columns.width
        self.unknowns = np.zeros(self.d + len(self.items))
        self.weight_sd = np.sqrt(prior.variance * prior.share / max(self.d, 1))
        self.residual_sd = np.sqrt(prior.variance * (1 - prior.share))
        self._features = prior.columns.values[self.items] * self.weight_sd

    def scores(self, unknowns: F64) -> F64:
        """Compute scores (n, ...) from unknowns (d + n, ...)."""
        residuals = self.residual_sd * unknowns[self.d :]
        scores: F64 = self._features @ unknowns[: self.d] + residuals
        return scores

    def _transposed(self, slope: F64) -> F64:
        """Compute the derivative in each unknown from the derivative in each score."""
        return np.concatenate((self._features.T @ slope, self.residual_sd * slope))

    def step(self) -> F64:
        """Compute Newton's step of the unknowns."""
        slope = self._transposed(self.at.slope) - self.unknowns
        return self._solve(slope[:, None])[:, 0]

    def with_draws(self, rng: np.random.Generator) -> F64:
        """Return the most probable unknowns, then draws, (d + n, 1 + draws)."""
        m, n = len(self.at.weight), len(self.items)
        noise = np.sqrt(self.at.weight)[:, None] * rng.standard_normal((m, _N_DRAWS_OF_MANY))
        edges = self.answers.edges
        ends = np.concatenate((edges.i, edges.j))
        signs = np.repeat([1.0, -1.0], m)
        G = sparse.csr_array((signs, (np.tile(np.arange(m), 2), ends)), shape=(m, n))
        perturbed = self._transposed(G.T @ noise)
        perturbed += rng.standard_normal(perturbed.shape)
        mode = self.unknowns[:, None]
        return np.hstack((mode, mode + self._solve(perturbed)))

    def _solve(self, right: F64) -> F64:
        """Solve (I + A^T H A) x = right for each column by preconditioned conjugate gradients."""
        edges = self.answers.edges
        H = laplacian(edges.i, edges.j, self.at.weight, len(self.items))
        stiffness = H.diagonal()
        diagonal = ((self._features**2).T @ stiffness, self.residual_sd**2 * stiffness)
        precondition = 1 / (1 + np.concatenate(diagonal))[:, None]
        x = np.zeros_like(right)
        residual = right.copy()
        direction = precondition * residual
        product = (residual * direction).sum(axis=0)
        goal = _PRECISION**2 * np.maximum((right * right).sum(axis=0), _TINY)
        for _ in range(_MOST_ITERATIONS):
            image = direction + self._transposed(H @ self.scores(direction))
            length = product / np.maximum((direction * image).sum(axis=0), _TINY)
            x += length * direction
            residual -= length * image
            if ((residual * residual).sum(axis=0) < goal).all():
                break
            downhill = precondition * residual
            next_product = (residual * downhill).sum(axis=0)
            direction = downhill + next_product / np.maximum(product, _TINY) * direction
            product = next_product
        return x


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
    mode = Mode(answers, prior, annotators, start)
    mode.climb(close)
    return mode


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
    return Posterior(mode.unknowns, covariance, draws, mode.annotators, mode.prior)


def fit_many(answers: Answers, prior: Prior, annotators: Annotators, *, seed: int) -> Posterior:
    """Fit the scores of many items without a covariance, and draw from their posterior.

    Cost: about 20 ms an iteration of the draws for 100,000 answers; memory for 64 numbers an item.
    """
    rng = np.random.default_rng(seed)
    mode = _WeightsAndResiduals(answers, prior, annotators)
    mode.climb(_CLOSE_OF_MANY)
    unknowns = mode.with_draws(rng)
    weights = (unknowns[: mode.d] * mode.weight_sd).astype(np.float32)
    mode_and_draws: F32 = weights.T @ prior.columns.values.T.astype(np.float32)
    for draw in mode_and_draws[1:]:  # one by one: all noise would be as large as the draws
        draw += mode.residual_sd.astype(np.float32) * rng.standard_normal(len(draw), np.float32)
    mode_and_draws[:, mode.items] = mode.scores(unknowns).T
    scores = mode_and_draws[0].astype(np.float64)
    return Posterior(scores, None, mode_and_draws[1:], mode.annotators, mode.prior)


def fit_weights(
    answers: Answers, prior: Prior, annotators: Annotators, *, seed: int
) -> tuple[F64, F64]:
    """Fit the weights of the features: return their means, (d,), and draws, (k, d).

    Cost: that of `fit_many`.
    """
    mode = _WeightsAndResiduals(answers, prior, annotators)
    mode.climb(_CLOSE_OF_MANY)
    weights = mode.with_draws(np.random.default_rng(seed))[: mode.d].T * mode.weight_sd
    return weights[0], weights[1:]
