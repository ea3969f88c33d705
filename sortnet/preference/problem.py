"""The likelihood of the answers as a function of the unknowns, and the posterior's precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize_scalar

from sortnet.preference.likelihood import Likelihood, answers, genuine
from sortnet.preference.reliability import Annotators, reliabilities, side_spread
from sortnet.preference.vote_arrays import Votes, unseen, unseen_in_blocks
from sortnet.types import F64, I64

_VOTES = 1_000_000  # whose second derivatives, nine each, are written out at once
DENSE = 1_000  # unknowns up to which the posterior's covariance is kept
_LOG_TIE = np.log(0.05), np.log(20.0)  # of the tie threshold
# Priors are tried of these shares of the features in the scores' variance, and of these factors of
# the matched variance; the most likely ones are kept, with at least so much of the best's odds.
_SHARES = {0.01: 2.0, 0.3: 1.0, 0.6: 1.5, 0.85: 1.5, 0.998: 0.5}  # with odds before any answer
_FACTORS = (0.3, 1.0, 3.0)
_MOST_PRIORS = 8
_LIKELY = 0.02
_HYPER = 1.0  # standard deviation of the logarithm of that variance around the first guess


@dataclass(frozen=True)
class Prior:
    """Variances of the prior: of a feature's weight, and of an item's residual."""

    weight: float
    residual: float

    def total(self, d: int) -> float:
        """Variance of an item's score, given d standardised features."""
        return d * self.weight + self.residual


def first_guess(d: int) -> Prior:
    """The prior before any answer: scores vary more than the noise, mostly by features."""
    return Prior(2 / d, 0.15) if d else Prior(1.0, 2.0)


