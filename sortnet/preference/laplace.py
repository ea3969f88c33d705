"""Scores from answers: features, residuals of items, biases and reliability of annotators."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import log_ndtr

from sortnet.preference.one_thread import one_blas_thread
from sortnet.preference.posterior import Posterior, Votes
from sortnet.types import F64, I64

DENSE = 1_000  # unknowns up to which the posterior's covariance is kept
DRAWS = 48
_ROUNDS = 12  # of fitting the prior's scales to the answers
_RELIABILITIES = np.geomspace(0.05, 8.0, 60)  # the candidates
_RELIABILITY_SPREAD = 0.35  # prior standard deviation, relative to the common reliability
_BELIEF = 10.0  # unknowns that the first guess of a prior scale counts as
_CLEAR = 2.0  # nats by which another reliability must explain an annotator's answers better


@dataclass(frozen=True)
class Prior:
    """Variances of the prior: of a feature's weight, of an item's residual, of a side bias."""

    weight: float
    residual: float
    side: float = 0.01

    def precision(self, d: int, n: int, a: int) -> F64:
        """(d + n + a,) inverse variances, in the order of the unknowns."""
        parts = (d, self.weight), (n, self.residual), (a, self.side)
        return np.concatenate([np.full(size, 1 / variance) for size, variance in parts])


def first_guess(d: int) -> Prior:
    """The prior before any answer: scores vary more than the noise, mostly by features."""
    return Prior(2 / d, 0.15) if d else Prior(1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Scales:
    """Hyperparameters of a fit: the prior's variances, and the annotators' reliability."""

    prior: Prior
    reliability: F64  # (a,)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit: the posterior, and the mode as the start of the next fit."""

    posterior: Posterior
    theta: F64  # (d + n + a,) the mode: weights, residuals, biases


