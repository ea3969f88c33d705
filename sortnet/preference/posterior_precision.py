"""The precision matrix of the posterior at a point, factorised or as a linear operator.

The unknowns are the weights of d features, the residuals of n items and the side biases of a
annotators. If models share errors, d weights and n residuals of these errors follow. The shapes in
this module leave out the unknowns of shared errors.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from sortnet.core import F64, I64
from sortnet.preference.vote_arrays import Votes

_VOTES = 1_000_000  # votes in a block; each vote has nine second derivatives or more
_N_DRAWS = 16  # draws from which `Large` estimates the covariance
# Conjugate gradients solve precision x = rhs. They stop when the residual is smaller than this
# share of `rhs`.
_TOLERANCE = 1e-5
_MOST_STEPS = 200  # steps of conjugate gradients
_LEAST_DIVISOR = 1e-300  # keeps a divisor above 0 after the exact solution is found


class Answers(Protocol):
    """The attributes of a `Problem` from which the precision is computed."""

    @property
    def votes(self) -> Votes: ...
    @property
    def size(self) -> int: ...
    def to_scores(self, theta: F64) -> F64: ...
    def pull_back(self, slope: F64) -> F64: ...
    def diagonal(self, curvature: F64) -> F64: ...
    def summed(self, slope: F64) -> F64: ...
    def curvature(self, weight: F64, block: slice = ...) -> tuple[I64, I64, F64]: ...
    def summed_curvature(self, weight: F64) -> F64: ...


class Dense:
    """The precision matrix of the posterior, stored and factorised (Cholesky).

    The precision is H = Aᵀ C A + Λ, with the matrix A of `Problem.to_scores`, the curvature C of
    the answers in scores, biases and errors, and the diagonal prior precision Λ.

    Args:
        problem: the likelihood of the answers.
        weight: (m,) minus the second derivative of each answer's log-likelihood.
        precision: the inverse prior variances of the unknowns.
    """

    def __init__(self, problem: Answers, weight: F64, precision: F64) -> None:
        curvature = problem.summed_curvature(weight)
        H = problem.pull_back(problem.pull_back(curvature).T)
        H.flat[:: len(H) + 1] += precision  # the diagonal
        self._problem = problem
        self._factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, rhs: F64) -> F64:
        """Solve the linear system precision x = rhs for x; the result is covariance @ rhs."""
        solution: F64 = cho_solve(self._factor, rhs, check_finite=False)
        return solution

    def log_determinant(self) -> float:
        """Compute the logarithm of the determinant of the precision."""
        return float(2 * np.log(np.diag(self._factor[0])).sum())

    def root(self, rng: np.random.Generator) -> F64:
        """Return a matrix R such that RᵀR is the covariance of the unknowns.

        `rng` is not used: the matrix is exact.
        """
        del rng
        size = len(self._factor[0])
        root: F64 = solve_triangular(self._factor[0], np.eye(size), lower=True, check_finite=False)
        return root

    def covariance(self) -> F64:
        """Compute the covariance matrix of the scores, side biases and shared errors."""
        root_of_unknowns = self.root(np.random.default_rng(0))
        root = self._problem.to_scores(root_of_unknowns)
        return root.T @ root

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """Draw k vectors of the unknowns' deviations from their mean: (k, d + n + a)."""
        noise = rng.standard_normal((len(self._factor[0]), k))
        draws = solve_triangular(self._factor[0], noise, lower=True, trans="T", check_finite=False)
        return np.ascontiguousarray(draws.T)


