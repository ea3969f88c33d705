"""Scores from answers: features, a residual an item, people's biases and reliability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import log_ndtr

from sortnet.preference.posterior import Posterior, Votes
from sortnet.types import F64, I64

DENSE = 1_000  # unknowns up to which the posterior's covariance is kept
DRAWS = 48
_ROUNDS = 12  # of fitting the prior's scales to the answers
_TRUST = np.geomspace(0.05, 8.0, 60)  # reliabilities considered
_TRUST_PRIOR = 0.35  # prior standard deviation of a reliability, that of all together being 1
_BELIEF = 10.0  # a prior scale's first guess counts as so many unknowns seen
_CLEAR = 2.0  # nats by which another reliability must explain a person's answers better


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
    """Before any answer: scores vary more than an answer's noise does, mostly by features."""
    return Prior(2 / d, 0.15) if d else Prior(1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Scales:
    """What a fit chooses before the scores: the prior's variances, and people's reliability."""

    prior: Prior
    trust: F64  # (a,)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit: the posterior, and what the next fit may start from."""

    posterior: Posterior
    theta: F64  # (d + n + a,) the mode: weights, residuals, biases


def fit(
    features: F64,
    votes: Votes,
    people: int,
    *,
    scales: Scales | None = None,
    start: F64 | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Fitted:
    """The posterior of the items' scores given all answers.

    s = Φw + u with w ~ N(0, α²), u ~ N(0, υ²); an answer has the probability
    Φ(c (s_left - s_right) + b) for "left", a tie counts half of each. The mode is found by
    Newton's steps (it is the only one, wherever they start), Laplace's approximation is taken
    around it. No features (d = 0) leave the residuals alone.

    Args:
        features: (n, d) about standardised.
        votes: the answers.
        people: a, how many people there are.
        scales: α², υ² and the reliabilities c; None to choose them: α² and υ² by expectation
            maximisation from a first guess, c by maximum a posteriori, in turns.
        start: where Newton's method starts; of an earlier fit, of fewer people perhaps.
        seed: of the draws.
        draws: how many.

    Cost: up to a thousand unknowns, a few factorisations of (d + n + a)², and some thirty where
    the scales are to be chosen; above, conjugate gradients, linear in answers and in n d.
    """
    n, d = features.shape
    rng = np.random.default_rng(seed)
    solver = _Dense if d + n + people <= DENSE else _Large
    theta = np.zeros(d + n + people)
    theta[: 0 if start is None else len(start)] = () if start is None else start
    if scales is None:
        scales = choose_scales(features, votes, people, seed=seed)
    trust = np.append(scales.trust, np.ones(people - len(scales.trust)))
    problem = _Problem(features, votes, people, trust)
    theta = problem.newton(theta, scales.prior, solver, steps=30)
    at_mode = solver(problem, theta, scales.prior)
    posterior = Posterior(
        problem.to_scores(theta),
        at_mode.covariance(),
        problem.to_scores(theta + at_mode.draw(draws, rng)),
        trust,
        n,
        rng,
    )
    return Fitted(posterior, theta)


def choose_scales(features: F64, votes: Votes, people: int, *, seed: int = 0) -> Scales:
    """The scales that the answers speak for; few answers leave them near the first guess.

    Cost: twelve rounds of two of Newton's steps and the posterior's variances.
    """
    n, d = features.shape
    rng = np.random.default_rng(seed)
    solver = _Dense if d + n + people <= DENSE else _Large
    problem = _Problem(features, votes, people, np.ones(people))
    prior, theta = first_guess(d), np.zeros(d + n + people)
    for _ in range(_ROUNDS if len(votes) else 0):
        theta = problem.newton(theta, prior, solver, steps=2)
        spread = solver(problem, theta, prior).variance(rng)
        prior = _matched_prior(prior, theta, spread, d, n)
        if people > 1:
            problem = replace(problem, trust=problem.best_trust(theta))
    return Scales(prior, problem.trust)


def _matched_prior(prior: Prior, theta: F64, variance: F64, d: int, n: int) -> Prior:
    """MacKay's update: squares of the unknowns over how many of them the answers determine."""
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
    people: int
    trust: F64  # (a,) reliabilities c

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
        z: F64 = self.trust[v.person] * (s[v.left] - s[v.right]) + s[n + v.person]
        return z

    def loss(self, theta: F64, precision: F64) -> float:
        z, t = self.z(theta), self.votes.target
        likelihood = t @ log_ndtr(z) + (1 - t) @ log_ndtr(-z)
        return float(0.5 * precision @ theta**2 - likelihood)

    def newton(self, theta: F64, prior: Prior, solver: Any, *, steps: int) -> F64:
        """The mode of the log-concave posterior, or some steps towards it."""
        precision = prior.precision(self.features.shape[1], len(self.features), self.people)
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
        """(d + n + a,) slope of the log-likelihood."""
        z, t, v = self.z(theta), self.votes.target, self.votes
        pull = t * _mills(z) - (1 - t) * _mills(-z)
        n = len(self.features)
        scaled = pull * self.trust[v.person]
        items = np.bincount(v.left, scaled, n) - np.bincount(v.right, scaled, n)
        return self.pull_back(np.append(items, np.bincount(v.person, pull, self.people)))

    def weights(self, theta: F64) -> F64:
        """(m,) minus the second derivative of each answer's log-likelihood in its z."""
        z, t = self.z(theta), self.votes.target
        up, down = _mills(z), _mills(-z)
        w: F64 = t * up * (z + up) + (1 - t) * down * (down - z)
        return w

    def curvature(self, theta: F64) -> tuple[I64, I64, F64]:
        """Minus the second derivatives of the log-likelihood in scores and biases, as the rows,
        columns and values of a matrix (n + a, n + a); what shares a place is to be added.
        """
        v, w, n = self.votes, self.weights(theta), len(self.features)
        c = self.trust[v.person]
        row = (v.left, v.right, n + v.person)
        value = (c, -c, np.ones(len(v)))
        entries = [(row[i], row[j], w * value[i] * value[j]) for i in range(3) for j in range(3)]
        i, j, x = (np.concatenate(part) for part in zip(*entries, strict=True))
        return i, j, x

    def best_trust(self, theta: F64) -> F64:
        """(a,) the most probable reliability of each person, the scores given."""
        v, s, n = self.votes, self.to_scores(theta), len(self.features)
        gap, bias = s[v.left] - s[v.right], s[n + v.person]
        total = np.empty((len(_TRUST), self.people))
        for k, c in enumerate(_TRUST):
            z = c * gap + bias
            each = v.target * log_ndtr(z) + (1 - v.target) * log_ndtr(-z)
            total[k] = np.bincount(v.person, each, self.people)
        common = np.argmax(total.sum(axis=1))
        total -= 0.5 * ((_TRUST[:, None] / _TRUST[common] - 1) / _TRUST_PRIOR) ** 2
        clear = total.max(axis=0) > total[common] + _CLEAR
        best: F64 = np.where(clear, _TRUST[np.argmax(total, axis=0)], _TRUST[common])
        best /= np.exp(np.log(best).mean())  # the scores take up what all have in common
        return best


def _mills(z: F64) -> F64:
    """φ(z) / Φ(z), also far out."""
    ratio: F64 = np.exp(-0.5 * z * z - log_ndtr(z)) / np.sqrt(2 * np.pi)
    return ratio


class _Dense:
    """The posterior's precision at a point, factorised."""

    def __init__(self, problem: _Problem, theta: F64, prior: Prior) -> None:
        n, d = problem.features.shape
        i, j, x = problem.curvature(theta)
        size = n + problem.people
        curvature = np.bincount(i * size + j, x, size * size).reshape(size, size)
        self._problem = problem
        H = np.empty((len(theta), len(theta)))
        H[d:, d:] = curvature
        H[:d, d:] = problem.features.T @ curvature[:n]
        H[d:, :d] = H[:d, d:].T
        H[:d, :d] = H[:d, d : d + n] @ problem.features
        H[np.diag_indices_from(H)] += prior.precision(d, n, problem.people)
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
        covariance: F64 = root.T @ root
        return covariance

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """(k, d + n + a) draws around zero."""
        noise = rng.standard_normal((len(self._factor[0]), k))
        drawn = solve_triangular(self._factor[0], noise, lower=True, trans="T", check_finite=False)
        return np.ascontiguousarray(drawn.T)


class _Large:
    """The same precision, known by its products only; variances are those of draws."""

    def __init__(self, problem: _Problem, theta: F64, prior: Prior) -> None:
        n, d = problem.features.shape
        self._problem, self._theta = problem, theta
        i, j, x = problem.curvature(theta)
        size = n + problem.people
        self._curvature = sparse.csr_array(sparse.coo_array((x, (i, j)), shape=(size, size)))
        self._precision = prior.precision(d, n, problem.people)
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
        """Perturbing the data and the prior and solving again draws from the Gaussian."""
        p, v = self._problem, self._problem.votes
        n = len(p.features)
        noise = rng.standard_normal((k, len(v))) * np.sqrt(p.weights(self._theta))
        c = p.trust[v.person]
        size = n + p.people
        slopes = np.empty((k, size))
        for row, e in enumerate(noise):
            items = np.bincount(v.left, c * e, n) - np.bincount(v.right, c * e, n)
            slopes[row] = np.append(items, np.bincount(v.person, e, p.people))
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