@one_blas_thread()
def fit(
    features: F64,
    votes: Votes,
    n_annotators: int,
    *,
    scales: Scales | None = None,
    start: F64 | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Fitted:
    """The posterior of the items' scores given all answers.

    s = Φw + u with w ~ N(0, α²), u ~ N(0, υ²); an answer has the probability
    Φ(c (s_left - s_right) + b) for "left", a tie counts half of each. The mode is unique and found
    by Newton's method; the posterior is Laplace's approximation around it. Without features (d = 0)
    there are residuals only.

    Args:
        features: (n, d) roughly standardised.
        votes: the answers.
        n_annotators: a, the number of annotators.
        scales: α², υ² and the reliabilities c. None: choose them, α² and υ² by expectation
            maximisation from a first guess and c by maximum a posteriori, alternately.
        start: start of Newton's method, from an earlier fit, perhaps with fewer annotators.
        seed: of the draws.
        draws: number of draws.

    Cost: up to a thousand unknowns, a few factorisations of (d + n + a)², and about thirty if
    the scales are chosen; above, conjugate gradients, linear in answers and in n d.
    """
    n, d = features.shape
    rng = np.random.default_rng(seed)
    solver = _Dense if d + n + n_annotators <= DENSE else _Large
    theta = np.zeros(d + n + n_annotators)
    theta[: 0 if start is None else len(start)] = () if start is None else start
    if scales is None:
        scales = choose_scales(features, votes, n_annotators, seed=seed)
    reliability = np.append(scales.reliability, np.ones(n_annotators - len(scales.reliability)))
    problem = _Problem(features, votes, n_annotators, reliability)
    theta = problem.newton(theta, scales.prior, solver, steps=30)
    at_mode = solver(problem, theta, scales.prior)
    posterior = Posterior(
        problem.to_scores(theta),
        at_mode.covariance(),
        problem.to_scores(theta + at_mode.draw(draws, rng)),
        reliability,
        n,
        rng,
    )
    return Fitted(posterior, theta)


@one_blas_thread()
def choose_scales(features: F64, votes: Votes, n_annotators: int, *, seed: int = 0) -> Scales:
    """Choose the scales by the answers; with few answers they stay near the first guess.

    Cost: twelve rounds of two Newton steps and the posterior's variances.
    """
    n, d = features.shape
    rng = np.random.default_rng(seed)
    solver = _Dense if d + n + n_annotators <= DENSE else _Large
    problem = _Problem(features, votes, n_annotators, np.ones(n_annotators))
    prior, theta = first_guess(d), np.zeros(d + n + n_annotators)
    for _ in range(_ROUNDS if len(votes) else 0):
        theta = problem.newton(theta, prior, solver, steps=2)
        spread = solver(problem, theta, prior).variance(rng)
        prior = _matched_prior(prior, theta, spread, d, n)
        if n_annotators > 1:
            problem = replace(problem, reliability=problem.best_reliability(theta))
    return Scales(prior, problem.reliability)


def _matched_prior(prior: Prior, theta: F64, variance: F64, d: int, n: int) -> Prior:
    """MacKay's update: squares of the unknowns over the number of well-determined ones."""
    guess = first_guess(d)

    def matched(part: slice, now: float, guessed: float) -> float:
        determined = np.sum(1 - np.minimum(variance[part] / now, 1))
        return float((theta[part] @ theta[part] + _BELIEF * guessed) / (determined + _BELIEF))

    return Prior(
        matched(slice(d), prior.weight, guess.weight) if d else prior.weight,
        matched(slice(d, d + n), prior.residual, guess.residual),
        matched(slice(d + n, None), prior.side, guess.side),
    )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The answers' likelihood as a function of the unknowns: weights, residuals, biases."""

    features: F64  # (n, d)
    votes: Votes
    n_annotators: int
    reliability: F64  # (a,) reliabilities c

    def to_scores(self, theta: F64) -> F64:
        """(..., d + n + a) unknowns -> (..., n + a) scores and biases."""
        d = self.features.shape[1]
        out: F64 = theta[..., d:].copy()
        out[..., : len(self.features)] += theta[..., :d] @ self.features.T
        return out

    def pull_back(self, slope: F64) -> F64:
        """The transpose of `to_scores`."""
        n = len(self.features)
        return np.concatenate((slope[..., :n] @ self.features, slope), axis=-1)

    def z(self, theta: F64) -> F64:
        """(m,) c (s_left - s_right) + b of each answer."""
        v, s, n = self.votes, self.to_scores(theta), len(self.features)
        return self.reliability[v.annotator] * (s[v.left] - s[v.right]) + s[n + v.annotator]

    def loss(self, theta: F64, precision: F64) -> float:
        z, t = self.z(theta), self.votes.target
        likelihood = t @ log_ndtr(z) + (1 - t) @ log_ndtr(-z)
        return float(0.5 * precision @ theta**2 - likelihood)

    def newton(self, theta: F64, prior: Prior, solver: Any, *, steps: int) -> F64:
        """The mode of the log-concave posterior, or a few steps towards it."""
        precision = prior.precision(self.features.shape[1], len(self.features), self.n_annotators)
        before = self.loss(theta, precision)
        for _ in range(steps):
            step = solver(self, theta, prior).solve(self.slope(theta) - precision * theta)
            size, after = 1.0, self.loss(theta + step, precision)
            while after > before and size > 1e-3:
                size /= 2
                after = self.loss(theta + size * step, precision)
            if before - after <= 1e-9 * (1 + abs(before)):
                break
            theta, before = theta + size * step, after
        return theta

    def slope(self, theta: F64) -> F64:
        """(d + n + a,) gradient of the log-likelihood."""
        z, t = self.z(theta), self.votes.target
        pull = t * _mills(z) - (1 - t) * _mills(-z)
        return self.pull_back(self.summed(pull))

    def summed(self, pull: F64) -> F64:
        """(n + a,) sums of the votes' pulls on scores and biases."""
        v, n = self.votes, len(self.features)
        scaled = pull * self.reliability[v.annotator]
        items = np.bincount(v.left, scaled, n) - np.bincount(v.right, scaled, n)
        return np.append(items, np.bincount(v.annotator, pull, self.n_annotators))

    def weights(self, theta: F64) -> F64:
        """(m,) minus the second derivative of each answer's log-likelihood in its z."""
        z, t = self.z(theta), self.votes.target
        up, down = _mills(z), _mills(-z)
        return t * up * (z + up) + (1 - t) * down * (down - z)

    def curvature(self, theta: F64) -> tuple[I64, I64, F64]:
        """Minus the second derivatives of the log-likelihood in scores and biases, as the rows,
        columns and values of a matrix (n + a, n + a); duplicate entries are summed.
        """
        v, w, n = self.votes, self.weights(theta), len(self.features)
        c = self.reliability[v.annotator]
        row = (v.left, v.right, n + v.annotator)
        value = (c, -c, np.ones(len(v)))
        entries = [(row[i], row[j], w * value[i] * value[j]) for i in range(3) for j in range(3)]
        i, j, x = (np.concatenate(part) for part in zip(*entries, strict=True))
        return i, j, x

    def best_reliability(self, theta: F64) -> F64:
        """(a,) the most probable reliability of each annotator, given the scores."""
        v, s, n = self.votes, self.to_scores(theta), len(self.features)
        gap, bias = s[v.left] - s[v.right], s[n + v.annotator]
        total = np.empty((len(_RELIABILITIES), self.n_annotators))
        for k, c in enumerate(_RELIABILITIES):
            z = c * gap + bias
            each = v.target * log_ndtr(z) + (1 - v.target) * log_ndtr(-z)
            total[k] = np.bincount(v.annotator, each, self.n_annotators)
        common = np.argmax(total.sum(axis=1))
        ratio = _RELIABILITIES / _RELIABILITIES[common]
        total -= 0.5 * ((ratio[:, None] - 1) / _RELIABILITY_SPREAD) ** 2
        clear = total.max(axis=0) > total[common] + _CLEAR
        chosen = np.where(clear, np.argmax(total, axis=0), common)
        best: F64 = _RELIABILITIES[chosen]
        best /= np.exp(np.log(best).mean())  # the scores absorb the common factor
        return best


def _mills(z: F64) -> F64:
    """φ(z) / Φ(z), stable in the tails."""
    ratio: F64 = np.exp(-0.5 * z * z - log_ndtr(z)) / np.sqrt(2 * np.pi)
    return ratio


class _Dense:
    """The posterior's precision at a point, factorised."""

    def __init__(self, problem: _Problem, theta: F64, prior: Prior) -> None:
        n, d = problem.features.shape
        i, j, x = problem.curvature(theta)
        size = n + problem.n_annotators
        curvature = np.bincount(i * size + j, x, size * size).reshape(size, size)
        self._problem = problem
        H = np.empty((len(theta), len(theta)))
        H[d:, d:] = curvature
        H[:d, d:] = problem.features.T @ curvature[:n]
        H[d:, :d] = H[:d, d:].T
        H[:d, :d] = H[:d, d : d + n] @ problem.features
        H[np.diag_indices_from(H)] += prior.precision(d, n, problem.n_annotators)
        self._factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, rhs: F64) -> F64:
        solution: F64 = cho_solve(self._factor, rhs, check_finite=False)
        return solution

    def _root(self) -> F64:
        """R with RᵀR the covariance of the unknowns."""
        size = len(self._factor[0])
        root: F64 = solve_triangular(self._factor[0], np.eye(size), lower=True, check_finite=False)
        return root

    def variance(self, rng: np.random.Generator) -> F64:
        variance: F64 = np.einsum("ij,ij->j", root := self._root(), root)
        return variance

    def covariance(self) -> F64:
        root = self._problem.to_scores(self._root())
        return root.T @ root

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """(k, d + n + a) draws around zero."""
        noise = rng.standard_normal((len(self._factor[0]), k))
        drawn = solve_triangular(self._factor[0], noise, lower=True, trans="T", check_finite=False)
        return np.ascontiguousarray(drawn.T)


