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
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import sparse

from sortnet.core import F64, I64
from sortnet.preference.likelihood import Likelihood, measurement_likelihood, pair_likelihood
from sortnet.preference.posterior_precision import Dense, Large, Precision
from sortnet.preference.scales import Prior, Scales
from sortnet.preference.set_answers import SetRows, set_likelihood
from sortnet.preference.vote_arrays import GOLD, MODEL, Votes

DENSE = 1_000  # number of unknowns up to which the covariance of the posterior is computed
_GOLD_RELIABILITY = 4.0  # reliability of a gold pair's known answer
# Newton's method stops when a step lowers the loss by less than this share of the loss. Near the
# mode each step squares the distance to the mode, so a further step would lower the loss by about
# 1e-10.
_RELATIVE_TOLERANCE = 1e-5
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


@dataclass(frozen=True)
class UnknownSlices:
    """The slice of each kind of unknown in the array `theta` of all unknowns.

    Attributes:
        weights: the d weights of the features.
        residuals: the n residuals of the items.
        biases: the a side biases of the annotators.
        error_weights: the d weights of the features in the shared errors; empty if no models have
            answered.
        error_residuals: the n residuals of the shared errors; empty if no models have answered.
    """

    weights: slice
    residuals: slice
    biases: slice
    error_weights: slice
    error_residuals: slice

    @property
    def scores(self) -> slice:
        """Slice of the unknowns that make the scores: weights and residuals."""
        return slice(self.weights.start, self.residuals.stop)

    @property
    def errors(self) -> slice:
        """Slice of the unknowns that make the shared errors: their weights and residuals."""
        return slice(self.error_weights.start, self.error_residuals.stop)


class ValueSlices(NamedTuple):
    """The slice of each kind of value in the arrays that `Problem.to_scores` returns.

    Attributes:
        scores: the scores of the n items.
        biases: the side biases of the a annotators.
        errors: the n shared errors; empty if no models have answered.
    """

    scores: slice
    biases: slice
    errors: slice

    @property
    def n_values(self) -> int:
        """Number of values: scores, side biases and shared errors."""
        return int(self.errors.stop)

    @property
    def n_errors(self) -> int:
        """Number of shared errors; 0 if no models have answered."""
        return int(self.errors.stop - self.errors.start)


def slice_values(n: int, n_annotators: int, *, has_shared_errors: bool) -> ValueSlices:
    """Divide an array of values into n scores, side biases, and n shared errors if there are any.

    >>> slice_values(5, 2, has_shared_errors=True)
    ValueSlices(scores=slice(0, 5, None), biases=slice(5, 7, None), errors=slice(7, 12, None))
    """
    n_errors = n if has_shared_errors else 0
    return ValueSlices(*_consecutive_slices(n, n_annotators, n_errors))


def _consecutive_slices(*lengths: int) -> list[slice]:
    """Make slices of the given lengths that follow each other, the first starting at 0."""
    ends = np.cumsum(lengths).tolist()
    return [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)]


class Term(NamedTuple):
    """One of the terms whose sum is z, the argument of the likelihood: a value times a factor.

    Attributes:
        position: (m,) the position of each value in the array of scores, biases and shared errors.
        factor: (m,) the factor of each value.
        factor_slope: the derivative of the factor in the reliability of the answer's annotator: 1
            for the left score, -1 for the right score, 0 for a bias or shared error.
    """

    position: I64
    factor: F64
    factor_slope: float = 0.0

    def where(self, rows: I64 | slice) -> Term:
        """Select answers by row numbers or by a slice."""
        return Term(self.position[rows], self.factor[rows], self.factor_slope)


def _curvature_values(weight: F64, terms: list[Term]) -> F64:
    """Multiply the weights of m answers with both factors of every ordered pair of terms.

    Args:
        weight: (m,) minus the second derivative of each answer's log-likelihood in z.
        terms: the k terms of z.

    Returns:
        (k * k * m,) products: the m products of the first pair, then the m of the second, and so
        on. The pairs are in the order of `itertools.product`.
    """
    products: list[F64] = []
    for first in terms:
        weighted = weight * first.factor
        products += [weighted * second.factor for second in terms]
    return np.concatenate(products)