@dataclass(frozen=True, eq=False)
class Scales:
    """Hyperparameters of a fit, chosen by the answers.

    Attributes:
        priors: of the scores, those that are likely.
        odds: (k,) their probabilities.
        annotators: their reliabilities and blind shares, and the prior spread of their side biases.
        tie: the tie threshold.
        ties: share of ties among the answers.
    """

    priors: tuple[Prior, ...]
    odds: F64
    annotators: Annotators
    tie: float = 0.0
    ties: float = 0.0

    @property
    def residual(self) -> float:
        """The expected variance of an item's residual."""
        return float(self.odds @ [prior.residual for prior in self.priors])

    def of(self, n_annotators: int) -> Scales:
        """The same for more annotators: new ones are average."""
        return replace(self, annotators=self.annotators.padded(n_annotators))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same as arrays by name; see `from_arrays`."""
        return {
            "priors": np.array([(prior.weight, prior.residual) for prior in self.priors]),
            "odds": self.odds,
            "annotators": np.array(list(vars(self.annotators).values())),
            "ties": np.array([self.tie, self.ties]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Scales:
        """What `arrays` said."""
        priors = tuple(Prior(*prior) for prior in arrays["priors"].tolist())
        return cls(
            priors, arrays["odds"], Annotators(*arrays["annotators"]), *arrays["ties"].tolist()
        )


class Part(NamedTuple):
    """The posterior under one prior."""

    theta: F64
    mean: F64  # (n + a,)
    covariance: F64 | None
    draws: F64
    weights: F64  # (draws, d)
    moved: F64  # (draws, d) how the uncertainty of the reliabilities moves them


@dataclass(frozen=True, eq=False)
class Problem:
    """The answers' likelihood as a function of the unknowns: weights, residuals, biases."""

    features: F64  # (n, d)
    votes: Votes
    n_annotators: int
    scales: Scales

    @property
    def large(self) -> bool:
        """Whether the precision is never written out."""
        return sum(self.features.shape) + self.n_annotators > DENSE

    def solver(self, weight: F64, prior: Prior) -> _Dense | _Large:
        """The posterior's precision, given the weight of each answer."""
        return (_Large if self.large else _Dense)(self, weight, prior)

    def precision(self, prior: Prior) -> F64:
        """(d + n + a,) inverse variances of the prior, in the order of the unknowns."""
        n, d = self.features.shape
        scores = np.repeat([1 / prior.weight, 1 / prior.residual], [d, n])
        return np.append(scores, self.scales.annotators.side_sd**-2.0)

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

    @cached_property
    def reliability(self) -> F64:
        """(m,) of who gave each answer."""
        return self.scales.annotators.reliability[self.votes.annotator]

    def z(self, theta: F64) -> F64:
        """(m,) c (s_left - s_right) + b of each answer."""
        v, s, n = self.votes, self.to_scores(theta), len(self.features)
        return self.reliability * (s[v.left] - s[v.right]) + s[n + v.annotator]

    def likelihood(self, theta: F64) -> Likelihood:
        """Of every answer."""
        scales = self.scales
        blind = scales.annotators.blind[self.votes.annotator]
        seen = answers(self.z(theta), self.votes.target, scales.tie, blind, scales.ties)
        weight = self.votes.weight
        return seen if weight is None else Likelihood(*(weight * each for each in seen))

    def newton(self, theta: F64, prior: Prior, *, steps: int) -> F64:
        """The mode of the posterior, or a few steps towards it."""
        precision = self.precision(prior)

        def loss(theta: F64) -> tuple[float, Likelihood]:
            seen = self.likelihood(theta)
            return float(0.5 * precision @ theta**2 - seen.log_p.sum()), seen

        before, seen = loss(theta)
        for _ in range(steps):
            slope = self.pull_back(self.summed(seen.slope)) - precision * theta
            step = self.solver(seen.weight, prior).solve(slope)
            size, (after, then) = 1.0, loss(theta + step)
            while after > before and size > 1e-3:
                size /= 2
                after, then = loss(theta + size * step)
            if before - after <= 1e-9 * (1 + abs(before)):
                break
            theta, before, seen = theta + size * step, after, then
        return theta

    def summed(self, pull: F64) -> F64:
        """(n + a,) sums of the votes' pulls on scores and biases."""
        v, n = self.votes, len(self.features)
        scaled = pull * self.reliability
        items = np.bincount(v.left, scaled, n) - np.bincount(v.right, scaled, n)
        return np.append(items, np.bincount(v.annotator, pull, self.n_annotators))

    def curvature(self, weight: F64) -> tuple[I64, I64, F64]:
        """Minus the second derivatives of the log-likelihood in scores and biases, as the rows,
        columns and values of a matrix (n + a, n + a); duplicate entries are summed.
        """
        v, w, c, n = self.votes, weight, self.reliability, len(self.features)
        row = (v.left, v.right, n + v.annotator)
        value = (c, -c, np.ones(len(v)))
        entries = [(row[i], row[j], w * value[i] * value[j]) for i in range(3) for j in range(3)]
        i, j, x = (np.concatenate(part) for part in zip(*entries, strict=True))
        return i, j, x

    def around(self, theta: F64, prior: Prior, draws: int, rng: np.random.Generator) -> Part:
        """Laplace's approximation, widened by the uncertainty of the reliabilities."""
        at = self.solver(self.likelihood(theta).weight, prior)
        unknowns = theta + at.draw(draws, rng)
        mean, drawn = self.to_scores(theta), self.to_scores(unknowns)
        covariance, d = at.covariance(), self.features.shape[1]
        moves = np.zeros_like(unknowns[:, :d])
        if self.n_annotators > 1 and len(self.votes):
            pulled = self.pulled_by_reliability(theta)
            noise = rng.standard_normal((draws, self.n_annotators))
            moved = self.moved(noise @ pulled, at)  # of thousands of annotators, a few draws
            drawn += self.to_scores(moved)
            moves = moved[:, :d]
            if covariance is not None:
                moved = self.to_scores(self.moved(pulled.toarray(), at))
                covariance = covariance + moved.T @ moved
        return Part(theta, mean, covariance, drawn, unknowns[:, :d], moves)

    def moved(self, pulled: F64, at: _Dense | _Large) -> F64:
        """(k, d + n + a) how pulls on scores and biases, (k, n + a), move the mode."""
        return at.solve(self.pull_back(pulled).T).T

    def pulled_by_reliability(self, theta: F64) -> sparse.csr_array:
        """(a, n + a) how one standard deviation of each reliability pulls scores and biases."""
        v, n, a = self.votes, len(self.features), self.n_annotators
        s = self.to_scores(theta)
        gap = s[v.left] - s[v.right]
        _, slope, weight = self.likelihood(theta)
        on_item, on_side = slope - weight * gap * self.reliability, -weight * gap
        pull = np.concatenate((on_item, -on_item, on_side))
        who = np.tile(v.annotator, 3)
        pull *= self.scales.annotators.reliability_sd[who]
        what = np.concatenate((v.left, v.right, n + v.annotator))
        return sparse.csr_array(sparse.coo_array((pull, (who, what)), shape=(a, n + a)))

    def matched_scales(self, theta: F64, variance: F64) -> Scales:
        """The scales of side biases and ties, given the scores."""
        a, scales = self.n_annotators, self.scales
        if scales.ties:
            z, target = self.z(theta), self.votes.target
            found = minimize_scalar(
                lambda log: -genuine(z, target, np.exp(log)).log_p.sum(),
                bounds=_LOG_TIE,
                method="bounded",
                options={"xatol": 0.02},
            )
            scales = replace(scales, tie=float(np.exp(found.x)))
        side_sd = side_spread((theta**2 + variance)[-a:])
        return replace(scales, annotators=replace(scales.annotators, side_sd=side_sd))

    def matched_annotators(self, theta: F64, root: F64) -> Annotators:
        """Reliabilities, by comparing answers with what the scores would be without them."""
        v, n, s, c = self.votes, len(self.features), self.to_scores(theta), self.reliability
        _, slope, weight = self.likelihood(theta)
        gap, slope, weight = s[v.left] - s[v.right], c * slope, c**2 * weight
        if self.large:
            variance = np.sum((root[:, v.left] - root[:, v.right]) ** 2, axis=0)
            gap, variance = unseen(gap, variance, slope, weight)
        else:
            gap, variance = unseen_in_blocks(gap, root.T @ root, v, slope, weight)
        return reliabilities(
            self.scales.annotators,
            gap,
            variance,
            s[n + v.annotator],
            v,
            self.scales.tie,
            self.scales.ties,
        )

    def likely_priors(self, theta: F64, matched: Prior) -> tuple[tuple[Prior, ...], F64]:
        """Priors of about the matched total variance, by their evidence; the likeliest first."""
        if self.large:
            return (matched,), np.ones(1)
        d = self.features.shape[1]
        total = matched.total(d)
        tried = [
            Prior(total * factor * share / max(d, 1) or 1.0, total * factor * (1 - share))
            for share in (_SHARES if d else {0.0: 1.0})
            for factor in _FACTORS
        ]
        evidence = np.array([self.evidence(theta, prior) for prior in tried])
        if d:
            evidence += np.log(np.repeat(list(_SHARES.values()), len(_FACTORS)))
        odds = np.exp(evidence - evidence.max())
        odds /= odds.sum()
        order = [k for k in np.argsort(-odds)[:_MOST_PRIORS] if odds[k] >= _LIKELY * odds.max()]
        return tuple(tried[k] for k in order), odds[order] / odds[order].sum()

    def evidence(self, theta: F64, prior: Prior) -> float:
        """Log-probability of the answers under a prior, and of the prior's scale, by Laplace."""
        theta = self.newton(theta, prior, steps=2)
        precision, seen = self.precision(prior), self.likelihood(theta)
        log_p = seen.log_p.sum() - 0.5 * precision @ theta**2 + 0.5 * np.log(precision).sum()
        log_p -= 0.5 * _Dense(self, seen.weight, prior).log_determinant()
        d = self.features.shape[1]
        scale = np.log(prior.total(d) / first_guess(d).total(d))
        return float(log_p - 0.5 * (scale / _HYPER) ** 2)