class _Large:
    """The same precision by its products only; variances are estimated from draws."""

    def __init__(self, problem: _Problem, theta: F64, prior: Prior) -> None:
        n, d = problem.features.shape
        self._problem, self._theta = problem, theta
        i, j, x = problem.curvature(theta)
        size = n + problem.n_annotators
        self._curvature = sparse.csr_array(sparse.coo_array((x, (i, j)), shape=(size, size)))
        self._precision = prior.precision(d, n, problem.n_annotators)
        diagonal = self._curvature.diagonal()
        square = diagonal[:n] @ problem.features**2
        self._diagonal = self._precision + np.concatenate((square, diagonal))

    def solve(self, rhs: F64) -> F64:
        solution: F64 = self._gradients(rhs[None])[0]
        return solution

    def variance(self, rng: np.random.Generator) -> F64:
        spread: F64 = self.draw(16, rng).var(axis=0)
        return spread

    def covariance(self) -> None:
        return None

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """Draw from the Gaussian by perturbing the data and the prior, and solving."""
        p = self._problem
        noise = rng.standard_normal((k, len(p.votes))) * np.sqrt(p.weights(self._theta))
        slopes = np.stack([p.summed(e) for e in noise])
        prior = rng.standard_normal((k, len(self._theta))) * np.sqrt(self._precision)
        return self._gradients(p.pull_back(slopes) + prior)

    def _times(self, x: F64) -> F64:
        """(k, d + n + a) -> the same, multiplied by the precision."""
        scores = self._problem.to_scores(x)
        product: F64 = self._problem.pull_back((self._curvature @ scores.T).T)
        return product + x * self._precision

    def _gradients(self, rhs: F64, tolerance: float = 1e-5, steps: int = 200) -> F64:
        """Conjugate gradients, preconditioned by the diagonal, of many right sides at once."""
        x, r = np.zeros_like(rhs), rhs.copy()
        y = r / self._diagonal
        p, ry = y.copy(), _rows(r, y)
        enough = tolerance * np.sqrt(_rows(rhs, rhs).max())
        for _ in range(steps):
            if np.sqrt(_rows(r, r).max()) <= enough:
                break
            Ap = self._times(p)
            alpha = ry / np.maximum(_rows(p, Ap), 1e-300)
            x += alpha * p
            r -= alpha * Ap
            y = r / self._diagonal
            ry, before = _rows(r, y), ry
            p = y + (ry / np.maximum(before, 1e-300)) * p
        return x


def _rows(a: F64, b: F64) -> F64:
    """(k, 1) products of rows."""
    product: F64 = np.einsum("ij,ij->i", a, b)[:, None]
    return product
