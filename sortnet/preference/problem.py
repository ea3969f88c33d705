"""The likelihood of the answers as a function of the unknowns, and the posterior at its mode.

Sizes: m answers, n items, d features, a annotators. The score of an item is its features times the
weights, plus its residual. If models have answered, the errors that they share are modelled in the
same way; shapes leave the unknowns of these errors out.
"""

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

DENSE = 1_000  # unknowns up to which the covariance of the posterior is computed
_CERTAIN = 4.0  # reliability of a gold pair's known answer
# Newton's method stops when a step lowers the loss by a smaller share. Near the mode each step
# squares the distance to it, so a further step would lower the loss by about 1e-10.
_FLAT = 1e-5
_SMALLEST_STEP = 1e-3  # share of a Newton step below which it is not halved again


class PriorFit(NamedTuple):
    """The posterior under one prior.

    Attributes:
        theta: the unknowns at the mode.
        mean: (n + a,) scores and side biases at the mode; then (n,) shared errors, if there are
            any.
        covariance: the covariance of the values in `mean`; None if there are too many unknowns.
        draws: (k, ...) draws of the values in `mean`.
        weight_draws: (k, d) draws of the weights of features.
        weight_shifts: (k, d) what the uncertainty of the reliabilities adds to `weight_draws`.
    """

    theta: F64
    mean: F64
    covariance: F64 | None
    draws: F64
    weight_draws: F64
    weight_shifts: F64


class Term(NamedTuple):
    """A term of z, the argument of the likelihood: in each answer, an unknown times a factor."""

    place: I64  # (m,) places in the array of scores, biases and shared errors
    factor: F64  # (m,)


