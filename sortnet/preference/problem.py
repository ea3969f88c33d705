"""The likelihood of the answers as a function of the unknowns, and the posterior at its mode.

In shapes, m is the number of answers, n of items, d of features, and a of annotators. The score of
an item is the product of its features and the weights, plus the item's residual.

If language models are among the annotators, they share errors. The shared error of an item is also
a product of its features and weights, plus a residual. Shapes in this module leave out the shared
errors and their unknowns.
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

DENSE = 1_000  # number of unknowns up to which the covariance of the posterior is computed
_CERTAIN = 4.0  # reliability of a gold pair's known answer
# Newton's method stops when a step lowers the loss by less than this share of the loss. Near the
# mode each step squares the distance to the mode, so a further step would lower the loss by about
# 1e-10.
_FLAT = 1e-5
_SMALLEST_STEP = 1e-3  # share of a Newton step below which it is not halved again


class PriorFit(NamedTuple):
    """The posterior of the unknowns under one of the likely priors.

    Attributes:
        theta: the unknowns at the mode.
        mean: (n + a,) the scores and side biases at the mode, followed by the n shared errors if
            models have answered.
        covariance: the covariance of the values in `mean`; None if there are too many unknowns.
        draws: (k, ...) k draws of the values in `mean`.
        weight_draws: (k, d) k draws of the weights of the features, for given reliabilities.
        weight_shifts: (k, d) the shifts of `weight_draws` that the uncertainty of the reliabilities
            adds.
    """

    theta: F64
    mean: F64
    covariance: F64 | None
    draws: F64
    weight_draws: F64
    weight_shifts: F64


class Term(NamedTuple):
    """One of the terms whose sum is z, the argument of the likelihood: a value times a factor.

    Attributes:
        position: (m,) the position of each value in the array of scores, biases and shared errors.
        factor: (m,) the factor of each value.
    """

    position: I64
    factor: F64


def _curvature_values(weight: F64, terms: list[Term]) -> F64:
    """Multiply the weights of m answers with both factors of every ordered pair of terms.

    Args:
        weight: (m,) minus the second derivative of each answer's log-likelihood in z.
        terms: the k terms of z.

    Returns:
        (k * k * m,) products: the m products of the first pair, then the m of the second, and so
        on.
    """
    products: list[F64] = []
    for first in terms:
        weighted = weight * first.factor
        products += [weighted * second.factor for second in terms]
    return np.concatenate(products)


@dataclass(frozen=True, eq=False)
class Problem:
    """The likelihood of the answers as a function of the unknowns.

    The unknowns are, in this order, the weights of the features, the residuals of the items and the
    side biases of the annotators; if models have answered, also the weights and residuals of the
    errors that the models share.

    Attributes:
        features: (n, d) the features of the items.
        votes: the answers.
        n_annotators: the number of annotators a.
        scales: the hyperparameters, which stay fixed.
    """

    features: F64
    votes: Votes
    n_annotators: int
    scales: Scales

    @property
    def large(self) -> bool:
        """Whether there are too many unknowns to store the posterior's precision as a matrix."""
        return sum(self.features.shape) + self.n_annotators > DENSE

    @cached_property
    def has_shared_errors(self) -> bool:
        """Whether models have answered, so that shared errors of the models are estimated."""
        return bool(self.votes.of_kind(MODEL).any())

    @property
    def size(self) -> int:
        """Length of the array of scores, side biases and shared errors that `to_scores` returns."""
        n_items = len(self.features)
        n_errors = n_items if self.has_shared_errors else 0
        return n_items + self.n_annotators + n_errors

    @property
    def n_unknowns(self) -> int:
        """Number of weights, residuals and side biases that are estimated."""
        n_weights = int(self.features.shape[1])
        n_weights_of_errors = n_weights if self.has_shared_errors else 0
        return self.size + n_weights + n_weights_of_errors

    def solver(self, weight: F64, prior: Prior) -> Precision:
        """Return the precision matrix of the posterior, in a form that solves linear systems.

        Args:
            weight: (m,) minus the second derivative of each answer's log-likelihood in z.
            prior: the prior of the unknowns.
        """
        if self.large:
            return Large(self, weight, self.precision(prior))
        return Dense(self, weight, self.precision(prior))

    def precision(self, prior: Prior) -> F64:
        """Return the inverse variance of each unknown under the prior, in the unknowns' order."""
        n, d = self.features.shape
        score_precision = np.repeat([1 / prior.weight, 1 / prior.residual], [d, n])
        bias_precision = self.scales.annotators.side_sd**-2.0
        if not self.has_shared_errors:
            return np.concatenate((score_precision, bias_precision))
        error_precision = score_precision / self.scales.shared
        return np.concatenate((score_precision, bias_precision, error_precision))

    def to_scores(self, theta: F64) -> F64:
        """Map the unknowns linearly to scores, side biases and shared errors, in this order.

        A score or shared error is the product of features and weights, plus a residual.

        Args:
            theta: (..., d + n + a) the unknowns: d weights, n residuals and a biases. If models
                have answered, d weights and n residuals of the shared errors follow.

        Returns:
            (..., n + a) scores and biases, followed by the n shared errors if models have answered.
        """
        n, d = self.features.shape
        first_of_errors = d + n + self.n_annotators
        unknowns = theta[..., :first_of_errors]
        unknowns_of_errors = theta[..., first_of_errors:]
        weights = unknowns[..., :d]
        residuals_and_biases = unknowns[..., d:]
        weights_of_errors = unknowns_of_errors[..., :d]
        residuals_of_errors = unknowns_of_errors[..., d:]
        scores: F64 = np.concatenate((residuals_and_biases, residuals_of_errors), axis=-1)
        scores[..., :n] += weights @ self.features.T
        if self.has_shared_errors:
            first_error = n + self.n_annotators
            scores[..., first_error:] += weights_of_errors @ self.features.T
        return scores

    def pull_back(self, slope: F64) -> F64:
        """Turn derivatives in scores, biases and errors into derivatives in the unknowns.

        This is the transpose of the linear map `to_scores`.
        """
        return self._apply_transpose(slope, self.features)

    def diagonal(self, curvature: F64) -> F64:
        """Approximate the diagonal of the curvature in the unknowns.

        Args:
            curvature: the diagonal of the curvature in scores, biases and shared errors.
        """
        return self._apply_transpose(curvature, self.features**2)

    def _apply_transpose(self, slope: F64, X: F64) -> F64:
        """Apply the transpose of `to_scores`, with the (n, d) matrix X in place of the features.

        Args:
            slope: (..., n + a) a value for each score and each bias, followed by a value for each
                of the n shared errors if models have answered.
            X: (n, d) the matrix in place of the features.

        Returns:
            (..., d + n + a) a value for each unknown.
        """
        n = len(X)
        first_error = n + self.n_annotators
        slope_of_scores_and_biases = slope[..., :first_error]
        slope_of_errors = slope[..., first_error:]
        slope_of_scores = slope_of_scores_and_biases[..., :n]
        columns = [slope_of_scores @ X, slope_of_scores_and_biases]
        if self.has_shared_errors:
            columns += [slope_of_errors @ X, slope_of_errors]
        return np.concatenate(columns, axis=-1)

    @cached_property
    def reliability(self) -> F64:
        """Reliability of the annotator of each answer, (m,); `_CERTAIN` for a known answer."""
        annotator_reliability = self.scales.annotators.reliability[self.votes.annotator]
        reliability: F64 = np.where(self.votes.of_kind(GOLD), _CERTAIN, annotator_reliability)
        return reliability

    @cached_property
    def by_annotator(self) -> F64:
        """1 for an annotator's answer, 0 for the known answer to a gold pair, (m,); a factor."""
        return (~self.votes.of_kind(GOLD)).astype(np.float64)

    @cached_property
    def by_model(self) -> F64:
        """1 for an answer of a model, 0 for any other answer, (m,); a factor."""
        return self.votes.of_kind(MODEL).astype(np.float64)

    @cached_property
    def blind(self) -> F64:
        """Probability that each answer is blind, (m,); 0 for a known answer."""
        return self.scales.annotators.blind[self.votes.annotator] * self.by_annotator

    @cached_property
    def sets(self) -> list[SetRows]:
        """Rows of the answers about sets, grouped by the layout of the sets."""
        return self.votes.sets

    @cached_property
    def side(self) -> F64:
        """Factor of the annotator's side bias in each answer, (m,); 0 in a known answer."""
        if self.votes.bias is None:
            return self.by_annotator
        return self.by_annotator * self.votes.bias

    @cached_property
    def measured(self) -> I64:
        """Rows of the answers that count as measurements.

        These are probabilities from annotators whose scale of measurements is not 0.
        """
        has_scale = self.scales.annotators.scale[self.votes.annotator] > 0
        return np.flatnonzero(self.votes.is_measured & has_scale)

    @property
    def compares_annotators(self) -> bool:
        """Whether reliabilities can be estimated by comparing annotators with each other.

        This needs two annotators, or a model's answers beside known answers.
        """
        return self.n_annotators > 1 or self.has_shared_errors

    def z(self, theta: F64) -> F64:
        """Return the argument z of the likelihood of each answer, (m,).

        z = c (s_left - s_right) + b, with the reliability c, the scores s and the side bias b. In
        the answer of a model the term e_left - e_right is added, with the shared errors e.
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
        """Compute the log-likelihood of every answer, and its derivatives in z, see `Problem.z`.

        The log-likelihood of an answer about a set is in the first row of the answer, and 0 in its
        other rows.
        """
        scales = self.scales
        votes = self.votes
        z = self.z(theta)
        # First all rows count as words about pairs. Then the values of the rows that are
        # measurements, or belong to answers about sets, are replaced.
        blind = self.blind
        likelihood = answers(z, votes.target, scales.tie, blind, scales.ties)
        rows = self.measured
        if votes.probit is not None and len(rows):
            scale = scales.annotators.scale[votes.annotator[rows]]
            likelihood_of_measurements = measured(z[rows], votes.probit[rows], scale)
            for column, values in zip(likelihood, likelihood_of_measurements, strict=True):
                column[rows] = values
        for sets in self.sets:
            first = sets.first
            likelihood_of_sets = set_likelihood(
                sets.layout, z[sets.rows], blind[first], scales.ties
            )
            likelihood.log_p[sets.rows] = 0
            likelihood.log_p[first] = likelihood_of_sets.log_p
            likelihood.slope[sets.rows] = likelihood_of_sets.slope
            likelihood.weight[sets.rows] = likelihood_of_sets.weight
        if votes.weight is None:
            return likelihood
        return Likelihood(*(votes.weight * column for column in likelihood))

    def newton(self, theta: F64, prior: Prior, *, steps: int) -> F64:
        """Take Newton steps from the unknowns `theta` towards the mode of the posterior.

        The loss is minus the logarithm of the posterior. A step that would raise the loss is halved
        until it does not. If even a tiny step would raise the loss, the search ends.

        Args:
            theta: the unknowns to start from.
            prior: the prior of the unknowns.
            steps: the largest number of steps.

        Returns:
            The unknowns after the last step.
        """
        precision = self.precision(prior)

        def loss_at(unknowns: F64) -> tuple[float, Likelihood]:
            """Return the loss at the given unknowns, and the likelihood of the answers."""
            likelihood = self.likelihood(unknowns)
            return float(0.5 * precision @ unknowns**2 - likelihood.log_p.sum()), likelihood

        loss, likelihood = loss_at(theta)
        for _ in range(steps):
            slope = self.pull_back(self.summed(likelihood.slope)) - precision * theta
            step = self.solver(likelihood.weight, prior).solve(slope)
            share = 1.0
            next_theta = theta + step
            next_loss, next_likelihood = loss_at(next_theta)
            while next_loss > loss and share > _SMALLEST_STEP:
                share /= 2
                next_theta = theta + share * step
                next_loss, next_likelihood = loss_at(next_theta)
            is_lower = next_loss <= loss
            if not is_lower:
                return theta
            theta = next_theta
            if loss - next_loss <= _FLAT * (1 + abs(loss)):
                return theta
            loss = next_loss
            likelihood = next_likelihood
        return theta

    def summed(self, slope: F64) -> F64:
        """Compute the derivatives of the log-likelihood in scores, biases and shared errors.

        Each answer's slope in z is added to the values on which the answer's z depends, times the
        value's factor in z, see `terms`.

        Args:
            slope: (m,) the derivative of each answer's log-likelihood in z.
        """
        votes = self.votes
        n = len(self.features)

        def sum_by_item(scaled_slope: F64) -> F64:
            """Add each answer's slope to its left item, and subtract it from its right item."""
            sum_as_left = np.bincount(votes.left, scaled_slope, n)
            sum_as_right = np.bincount(votes.right, scaled_slope, n)
            return np.asarray(sum_as_left - sum_as_right, np.float64)

        sums = [
            sum_by_item(slope * self.reliability),
            np.bincount(votes.annotator, slope * self.side, self.n_annotators),
        ]
        if self.has_shared_errors:
            sums.append(sum_by_item(slope * self.by_model))
        return np.concatenate(sums)

    def terms(self) -> list[Term]:
        """List the terms whose sum is z, the argument of the likelihood of each answer.

        The terms are the scores of the left and the right item, and the side bias. If models have
        answered, the shared errors of both items are further terms.
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

    def curvature(self, weight: F64, block: slice = slice(None)) -> tuple[I64, I64, F64]:
        """Return minus the second derivatives of the log-likelihood in scores, biases and errors.

        If z is a sum of terms with the factors f_i, the entry (i, j) is the sum of
        weight * f_i * f_j over the answers.

        Args:
            weight: (m,) minus the second derivative of each answer's log-likelihood in z.
            block: the answers that are summed.

        Returns:
            Rows, columns and values of the entries of a square matrix; values of the same row and
            column are to be added up.
        """
        terms = [Term(position[block], factor[block]) for position, factor in self.terms()]
        rows = np.concatenate([first.position for first in terms for _ in terms])
        columns = np.concatenate([second.position for _ in terms for second in terms])
        return rows, columns, _curvature_values(weight[block], terms)

    def summed_curvature(self, weight: F64) -> F64:
        """Add up the entries that `curvature` lists to a matrix, (size, size).

        Args:
            weight: (m,) minus the second derivative of each answer's log-likelihood in z.
        """
        places, terms = self._places_of_curvature
        # bincount adds up the values that belong to the same entry of the matrix.
        sums = np.bincount(places, _curvature_values(weight, terms), self.size * self.size)
        return np.asarray(sums, np.float64).reshape(self.size, self.size)

    @cached_property
    def _places_of_curvature(self) -> tuple[I64, list[Term]]:
        """Indices of `_curvature_values` in the flattened matrix of curvature; and the terms.

        Both are the same in every step of Newton's method, so they are computed once.
        """
        terms = self.terms()
        positions = [np.asarray(term.position) for term in terms]
        places = [row * self.size + column for row in positions for column in positions]
        return np.concatenate(places), terms

    def variance(self, root: F64, rows: I64) -> F64:
        """Compute the posterior variance of z, the argument of the likelihood, of some answers.

        Args:
            root: a matrix R; the covariance of scores, biases and shared errors is RᵀR.
            rows: the rows of the answers.
        """
        terms = [Term(position[rows], factor[rows]) for position, factor in self.terms()]
        if self.large:
            # The matrix RᵀR would be too large. R has only a few rows, which are draws, so z is
            # computed in each draw.
            z_root = np.zeros((len(root), len(rows)))
            for position, factor in terms:
                z_root += root[:, position] * factor
            sums_of_squares: F64 = np.einsum("ij,ij->j", z_root, z_root)
            return sums_of_squares
        covariance = root.T @ root
        variance = np.zeros(len(rows))
        for first in terms:
            for second in terms:
                product = first.factor * second.factor
                variance += product * covariance[first.position, second.position]
        return np.maximum(variance, 0)

    def fit_under(
        self, prior: Prior, theta: F64, n_draws: int, rng: np.random.Generator
    ) -> PriorFit:
        """Approximate the posterior around its mode by a Gaussian (Laplace's approximation).

        The uncertainty of the reliabilities, which are fixed during the fit, is added.

        Args:
            prior: the prior of the unknowns.
            theta: the unknowns at the mode.
            n_draws: the number of draws.
            rng: the generator of the draws.
        """
        d = self.features.shape[1]
        solver = self.solver(self.likelihood(theta).weight, prior)
        drawn_unknowns = theta + solver.draw(n_draws, rng)
        draws = self.to_scores(drawn_unknowns)
        covariance = solver.covariance()
        shifts = np.zeros_like(drawn_unknowns)
        if self.compares_annotators and len(self.votes):
            # The mode shifts if an annotator's reliability grows by its standard deviation. Each
            # draw is shifted by the sum of all annotators' shifts, each times a random number. This
            # adds the same covariance to the draws as `shifts_by_annotator` adds to the exact
            # covariance, which does not exist if there are many unknowns.
            slope_changes = self.slope_changes_by_annotator(theta)
            noise = rng.standard_normal((n_draws, self.n_annotators))
            shifts = self.shifts_of_mode(noise @ slope_changes, solver)
            draws += self.to_scores(shifts)
            if covariance is not None:
                shifts_of_unknowns = self.shifts_of_mode(slope_changes.toarray(), solver)
                shifts_by_annotator = self.to_scores(shifts_of_unknowns)
                covariance = covariance + shifts_by_annotator.T @ shifts_by_annotator
        return PriorFit(
            theta,
            self.to_scores(theta),
            covariance,
            draws,
            weight_draws=drawn_unknowns[:, :d],
            weight_shifts=shifts[:, :d],
        )

    def shifts_of_mode(self, slope_changes: F64, solver: Precision) -> F64:
        """Compute the shifts of the mode that result from changes of the slope at the mode.

        Args:
            slope_changes: (k, n + a) k changes of the slope in scores, biases and shared errors.
            solver: the precision of the posterior at the mode.

        Returns:
            (k, d + n + a) shifts of the unknowns.
        """
        return solver.solve(self.pull_back(slope_changes).T).T

    def slope_changes_by_annotator(self, theta: F64) -> sparse.csr_array:
        """Compute how the slope of the log-likelihood changes with each annotator's reliability.

        The slope is the derivative of the log-likelihood in scores, biases and shared errors, at
        the mode. For an answer with the slope g and the weight w in z, each term of z with the
        factor f adds g f to the slope. If the reliability c grows by one standard deviation sd, the
        product g f changes by sd (g df/dc - w (s_left - s_right) f), with the scores s.

        Args:
            theta: the unknowns at the mode.

        Returns:
            (a, n + a) the changes for one standard deviation of each annotator's reliability.
        """
        votes = self.votes
        scores = self.to_scores(theta)
        gap = scores[votes.left] - scores[votes.right]
        _, slope, weight = self.likelihood(theta)
        terms = self.terms()
        at_left, at_right, *at_bias_and_errors = [-weight * gap * factor for _, factor in terms]
        # Only the factors of the left and the right score depend on the reliability: they are c and
        # -c, with the derivatives 1 and -1.
        changes = [at_left + slope, at_right - slope, *at_bias_and_errors]
        sd = self.scales.annotators.reliability_sd[votes.annotator] * self.by_annotator
        values = np.concatenate([change * sd for change in changes])
        columns = np.concatenate([term.position for term in terms])
        annotators = np.tile(votes.annotator, len(terms))
        shape = self.n_annotators, self.size
        return sparse.csr_array(sparse.coo_array((values, (annotators, columns)), shape=shape))
