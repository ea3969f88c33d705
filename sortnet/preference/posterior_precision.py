"""The precision matrix of the posterior at a point, factorised or as a linear operator.

The unknowns are d weights of features, n residuals of items and the side biases of a annotators;
if models share errors, also d weights and n residuals of these errors. Shapes leave these out.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sortnet.core import F64, I64
from sortnet.preference.vote_arrays import Votes

_VOTES = 1_000_000  # votes in a block; each vote has nine second derivatives or more


class Answers(Protocol):
    """The attributes of a `Problem` that the precision is computed from."""

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
    """The precision matrix of the posterior, written out and factorised (Cholesky)."""

    def __init__(self, problem: Answers, weight: F64, precision: F64) -> None:
        size = problem.size
        i, j, x = problem.curvature(weight)
        curvature = np.asarray(np.bincount(i * size + j, x, size * size), np.float64)
        curvature = curvature.reshape(size, size)
        H = problem.pull_back(problem.pull_back(curvature).T)
        H[np.diag_indices_from(H)] += precision
        self._problem = problem
        self._factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, rhs: F64) -> F64:
        """Solve precision x = rhs: the product of the covariance and the right side."""
        solution: F64 = cho_solve(self._factor, rhs, check_finite=False)
        return solution

    def log_determinant(self) -> float:
        """The logarithm of the determinant of the precision."""
        return float(2 * np.log(np.diag(self._factor[0])).sum())

    def root(self, rng: np.random.Generator) -> F64:
        """A matrix R whose product RᵀR is the covariance of the unknowns."""
        del rng
        size = len(self._factor[0])
        root: F64 = solve_triangular(self._factor[0], np.eye(size), lower=True, check_finite=False)
        return root

    def covariance(self) -> F64:
        """The covariance of the scores, side biases and shared errors."""
        root = self._problem.to_scores(self.root(np.random.default_rng(0)))
        return root.T @ root

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """(k, d + n + a) draws of the unknowns, from the posterior shifted to mean zero."""
        noise = rng.standard_normal((len(self._factor[0]), k))
        draws = solve_triangular(self._factor[0], noise, lower=True, trans="T", check_finite=False)
        return np.ascontiguousarray(draws.T)


class Large:
    """The precision as a linear operator, never written out; variances are estimated from draws."""

    def __init__(self, problem: Answers, weight: F64, precision: F64) -> None:
        size = problem.size
        self._problem = problem
        self._weight = weight
        self._curvature = sparse.csr_array((size, size))
        for start in range(0, len(problem.votes), _VOTES):
            i, j, x = problem.curvature(weight, slice(start, start + _VOTES))
            of_block = sparse.csr_array(sparse.coo_array((x, (i, j)), shape=(size, size)))
            self._curvature = self._curvature + of_block if start else of_block
        self._precision = precision
        self._diagonal = self._precision + problem.diagonal(self._curvature.diagonal())

    def solve(self, rhs: F64) -> F64:
        """Solve precision x = rhs: the product of the covariance and the right side."""
        solution: F64 = self._solve_rows(np.atleast_2d(rhs.T)).T.reshape(rhs.shape)
        return solution

    def root(self, rng: np.random.Generator) -> F64:
        """(16, d + n + a) a matrix R whose product RᵀR estimates the covariance of the unknowns."""
        n_draws = 16
        root: F64 = self.draw(n_draws, rng) / n_draws**0.5
        return root

    def covariance(self) -> None:
        """Return None, because the covariance is too large to be written out."""
        return None

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """(k, d + n + a) draws of the unknowns, from the posterior shifted to mean zero.

        The right side is noise with the precision as its covariance; the solution has the
        covariance of the posterior.
        """
        problem = self._problem
        spread = np.sqrt(self._weight)
        # The noise of one draw is made at a time: for ten million answers, the noise of all draws
        # would take gigabytes.
        noise = (rng.standard_normal(len(spread)) * spread for _ in range(k))
        slopes = np.stack([problem.summed(noise_of_draw) for noise_of_draw in noise])
        prior = rng.standard_normal((k, len(self._precision))) * np.sqrt(self._precision)
        return self._solve_rows(problem.pull_back(slopes) + prior)

    def _times(self, x: F64) -> F64:
        """(k, d + n + a) the product of each row and the precision."""
        scores = self._problem.to_scores(x)
        product: F64 = self._problem.pull_back((self._curvature @ scores.T).T)
        return product + x * self._precision

    def _solve_rows(self, rhs: F64, tolerance: float = 1e-5, steps: int = 200) -> F64:
        """(k, d + n + a) the product of each row and the covariance, by conjugate gradients.

        The diagonal is the preconditioner. Names are the usual ones: x is the solution, r the
        residual, y the preconditioned residual, p the search direction.
        """
        x = np.zeros_like(rhs)
        r = rhs.copy()
        y = r / self._diagonal
        p = y.copy()
        ry = _products_of_rows(r, y)
        small_enough = tolerance * np.sqrt(_products_of_rows(rhs, rhs).max())
        for _ in range(steps):
            if np.sqrt(_products_of_rows(r, r).max()) <= small_enough:
                break
            Ap = self._times(p)
            alpha = ry / np.maximum(_products_of_rows(p, Ap), 1e-300)
            x += alpha * p
            r -= alpha * Ap
            y = r / self._diagonal
            ry_before = ry
            ry = _products_of_rows(r, y)
            p = y + (ry / np.maximum(ry_before, 1e-300)) * p
        return x


Precision: TypeAlias = Dense | Large


def _products_of_rows(a: F64, b: F64) -> F64:
    """(k, 1) scalar products: row i of a with row i of b."""
    product: F64 = np.einsum("ij,ij->i", a, b)[:, None]
    return product