class _Point(NamedTuple):
    """A point that Newton's method has reached, with the loss at the point.

    Attributes:
        theta: the unknowns.
        loss: minus the logarithm of the posterior at `theta`, up to a constant.
        likelihood: the likelihood of the answers at `theta`.
    """

    theta: F64
    loss: float
    likelihood: Likelihood


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

    @cached_property
    def value_slices(self) -> ValueSlices:
        """Slices of scores, side biases and shared errors in the arrays of `to_scores`."""
        n = len(self.features)
        return slice_values(n, self.n_annotators, has_shared_errors=self.has_shared_errors)

    @cached_property
    def unknown_slices(self) -> UnknownSlices:
        """Slice of each kind of unknown (weights, residuals, biases) in the array `theta`."""
        n, d = self.features.shape
        error_lengths = (d, n) if self.has_shared_errors else (0, 0)
        return UnknownSlices(*_consecutive_slices(d, n, self.n_annotators, *error_lengths))

    @property
    def size(self) -> int:
        """Length of the array of scores, side biases and shared errors that `to_scores` returns."""
        return self.value_slices.n_values

    @property
    def n_unknowns(self) -> int:
        """Number of unknowns, including the unknowns of shared errors."""
        return int(self.unknown_slices.errors.stop)

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
        unknowns = self.unknown_slices
        residuals = theta[..., unknowns.residuals]
        biases = theta[..., unknowns.biases]
        error_residuals = theta[..., unknowns.error_residuals]
        values: F64 = np.concatenate((residuals, biases, error_residuals), axis=-1)
        scores = values[..., self.value_slices.scores]  # a view, to which the products are added
        scores += theta[..., unknowns.weights] @ self.features.T
        if self.has_shared_errors:
            errors = values[..., self.value_slices.errors]
            errors += theta[..., unknowns.error_weights] @ self.features.T
        return values

    def pull_back(self, slope: F64) -> F64:
        """Turn derivatives in scores, biases and errors into derivatives in the unknowns.

        This is the transpose of the linear map `to_scores`: if `to_scores` multiplies by a matrix
        A, the result is Aᵀ slope.

        Args:
            slope: (..., n + a) a derivative in each value that `to_scores` returns.

        Returns:
            (..., d + n + a) a derivative in each unknown.
        """
        return self._transpose_to_scores(slope, self.features)

    def diagonal(self, curvature: F64) -> F64:
        """Approximate the diagonal of the curvature in the unknowns.

        If `to_scores` multiplies by a matrix A, the result is the diagonal of Aᵀ C A, for a
        diagonal matrix C. The squares of A's entries are multiplied by the diagonal of C.

        Args:
            curvature: the diagonal of C, the curvature in scores, biases and shared errors.
        """
        return self._transpose_to_scores(curvature, self.features**2)

    def _transpose_to_scores(self, numbers: F64, X: F64) -> F64:
        """Apply the transpose of `to_scores`, with the (n, d) matrix X in place of the features.

        Args:
            numbers: (..., n + a) a number for each score and each bias, followed by a number for
                each of the n shared errors if models have answered.
            X: (n, d) the matrix in place of the features.

        Returns:
            (..., d + n + a) a number for each unknown.
        """
        of_scores = numbers[..., self.value_slices.scores]
        of_biases = numbers[..., self.value_slices.biases]
        columns = [of_scores @ X, of_scores, of_biases]
        if self.has_shared_errors:
            of_errors = numbers[..., self.value_slices.errors]
            columns += [of_errors @ X, of_errors]
        return np.concatenate(columns, axis=-1)

    @cached_property
    def reliability(self) -> F64:
        """Reliability of the annotator of each answer, (m,); 4 for a known answer."""
        annotator_reliability = self.scales.annotators.reliability[self.votes.annotator]
        is_gold = self.votes.of_kind(GOLD)
        reliability: F64 = np.where(is_gold, _GOLD_RELIABILITY, annotator_reliability)
        return reliability

    @cached_property
    def by_annotator(self) -> F64:
        """Factor, (m,), which is 1 for an annotator's answer and 0 for a known answer."""
        return (~self.votes.of_kind(GOLD)).astype(np.float64)

    @cached_property
    def by_model(self) -> F64:
        """Factor of the shared errors in each answer, (m,): 1 for an answer of a model, else 0."""
        return self.votes.of_kind(MODEL).astype(np.float64)

    @cached_property
    def blind_share(self) -> F64:
        """Probability that each answer is independent of the items, (m,); 0 for a known answer."""
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
    def measurement_rows(self) -> I64:
        """Rows of the answers that are probabilities, and count as measurements of z.

        The probabilities of an annotator whose scale of measurements is 0 count as words only.
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
        """Compute z for each answer, (m,): the number on which the answer's likelihood depends.

        z = c (s_left - s_right) + b, with the reliability c, the scores s and the side bias b. In
        the answer of a model the term e_left - e_right is added, with the shared errors e.
        """
        votes = self.votes
        values = self.to_scores(theta)
        scores = values[self.value_slices.scores]
        bias = values[self.value_slices.biases][votes.annotator]
        z: F64 = self.reliability * (scores[votes.left] - scores[votes.right]) + self.side * bias
        if self.has_shared_errors:
            errors = values[self.value_slices.errors]
            z += self.by_model * (errors[votes.left] - errors[votes.right])
        return z

    def likelihood(self, theta: F64) -> Likelihood:
        """Compute the log-likelihood of every answer, and its derivatives in z.

        z is the difference of two items' scores in units of the noise, plus a side bias; see the
        method `z`.

        An answer about two items has one row. An answer about a set of items has a row for each
        pair of its items: the first row has the log-likelihood of the whole answer, the others 0.
        """
        z = self.z(theta)
        # Most answers are words about two items: left, right or tie. So all rows are first treated
        # as words. Then the rows of measurements and of answers about sets are overwritten.
        likelihood = self._likelihood_of_words(z)
        if len(self.measurement_rows):
            likelihood.replace_rows(self.measurement_rows, self._likelihood_of_measurements(z))
        for sets in self.sets:
            likelihood.replace_rows(sets.rows, self._likelihood_of_sets(sets, z))
        n_answers = self.votes.weight  # the number of answers that each row counts for
        return likelihood if n_answers is None else likelihood.times(n_answers)

    def _likelihood_of_words(self, z: F64) -> Likelihood:
        """Compute the likelihood of all rows as if every answer were left, right or tie.

        Some answers are blind: given without a look at the items. A share of them are ties.
        """
        return pair_likelihood(
            z,
            self.votes.target,
            tie=self.scales.tie_threshold,
            blind=self.blind_share,
            ties=self.scales.share_of_ties,
        )

    def _likelihood_of_measurements(self, z: F64) -> Likelihood:
        """Compute the likelihood of the answers that are measurements of z, in their order."""
        rows = self.measurement_rows
        probit = self.votes.probit
        assert probit is not None
        scale = self.scales.annotators.scale[self.votes.annotator[rows]]
        return measurement_likelihood(z[rows], probit[rows], scale)

    def _likelihood_of_sets(self, sets: SetRows, z: F64) -> Likelihood:
        """Compute the likelihood of the answers about sets with the same layout.

        Args:
            sets: the q answers, with r rows each.
            z: (m,) the argument of the likelihood in all rows.

        Returns:
            (q, r) the likelihood of each row. The first row of an answer has the log-likelihood of
            the whole answer, and the other rows have 0.
        """
        likelihood = set_likelihood(
            sets.layout, z[sets.rows], self.blind_share[sets.first], self.scales.share_of_ties
        )
        log_p = np.zeros(sets.rows.shape)
        log_p[:, 0] = likelihood.log_p
        return likelihood._replace(log_p=log_p)

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
        point = self._point_at(theta, precision)
        for _ in range(steps):
            likelihood = point.likelihood
            slope = self.pull_back(self.summed(likelihood.slope)) - precision * point.theta
            step = self.solver(likelihood.weight, prior).solve(slope)
            next_point = self._step_down(point, step, precision)
            does_not_rise = next_point.loss <= point.loss
            if not does_not_rise:
                break
            is_flat = point.loss - next_point.loss <= _RELATIVE_TOLERANCE * (1 + abs(point.loss))
            point = next_point
            if is_flat:
                break
        return point.theta

    def _point_at(self, theta: F64, precision: F64) -> _Point:
        """Compute the loss and the likelihood at the unknowns `theta`.

        Args:
            theta: the unknowns.
            precision: the inverse variance of each unknown under the prior.
        """
        likelihood = self.likelihood(theta)
        loss = float(0.5 * precision @ theta**2 - likelihood.log_p.sum())
        return _Point(theta, loss, likelihood)

    def _step_down(self, point: _Point, step: F64, precision: F64) -> _Point:
        """Take a step from a point; halve the step until it does not raise the loss.

        Args:
            point: the point to start from.
            step: the whole step.
            precision: the inverse variance of each unknown under the prior.

        Returns:
            The point after the step. Its loss is higher if even a tiny step raises the loss.
        """
        share = 1.0
        next_point = self._point_at(point.theta + step, precision)
        while next_point.loss > point.loss and share > _SMALLEST_STEP:
            share /= 2
            next_point = self._point_at(point.theta + share * step, precision)
        return next_point

    def summed(self, slope: F64) -> F64:
        """Compute the derivatives of the log-likelihood in scores, biases and shared errors.

        z is a sum of values times factors. Each answer's slope in z is added to the values on which
        the answer's z depends, times the value's factor.

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
        first_bias = self.value_slices.biases.start
        terms = [
            Term(votes.left, self.reliability, factor_slope=1.0),
            Term(votes.right, -self.reliability, factor_slope=-1.0),
            Term(first_bias + votes.annotator, self.side),
        ]
        if self.has_shared_errors:
            first_error = self.value_slices.errors.start
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
        terms = [term.where(block) for term in self.terms()]
        pairs_of_terms = [*product(terms, repeat=2)]
        rows = np.concatenate([first.position for first, _ in pairs_of_terms])
        columns = np.concatenate([second.position for _, second in pairs_of_terms])
        return rows, columns, _curvature_values(weight[block], terms)

    def summed_curvature(self, weight: F64) -> F64:
        """Compute minus the second derivatives of the log-likelihood as a matrix, (size, size).

        The derivatives are in scores, biases and shared errors, as in `curvature`.

        Args:
            weight: (m,) minus the second derivative of each answer's log-likelihood in z.
        """
        places, terms = self._places_of_curvature
        # bincount adds up the values that belong to the same entry of the matrix.
        sums = np.bincount(places, _curvature_values(weight, terms), self.size * self.size)
        return np.asarray(sums, np.float64).reshape(self.size, self.size)

    @cached_property
    def _places_of_curvature(self) -> tuple[I64, list[Term]]:
        """List the position in the flattened matrix of each product in `_curvature_values`.

        The terms of z are returned, too. Both are the same in every step of Newton's method, so
        they are computed once.
        """
        terms = self.terms()
        places = [
            first.position * self.size + second.position
            for first, second in product(terms, repeat=2)
        ]
        return np.concatenate(places), terms

    def variance(self, root: F64, rows: I64) -> F64:
        """Compute the posterior variance of the likelihood's argument z, for some answers.

        If z is a sum of terms with the factors f_i, the variance is the sum of f_i * f_j * C_ij
        over all ordered pairs of terms, with the covariance C of the terms' values.

        Args:
            root: a matrix R; the covariance of scores, biases and shared errors is RᵀR.
            rows: the rows of the answers.
        """
        terms = [term.where(rows) for term in self.terms()]
        if self.large:
            # The matrix RᵀR would be too large. R has only a few rows, which are draws, so z is
            # computed in each draw.
            z_in_draws = np.zeros((len(root), len(rows)))
            for term in terms:
                z_in_draws += root[:, term.position] * term.factor
            sums_of_squares: F64 = np.einsum("ij,ij->j", z_in_draws, z_in_draws)
            return sums_of_squares
        covariance = root.T @ root
        variance = np.zeros(len(rows))
        for first, second in product(terms, repeat=2):
            factors = first.factor * second.factor
            variance += factors * covariance[first.position, second.position]
        return np.maximum(variance, 0)  # rounding errors may make it negative

    def fit_under(
        self, prior: Prior, theta: F64, n_draws: int, rng: np.random.Generator
    ) -> PriorFit:
        """Approximate the posterior around its mode by a Gaussian (Laplace's approximation).

        The reliabilities are fixed during the fit, but they are uncertain. Let the mode shift by
        δ_j if the reliability of annotator j grows by its standard deviation. Then the sum of
        δ_j δ_jᵀ over the annotators is added to the covariance. The same covariance is added to
        the draws: each draw is shifted by the sum of ε_j δ_j, with standard normal numbers ε_j.

        Args:
            prior: the prior of the unknowns.
            theta: the unknowns at the mode.
            n_draws: the number of draws.
            rng: the generator of the draws.
        """
        solver = self.solver(self.likelihood(theta).weight, prior)
        covariance = solver.covariance()  # None if there are too many unknowns
        drawn_unknowns = theta + solver.draw(n_draws, rng)
        draws = self.to_scores(drawn_unknowns)
        shifts = np.zeros_like(drawn_unknowns)
        if self.compares_annotators and len(self.votes):  # else the reliabilities are not estimated
            slope_changes = self.slope_changes_by_annotator(theta)
            noise = rng.standard_normal((n_draws, self.n_annotators))
            shifts = self.shifts_of_mode(noise @ slope_changes, solver)
            draws += self.to_scores(shifts)
            if covariance is not None:
                shifts_by_annotator = self.shifts_of_mode(slope_changes.toarray(), solver)
                value_shifts = self.to_scores(shifts_by_annotator)
                covariance = covariance + value_shifts.T @ value_shifts
        weights = self.unknown_slices.weights
        return PriorFit(
            theta,
            self.to_scores(theta),
            covariance,
            draws,
            weight_draws=drawn_unknowns[:, weights],
            weight_shifts=shifts[:, weights],
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
        the mode. An answer with the slope g in z adds g f to the slope in the value of each term of
        z, with the term's factor f. If the reliability c grows by its standard deviation sd, the
        product changes by

            sd * d(g f)/dc = sd * (g * df/dc - w * (s_left - s_right) * f),

        with the scores s and w = -dg/dz.

        Args:
            theta: the unknowns at the mode.

        Returns:
            (a, n + a) the changes for one standard deviation of each annotator's reliability.
        """
        votes = self.votes
        scores = self.to_scores(theta)
        gap = scores[votes.left] - scores[votes.right]
        likelihood = self.likelihood(theta)
        sd = self.scales.annotators.reliability_sd[votes.annotator] * self.by_annotator
        terms = self.terms()
        changes = [
            sd * (likelihood.slope * term.factor_slope - likelihood.weight * gap * term.factor)
            for term in terms
        ]
        # One entry for each answer and term: in the row of the annotator, in the column of the
        # value. Entries at the same position are added up.
        rows = np.tile(votes.annotator, len(terms))
        columns = np.concatenate([term.position for term in terms])
        entries = np.concatenate(changes), (rows, columns)
        shape = self.n_annotators, self.size
        return sparse.csr_array(sparse.coo_array(entries, shape=shape))