@dataclass(frozen=True, eq=False)
class Problem:
    """The likelihood of the answers as a function of the unknowns.

    The unknowns are, in this order, the weights of features, the residuals of items and the side
    biases of annotators; if models have answered, also the weights and residuals of the errors that
    the models share.
    """

    features: F64  # (n, d)
    votes: Votes
    n_annotators: int
    scales: Scales

    @property
    def large(self) -> bool:
        """Whether there are too many unknowns to write the precision out as a matrix."""
        return sum(self.features.shape) + self.n_annotators > DENSE

    @cached_property
    def has_shared_errors(self) -> bool:
        """Whether models have answered, so that there are errors that they share."""
        return bool(self.votes.of_kind(MODEL).any())

    @property
    def size(self) -> int:
        """The number of scores, biases and shared errors."""
        n_items = len(self.features)
        n_errors = n_items if self.has_shared_errors else 0
        return n_items + self.n_annotators + n_errors

    @property
    def n_unknowns(self) -> int:
        """The number of unknowns."""
        n_weights = int(self.features.shape[1])
        n_weights_of_errors = n_weights if self.has_shared_errors else 0
        return self.size + n_weights + n_weights_of_errors

    def solver(self, weight: F64, prior: Prior) -> Precision:
        """The precision of the posterior, given the weight of each answer, see `Likelihood`."""
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
        """Map (..., d + n + a) unknowns to (..., n + a) scores and biases, then shared errors.

        The map is linear.
        """
        n, d = self.features.shape
        unknowns, unknowns_of_errors = np.split(theta, [d + n + self.n_annotators], axis=-1)
        scores: F64 = np.concatenate((unknowns[..., d:], unknowns_of_errors[..., d:]), axis=-1)
        scores[..., :n] += theta[..., :d] @ self.features.T
        if self.has_shared_errors:
            scores[..., -n:] += unknowns_of_errors[..., :d] @ self.features.T
        return scores

    def pull_back(self, slope: F64) -> F64:
        """Turn derivatives in scores into derivatives in unknowns: the transpose of `to_scores`."""
        return self._transposed(slope, self.features)

    def diagonal(self, curvature: F64) -> F64:
        """Approximate the diagonal of the curvature in unknowns from the diagonal in scores."""
        return self._transposed(curvature, self.features**2)

    def _transposed(self, slope: F64, X: F64) -> F64:
        """Apply the transpose of `to_scores` with the matrix X in place of the features."""
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
        """The rows of the answers about sets, together for all sets with the same layout."""
        return self.votes.sets

    @cached_property
    def side(self) -> F64:
        """(m,) factor of the annotator's side bias in each answer; 0 in a known answer."""
        if self.votes.bias is None:
            return self.by_annotator
        return self.by_annotator * self.votes.bias

    @cached_property
    def measured(self) -> I64:
        """The rows of the measurements by annotators that have a scale, see `measured`."""
        is_used = self.scales.annotators.scale[self.votes.annotator] > 0
        return np.flatnonzero(self.votes.is_measured & is_used)

    @property
    def compares_annotators(self) -> bool:
        """Whether reliabilities can be estimated: there are two annotators, or shared errors."""
        return self.n_annotators > 1 or self.has_shared_errors

    def z(self, theta: F64) -> F64:
        """(m,) the argument z of the likelihood of each answer.

        z = c (s_left - s_right) + b, with the reliability c, the scores s and the side bias b. In
        the answer of a model it has the further term e_left - e_right, with the shared errors e.
        """
        votes = self.votes
        scores = self.to_scores(theta)
        n = len(self.features)
        bias = scores[n + votes.annotator]
        z: F64 = self.reliability * (scores[votes.left] - scores[votes.right]) + self.side * bias
        if self.has_shared_errors:
            errors = scores[n + self.n_annotators :]
            z += self.by_model * (errors[votes.left] - errors[votes.right])
        return z

    def likelihood(self, theta: F64) -> Likelihood:
        """Log-likelihood of every answer, with its derivatives in z.

        The log-likelihood of an answer about a set is in its first row, and 0 in its other rows.
        """
        scales = self.scales
        votes = self.votes
        z = self.z(theta)
        rows = self.measured
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
        """Take Newton steps from `theta` towards the mode of the posterior, at most `steps`.

        A step that would not lower the loss, minus the log of the posterior, is halved.
        """
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
        """Sum derivatives in z, one for each vote, to derivatives in scores, biases and errors."""
        votes = self.votes
        n = len(self.features)

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
        """The terms whose sum is z: the scores of the left and the right item, and the side bias.

        If models share errors, the errors of both items are further terms.
        """
        votes = self.votes
        n = len(self.features)
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
        """Minus the second derivatives of the log-likelihood in scores, biases and shared errors.

        Args:
            weight: (m,) minus the second derivative of each answer in z.
            some: the answers that count.

        Returns:
            Rows, columns and values of a square matrix, where values at the same place are summed.
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
        """(m,) variances of z of the answers in some rows.

        `root` is a matrix R; the covariance of scores, biases and shared errors is RᵀR.
        """
        terms = [Term(place[rows], factor[rows]) for place, factor in self.terms()]
        if self.large:  # the rows of the root are a few draws: RᵀR would be too large
            drawn = np.zeros((len(root), len(rows)))
            for place, factor in terms:
                drawn += root[:, place] * factor
            squares: F64 = np.einsum("ij,ij->j", drawn, drawn)
            return squares
        covariance = root.T @ root
        variance = np.zeros(len(rows))
        for first in terms:
            for second in terms:
                product = first.factor * second.factor
                variance += product * covariance[first.place, second.place]
        return np.maximum(variance, 0)

    def fit_under(
        self, prior: Prior, theta: F64, n_draws: int, rng: np.random.Generator
    ) -> PriorFit:
        """Approximate the posterior at the mode (Laplace), and add uncertainty of reliabilities."""
        d = self.features.shape[1]
        solver = self.solver(self.likelihood(theta).weight, prior)
        drawn_unknowns = theta + solver.draw(n_draws, rng)
        draws = self.to_scores(drawn_unknowns)
        covariance = solver.covariance()
        shifts = np.zeros_like(drawn_unknowns)
        if self.compares_annotators and len(self.votes):
            pulls = self.pulls_of_reliabilities(theta)
            # Each draw is shifted by a random combination of all annotators. This adds the same
            # covariance to the draws as the exact sum below, which is too large for many unknowns.
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
        """(k, d + n + a) shifts of the mode, if (k, n + a) `pulls` are added to the slope there."""
        return solver.solve(self.pull_back(pulls).T).T

    def pulls_of_reliabilities(self, theta: F64) -> sparse.csr_array:
        """(a, n + a) changes of the slope at the mode by one standard deviation of a reliability.

        The slope is the derivative of the log-likelihood in scores, biases and shared errors.
        """
        votes = self.votes
        scores = self.to_scores(theta)
        gap = scores[votes.left] - scores[votes.right]
        _, slope, weight = self.likelihood(theta)
        terms = self.terms()
        pulls = [-weight * gap * factor for _, factor in terms]
        # The reliability is the factor of both scores in z, so they have a second term, which is
        # the derivative of this factor.
        pulls[0] = pulls[0] + slope
        pulls[1] = pulls[1] - slope
        sd = self.scales.annotators.reliability_sd[votes.annotator] * self.by_annotator
        pull = np.concatenate([pull * sd for pull in pulls])
        place = np.concatenate([term.place for term in terms])
        annotator = np.tile(votes.annotator, len(terms))
        shape = self.n_annotators, self.size
        return sparse.csr_array(sparse.coo_array((pull, (annotator, place)), shape=shape))
