"""The likelihood of the answers as a function of the unknowns, and the posterior at its mode."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sortnet.core import F64, I64
from sortnet.preference.likelihood import Likelihood, answers, measured
from sortnet.preference.posterior_precision import Dense, Large, Precision
from sortnet.preference.scales import Prior, Scales
from sortnet.preference.set_answers import SetRows, set_likelihood
from sortnet.preference.vote_arrays import GOLD, MODEL, Votes

DENSE = 1_000  # unknowns up to which the posterior's covariance is kept
_CERTAIN = 4.0  # reliability of a gold pair's known answer
# Relative fall of the loss after which there is no other Newton step. Each squares the distance to
# the mode, so the next one would fall by its square.
_FLAT = 1e-5
_SMALLEST_STEP = 1e-3  # share of a Newton step below which it is not halved again


class PriorFit(NamedTuple):
    """The posterior under one prior.

    Attributes:
        theta: the mode.
        mean: (n + a,) scores and side biases at the mode; then, (n,), shared errors if they count.
        covariance: of these; None with too many unknowns.
        draws: (k, ...) of these.
        weight_draws: (k, d) draws of the weights of features.
        weight_shifts: (k, d) shifts of these draws by the uncertainty of the reliabilities.
    """

    theta: F64
    mean: F64
    covariance: F64 | None
    draws: F64
    weight_draws: F64
    weight_shifts: F64


class Term(NamedTuple):
    """A term of z: (m,) places among the scores, biases and shared errors, and (m,) factors."""

    place: I64
    factor: F64


@dataclass(frozen=True, eq=False)
class Problem:
    """The answers' likelihood as a function of the unknowns: weights, residuals, biases; and if
    models have answered, the weights and residuals of the errors that they share.
    """

    features: F64  # (n, d)
    votes: Votes
    n_annotators: int
    scales: Scales

    @property
    def large(self) -> bool:
        """Whether the precision is never written out."""
        return sum(self.features.shape) + self.n_annotators > DENSE

    @cached_property
    def has_shared_errors(self) -> bool:
        """Whether there are errors that models share."""
        return bool(self.votes.of_kind(MODEL).any())

    @property
    def size(self) -> int:
        """The number of scores and biases, and of shared errors."""
        n_items = len(self.features)
        n_errors = n_items if self.has_shared_errors else 0
        return n_items + self.n_annotators + n_errors

    @property
    def n_unknowns(self) -> int:
        """The number of weights, residuals and biases, and of weights and residuals of errors."""
        n_weights = int(self.features.shape[1])
        n_weights_of_errors = n_weights if self.has_shared_errors else 0
        return self.size + n_weights + n_weights_of_errors

    def solver(self, weight: F64, prior: Prior) -> Precision:
        """The posterior's precision, given the weight of each answer."""
        precision = Large if self.large else Dense
        return precision(self, weight, self.precision(prior))

    def precision(self, prior: Prior) -> F64:
        """Inverse variances of the prior, in the order of the unknowns."""
        n, d = self.features.shape
        of_scores = np.repeat([1 / prior.weight, 1 / prior.residual], [d, n])
        of_biases = self.scales.annotators.side_sd**-2.0
        if not self.has_shared_errors:
            return np.concatenate((of_scores, of_biases))
        return np.concatenate((of_scores, of_biases, of_scores / self.scales.shared))

    def to_scores(self, theta: F64) -> F64:
        """(..., d + n + a) unknowns -> (..., n + a) scores and biases; then shared errors."""
        n, d = self.features.shape
        unknowns, unknowns_of_errors = np.split(theta, [d + n + self.n_annotators], axis=-1)
        scores: F64 = np.concatenate((unknowns[..., d:], unknowns_of_errors[..., d:]), axis=-1)
        scores[..., :n] += theta[..., :d] @ self.features.T
        if self.has_shared_errors:
            scores[..., -n:] += unknowns_of_errors[..., :d] @ self.features.T
        return scores

    def pull_back(self, slope: F64) -> F64:
        """The transpose of `to_scores`."""
        return self._transposed(slope, self.features)

    def diagonal(self, curvature: F64) -> F64:
        """Diagonal of a matrix pulled back to the unknowns, by the matrix's own diagonal alone."""
        return self._transposed(curvature, self.features**2)

    def _transposed(self, slope: F64, X: F64) -> F64:
        n = len(X)
        of_scores, of_errors = np.split(slope, [n + self.n_annotators], axis=-1)
        columns = [of_scores[..., :n] @ X, of_scores]
        if self.has_shared_errors:
            columns += [of_errors @ X, of_errors]
        return np.concatenate(columns, axis=-1)

    @cached_property
    def reliability(self) -> F64:
        """(m,) reliability of the annotator of each answer; high for a known answer."""
        of_annotators = self.scales.annotators.reliability[self.votes.annotator]
        reliability: F64 = np.where(self.votes.of_kind(GOLD), _CERTAIN, of_annotators)
        return reliability

    @cached_property
    def by_annotator(self) -> F64:
        """(m,) 1 for an annotator's answer, 0 for a known answer, which has no bias."""
        return (~self.votes.of_kind(GOLD)).astype(np.float64)

    @cached_property
    def by_model(self) -> F64:
        """(m,) 1 for a model's answer, else 0."""
        return self.votes.of_kind(MODEL).astype(np.float64)

    @cached_property
    def sets(self) -> list[SetRows]:
        """The rows of answers about sets."""
        return self.votes.sets

    @cached_property
    def side(self) -> F64:
        """(m,) share of the annotator's side bias for the left item; 0 in a known answer."""
        if self.votes.bias is None:
            return self.by_annotator
        return self.by_annotator * self.votes.bias

    @cached_property
    def measured(self) -> I64:
        """The places of the answers that are measurements and count as such."""
        is_used = self.scales.annotators.scale[self.votes.annotator] > 0
        return np.flatnonzero(self.votes.is_measured & is_used)

    @property
    def compares_annotators(self) -> bool:
        """Whether annotators are measured: by each other, or models by people and gold pairs."""
        return self.n_annotators > 1 or self.has_shared_errors

    def z(self, theta: F64) -> F64:
        """(m,) c (s_left - s_right) + b of each answer, plus e_left - e_right if a model's."""
        votes, scores = self.votes, self.to_scores(theta)
        n = len(self.features)
        bias = scores[n + votes.annotator]
        z: F64 = self.reliability * (scores[votes.left] - scores[votes.right]) + self.side * bias
        if self.has_shared_errors:
            errors = scores[n + self.n_annotators :]
            z += self.by_model * (errors[votes.left] - errors[votes.right])
        return z

    def likelihood(self, theta: F64) -> Likelihood:
        """Log-likelihood of every answer, with its slope and curvature."""
        scales, votes = self.scales, self.votes
        z, rows = self.z(theta), self.measured
        blind = scales.annotators.blind[votes.annotator] * self.by_annotator
        of_answers = answers(z, votes.target, scales.tie, blind, scales.ties)
        if votes.probit is not None and len(rows):
            scale = scales.annotators.scale[votes.annotator[rows]]
            of_measurements = measured(z[rows], votes.probit[rows], scale)
            for column, values in zip(of_answers, of_measurements, strict=True):
                column[rows] = values
        for sets in self.sets:
            first = sets.first
            of_sets = set_likelihood(sets.layout, z[sets.rows], blind[first], scales.ties)
            of_answers.log_p[sets.rows] = 0
            of_answers.log_p[first] = of_sets.log_p
            of_answers.slope[sets.rows] = of_sets.slope
            of_answers.weight[sets.rows] = of_sets.weight
        if votes.weight is None:
            return of_answers
        return Likelihood(*(votes.weight * column for column in of_answers))

    def newton(self, theta: F64, prior: Prior, *, steps: int) -> F64:
        """The mode of the posterior, or a few steps towards it."""
        precision = self.precision(prior)

        def loss_at(theta: F64) -> tuple[float, Likelihood]:
            likelihood = self.likelihood(theta)
            return float(0.5 * precision @ theta**2 - likelihood.log_p.sum()), likelihood

        loss, likelihood = loss_at(theta)
        for _ in range(steps):
            slope = self.pull_back(self.summed(likelihood.slope)) - precision * theta
            step = self.solver(likelihood.weight, prior).solve(slope)
            share = 1.0
            next_loss, next_likelihood = loss_at(theta + step)
            while next_loss > loss and share > _SMALLEST_STEP:
                share /= 2
                next_loss, next_likelihood = loss_at(theta + share * step)
            if next_loss <= loss:
                theta = theta + share * step
            if loss - next_loss <= _FLAT * (1 + abs(loss)):
                break
            loss, likelihood = next_loss, next_likelihood
        return theta

    def summed(self, pull: F64) -> F64:
        """Sums of the votes' pulls on scores, biases and shared errors."""
        votes, n = self.votes, len(self.features)

        def on_items(scaled: F64) -> F64:
            won = np.bincount(votes.left, scaled, n)
            lost = np.bincount(votes.right, scaled, n)
            return np.asarray(won - lost, np.float64)

        sums = [
            on_items(pull * self.reliability),
            np.bincount(votes.annotator, pull * self.side, self.n_annotators),
        ]
        if self.has_shared_errors:
            sums.append(on_items(pull * self.by_model))
        return np.concatenate(sums)

    def terms(self) -> list[Term]:
        """The terms of z of each answer: the scores of the left and the right item, and the side
        bias; in a model's answer also the errors of both items.
        """
        votes, n = self.votes, len(self.features)
        terms = [
            Term(votes.left, self.reliability),
            Term(votes.right, -self.reliability),
            Term(n + votes.annotator, self.side),
        ]
        if self.has_shared_errors:
            first_error = n + self.n_annotators
            terms.append(Term(first_error + votes.left, self.by_model))
            terms.append(Term(first_error + votes.right, -self.by_model))
        return terms

    def curvature(self, weight: F64, some: slice = slice(None)) -> tuple[I64, I64, F64]:
        """Minus the second derivatives of the log-likelihood of some answers in scores, biases and
        shared errors, as the rows, columns and values of a square matrix; duplicates are summed.
        """
        terms = [Term(place[some], factor[some]) for place, factor in self.terms()]
        weight = weight[some]
        rows: list[I64] = []
        columns: list[I64] = []
        values: list[F64] = []
        for first in terms:
            for second in terms:
                rows.append(first.place)
                columns.append(second.place)
                values.append(weight * first.factor * second.factor)
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values)

    def variance(self, root: F64, rows: I64) -> F64:
        """(m,) variances of z of some answers; `root` is of the covariance of scores and biases."""
        terms = [Term(place[rows], factor[rows]) for place, factor in self.terms()]
        if self.large:  # the root has few rows: draws
            drawn = np.zeros((len(root), len(rows)))
            for place, factor in terms:
                drawn += root[:, place] * factor
            squares: F64 = np.einsum("ij,ij->j", drawn, drawn)
            return squares
        covariance, variance = root.T @ root, np.zeros(len(rows))
        for first in terms:
            for second in terms:
                product = first.factor * second.factor
                variance += product * covariance[first.place, second.place]
        return np.maximum(variance, 0)

    def fit_under(
        self, prior: Prior, theta: F64, n_draws: int, rng: np.random.Generator
    ) -> PriorFit:
        """Laplace's approximation at the mode, widened by the uncertainty of the reliabilities."""
        d = self.features.shape[1]
        solver = self.solver(self.likelihood(theta).weight, prior)
        drawn_unknowns = theta + solver.draw(n_draws, rng)
        draws = self.to_scores(drawn_unknowns)
        covariance = solver.covariance()
        shifts = np.zeros_like(drawn_unknowns)
        if self.compares_annotators and len(self.votes):
            pulls = self.pulls_of_reliabilities(theta)
            # Of thousands of annotators the draws alone are shifted, each by a random combination.
            noise = rng.standard_normal((n_draws, self.n_annotators))
            shifts = self.shifts(noise @ pulls, solver)
            draws += self.to_scores(shifts)
            if covariance is not None:
                shifts_by_annotator = self.to_scores(self.shifts(pulls.toarray(), solver))
                covariance = covariance + shifts_by_annotator.T @ shifts_by_annotator
        return PriorFit(
            theta,
            self.to_scores(theta),
            covariance,
            draws,
            weight_draws=drawn_unknowns[:, :d],
            weight_shifts=shifts[:, :d],
        )

    def shifts(self, pulls: F64, solver: Precision) -> F64:
        """(k, d + n + a) shifts of the mode by (k, n + a) pulls on scores and biases."""
        return solver.solve(self.pull_back(pulls).T).T

    def pulls_of_reliabilities(self, theta: F64) -> sparse.csr_array:
        """(a, n + a) pulls of one standard deviation of each reliability on scores, biases and
        shared errors.
        """
        votes, scores = self.votes, self.to_scores(theta)
        gap = scores[votes.left] - scores[votes.right]
        _, slope, weight = self.likelihood(theta)
        terms = self.terms()
        pulls = [-weight * gap * factor for _, factor in terms]
        # The reliability is itself the factor of the two scores.
        pulls[0] = pulls[0] + slope
        pulls[1] = pulls[1] - slope
        sd = self.scales.annotators.reliability_sd[votes.annotator] * self.by_annotator
        pull = np.concatenate([pull * sd for pull in pulls])
        place = np.concatenate([term.place for term in terms])
        annotator = np.tile(votes.annotator, len(terms))
        shape = self.n_annotators, self.size
        return sparse.csr_array(sparse.coo_array((pull, (annotator, place)), shape=shape))