class Large:
    """The precision of the posterior as a linear operator, if its matrix would be too large.

    Variances are estimated from draws. The arguments are the same as for `Dense`.
    """

    def __init__(self, problem: Answers, weight: F64, precision: F64) -> None:
        self._problem = problem
        self._weight = weight
        self._curvature = _sparse_curvature(problem, weight)
        self._precision = precision
        # The approximate diagonal of the precision, the preconditioner of conjugate gradients.
        self._diagonal = self._precision + problem.diagonal(self._curvature.diagonal())

    def solve(self, rhs: F64) -> F64:
        """Solve the linear system precision x = rhs for x; the result is covariance @ rhs."""
        solution: F64 = self._solve_rows(np.atleast_2d(rhs.T)).T.reshape(rhs.shape)
        return solution

    def root(self, rng: np.random.Generator) -> F64:
        """Return a (16, d + n + a) matrix R such that RᵀR estimates the unknowns' covariance."""
        root: F64 = self.draw(_N_DRAWS, rng) / _N_DRAWS**0.5
        return root

    def covariance(self) -> None:
        """Return None, because the covariance matrix would be too large."""
        return None

    def draw(self, k: int, rng: np.random.Generator) -> F64:
        """Draw k vectors of the unknowns' deviations from their mean: (k, d + n + a).

        If the covariance of a noise vector is the precision H, the solution x of H x = noise has
        the covariance H⁻¹, as the posterior has. H is the sum of the answers' curvature and the
        prior's precision, so the noise is the sum of two noises with these covariances.
        """
        problem = self._problem
        # An answer whose weight is w contributes noise of variance w, times its factors.
        sd = np.sqrt(self._weight)
        answer_noises = []
        for _ in range(k):
            # Only the noise of one draw exists at a time: for ten million answers, the noise of all
            # draws would take gigabytes.
            noise_by_answer = rng.standard_normal(len(sd)) * sd
            answer_noises.append(problem.summed(noise_by_answer))
        answer_noise = problem.pull_back(np.stack(answer_noises))
        prior_noise = rng.standard_normal((k, len(self._precision))) * np.sqrt(self._precision)
        return self._solve_rows(answer_noise + prior_noise)

    def _multiply_precision(self, vectors: F64) -> F64:
        """Multiply the precision matrix of the posterior by each of the given vectors.

        Args:
            vectors: (k, d + n + a) k vectors, each with a number for each unknown.

        Returns:
            (k, d + n + a) the product with each vector.
        """
        scores = self._problem.to_scores(vectors)
        product: F64 = self._problem.pull_back((self._curvature @ scores.T).T)
        return product + vectors * self._precision

    def _solve_rows(self, rhs: F64) -> F64:
        """Solve the linear system precision x = rhs by conjugate gradients, for each row of `rhs`.

        The diagonal of the precision is the preconditioner. Names are as in textbooks: x is the
        solution, r the residual, y the preconditioned residual, p the search direction.

        Args:
            rhs: (k, d + n + a) the vector on the right of the equals sign of each system.

        Returns:
            (k, d + n + a) the solution of each system.
        """
        x = np.zeros_like(rhs)
        r = rhs.copy()
        y = r / self._diagonal
        p = y.copy()
        ry = _products_of_rows(r, y)
        small_enough = _TOLERANCE * np.sqrt(_products_of_rows(rhs, rhs).max())
        for _ in range(_MOST_STEPS):
            if np.sqrt(_products_of_rows(r, r).max()) <= small_enough:
                break
            Ap = self._multiply_precision(p)
            alpha = ry / np.maximum(_products_of_rows(p, Ap), _LEAST_DIVISOR)
            x += alpha * p
            r -= alpha * Ap
            y = r / self._diagonal
            ry_before = ry
            ry = _products_of_rows(r, y)
            p = y + (ry / np.maximum(ry_before, _LEAST_DIVISOR)) * p
        return x


Precision: TypeAlias = Dense | Large


def _sparse_curvature(problem: Answers, weight: F64) -> sparse.csr_array:
    """Compute the curvature of the log-likelihood in scores, biases and errors: (size, size).

    The second derivatives are added up block by block, because all of them would need gigabytes.

    Args:
        problem: the likelihood of the answers.
        weight: (m,) minus the second derivative of each answer's log-likelihood.
    """
    shape = problem.size, problem.size
    curvature = sparse.csr_array(shape)
    for start in range(0, len(problem.votes), _VOTES):
        rows, columns, values = problem.curvature(weight, slice(start, start + _VOTES))
        block = sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))
        curvature = block if start == 0 else curvature + block
    return curvature


def _products_of_rows(a: F64, b: F64) -> F64:
    """Compute the scalar product of each row of a with the same row of b: (k, 1)."""
    product: F64 = np.einsum("ij,ij->i", a, b)[:, None]
    return product