class _Dense:
    """The posterior's precision at a point, factorised."""

    def __init__(self, problem: Problem, weight: F64, prior: Prior) -> None:
        n, d = problem.features.shape
        i, j, x = problem.curvature(weight)
        size = n + problem.n_annotators
        curvature = np.bincount(i * size + j, x, size * size).reshape(size, size)
        self._problem = problem
        H = np.empty((d + size, d + size))
        H[d:, d:] = curvature
        H[:d, d:] = problem.features.T @ curvature[:n]
        H[d:, :d] = H[:d, d:].T
        H[:d, :d] = H[:d, d : d + n] @ problem.features
        H[np.diag_indices_from(H)] += problem.precision(prior)
        self._factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, rhs: F64) -> F64:
        solution: F64 = cho_solve(self._factor, rhs, check_finite=False)
        return solution

    def log_determinant(self) -> float:
        return float(2 * np.log(np.diag(self._factor[0])).sum())

    def root(self, rng: np.random.Generator) -> F64:
        """R with RᵀR the covariance of the unknowns."""
        del rng
        size = len(self._factor[0])
        root: F64 = solve_triangular(self._factor[0], np.eye(size), lower=True, check_finite=False)
        return root

    def covariance(self) -> F64:
        root = self._problem.to_scores(self.root(np.random.default_rng(0)))
        return root.T @ root

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """(k, d + n + a) draws around zero."""
        noise = rng.standard_normal((len(self._factor[0]), k))
        drawn = solve_triangular(self._factor[0], noise, lower=True, trans="T", check_finite=False)
        return np.ascontiguousarray(drawn.T)


class _Large:
    """The same precision by its products only; variances are estimated from draws."""

    def __init__(self, problem: Problem, weight: F64, prior: Prior) -> None:
        n, votes = len(problem.features), problem.votes
        self._problem, self._weight = problem, weight
        size = n + problem.n_annotators
        self._curvature = sparse.csr_array((size, size))
        for at in range(0, len(votes), _VOTES):
            some = np.arange(at, min(at + _VOTES, len(votes)))
            i, j, x = replace(problem, votes=votes.where(some)).curvature(weight[some])
            part = sparse.csr_array(sparse.coo_array((x, (i, j)), shape=(size, size)))
            self._curvature = self._curvature + part if at else part
        self._precision = problem.precision(prior)
        diagonal = self._curvature.diagonal()
        square = diagonal[:n] @ problem.features**2
        self._diagonal = self._precision + np.concatenate((square, diagonal))

    def solve(self, rhs: F64) -> F64:
        solution: F64 = self._gradients(np.atleast_2d(rhs.T)).T.reshape(rhs.shape)
        return solution

    def root(self, rng: np.random.Generator) -> F64:
        """(16, d + n + a) R with RᵀR about the covariance of the unknowns."""
        return self.draw(16, rng) / 4

    def covariance(self) -> None:
        return None

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """Draw from the Gaussian by perturbing the data and the prior, and solving."""
        p = self._problem
        spread = np.sqrt(self._weight)
        # Row by row: of ten million answers all rows would take gigabytes.
        noise = (rng.standard_normal(len(spread)) * spread for _ in range(k))
        slopes = np.stack([p.summed(e) for e in noise])
        prior = rng.standard_normal((k, len(self._precision))) * np.sqrt(self._precision)
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
