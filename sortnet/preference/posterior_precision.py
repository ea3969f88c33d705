"""The posterior's precision at a point: written out, or by its products only."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sortnet.core import F64, I64
from sortnet.preference.vote_arrays import Votes

_VOTES = 1_000_000  # whose second derivatives, nine each or more, are written out at once


class Answers(Protocol):
    """What is needed of a `Problem`; see there."""

    @property
    def votes(self) -> Votes: ...
    @property
    def size(self) -> int: ...
    def to_scores(self, theta: F64) -> F64: ...
    def pull_back(self, slope: F64) -> F64: ...
    def diagonal(self, curvature: F64) -> F64: ...
    def summed(self, pull: F64) -> F64: ...
    def curvature(self, weight: F64, some: slice = ...) -> tuple[I64, I64, F64]: ...


class Dense:
    """The posterior's precision at a point, factorised."""

    def __init__(self, problem: Answers, weight: F64, precision: F64) -> None:
        i, j, x = problem.curvature(weight)
        size = problem.size
        curvature = np.asarray(np.bincount(i * size + j, x, size * size), np.float64)
        curvature = curvature.reshape(size, size)
        self._problem = problem
        H = problem.pull_back(problem.pull_back(curvature).T)
        H[np.diag_indices_from(H)] += precision
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


class Large:
    """The same precision by its products only; variances are estimated from draws."""

    def __init__(self, problem: Answers, weight: F64, precision: F64) -> None:
        votes, size = problem.votes, problem.size
        self._problem, self._weight = problem, weight
        self._curvature = sparse.csr_array((size, size))
        for at in range(0, len(votes), _VOTES):
            some = slice(at, at + _VOTES)
            i, j, x = problem.curvature(weight, some)
            part = sparse.csr_array(sparse.coo_array((x, (i, j)), shape=(size, size)))
            self._curvature = self._curvature + part if at else part
        self._precision = precision
        self._diagonal = self._precision + problem.diagonal(self._curvature.diagonal())

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


Precision: TypeAlias = Dense | Large


def _rows(a: F64, b: F64) -> F64:
    """(k, 1) products of rows."""
    product: F64 = np.einsum("ij,ij->i", a, b)[:, None]
    return product
