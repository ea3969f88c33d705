"""The posterior of the items' scores: a Gaussian, updated by one answer at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtr

from sortnet.core import F32, F64, I64
from sortnet.preference.likelihood import MOST_PROBIT, measurement_likelihood, pair_likelihood
from sortnet.preference.reliability import Annotators
from sortnet.preference.set_answers import observed_set
from sortnet.preference.vote_arrays import MODEL, PERSON, Votes, unseen

Draws: TypeAlias = F32 | F64  # drawn scores, in single precision for many items
Measuring: TypeAlias = tuple[float, float]  # reliability and scale of an annotator
_BLOCK = 1 << 16  # pairs whose draws are compared at once
_FEW_DRAWN = 1 << 22  # size of the draws up to which a transposed copy is kept
_LEAST_VARIANCE = 1e-12  # keeps variances positive despite rounding errors
_LEAST_P = 1e-300  # keeps a probability above 0, so that it can be a divisor


class _Summand(NamedTuple):
    """One summand of m sums: a score, side bias or shared error, times a factor.

    Attributes:
        position: (m,) the position of each value in `Posterior.mean`.
        factor: (m,) the factor of each value, or one factor for all.
    """

    position: I64
    factor: F64 | float


@dataclass(eq=False)
class Posterior:
    """The scores s of items and the side biases b of annotators, as a Gaussian distribution.

    In shapes, n is the number of items, and a of annotators.

    A higher score is better. An answer `left` of an annotator with reliability c has the
    probability Φ(c (s_left - s_right) + b - τ). This is Thurstone's case V, where the unit of the
    scores is the noise of one answer. See `pair_likelihood` for ties and for answers given blindly.

    Attributes:
        mean: (n + a,) the expected scores, then the expected biases. If models share errors, the n
            expected errors follow.
        covariance: covariance of scores, biases and errors; None if n is too large for it.
        draws: (k, ...) scores, biases and errors, drawn k times from the posterior; in single
            precision if there are many items.
        annotators: the reliabilities, side biases and blind shares of the annotators.
        n_items: n.
        rng: generator of the noise of the draws when an answer is observed.
        tie: τ, the tie threshold; 0 if nobody has answered with a tie.
        ties: share of ties among answers given blindly.
    """

    mean: F64
    covariance: F64 | None
    draws: Draws
    annotators: Annotators
    n_items: int
    rng: np.random.Generator
    tie: float = 0.0
    ties: float = 0.0

    @property
    def reliability(self) -> F64:
        """Expected reliability of each annotator, (a,)."""
        return self.annotators.reliability

    @property
    def scores(self) -> F64:
        """Expected score of each item, (n,)."""
        return self.mean[: self.n_items]

    def difference(self, i: I64, j: I64) -> tuple[F64, F64]:
        """Return the mean and the variance of the score difference s_i - s_j of each pair of items.

        Cost: a look-up per pair with a covariance, else k subtractions per pair.
        """
        mean = self.mean[i] - self.mean[j]
        if self.covariance is not None:
            C = self.covariance
            variance = C[i, i] + C[j, j] - 2 * C[i, j]
        else:
            variance = np.empty(len(i))
            for start in range(0, len(i), _BLOCK):
                block = slice(start, start + _BLOCK)
                variance[block] = self._drawn_variance(i[block], j[block])
        return mean, np.maximum(variance, _LEAST_VARIANCE)

    def _drawn_variance(self, i: I64, j: I64) -> F64:
        """Compute the variance of the score difference of each pair of items among the draws."""
        if self.draws.size > _FEW_DRAWN:  # a copy of the draws would take much memory
            variance: F64 = np.var(self.draws[:, i] - self.draws[:, j], axis=0)
            return variance
        # The same from a copy of the draws, which is many times as fast.
        gaps = self._centred.take(i, axis=0)
        gaps -= self._centred.take(j, axis=0)
        sums_of_squares: F64 = np.einsum("ij,ij->i", gaps, gaps)
        return sums_of_squares / len(self.draws)

    @cached_property
    def _centred(self) -> F32:
        """Draws of the scores with the mean of each item subtracted, (n, k), in single precision.

        The choice of a question needs the variances of thousands of pairs. It is forty times as
        fast if the draws of an item are adjacent in memory. The copy never gets out of date: it is
        needed without a covariance only, and then `observe` does not change the draws.
        """
        scores = self.draws[:, : self.n_items]
        return np.ascontiguousarray((scores - scores.mean(axis=0)).T, np.float32)

    def predicted(self, votes: Votes, *, left_out: bool = False) -> F64:
        """Predict the probability that each answer is "left", given that it is no tie, (m,).

        It is P(left) / (P(left) + P(right)). With the mean and the variance of z, and Φ, the tie
        threshold τ and the share `blind` of blind answers:

            P(left) = blind / 2 + (1 - blind) Φ((mean - τ) / √(1 + variance))
            P(right) = blind / 2 + (1 - blind) Φ((-mean - τ) / √(1 + variance))

        Args:
            votes: the answers to predict. An annotator without a fitted reliability is average.
            left_out: whether to predict each vote as if the posterior had not been fitted to the
                vote.
        """
        n_annotators = len(self.reliability)
        # Annotators that the posterior does not know count as one more annotator, who is average
        # and has no side bias.
        annotators = self.annotators.padded(n_annotators + 1)
        annotator = np.minimum(votes.annotator, n_annotators)
        blind = annotators.blind[annotator]
        scale = annotators.scale[annotator]
        known_biases = self.mean[self.n_items : self.n_items + n_annotators]
        bias = np.append(known_biases, 0.0)[annotator]
        mean_without_bias, variance = self._z_without_bias(votes, annotators.reliability[annotator])
        if left_out:  # take back the effect of each answer on its own z
            slope, weight = self._slope_and_weight(mean_without_bias + bias, votes, blind, scale)
            mean_without_bias, variance = unseen(mean_without_bias, variance, slope, weight)
        mean = mean_without_bias + bias
        spread = np.sqrt(1 + variance)
        p_left = blind / 2 + (1 - blind) * ndtr((mean - self.tie) / spread)
        p_right = blind / 2 + (1 - blind) * ndtr((-mean - self.tie) / spread)
        p: F64 = p_left / np.maximum(p_left + p_right, _LEAST_P)
        return p

    def _slope_and_weight(self, z: F64, votes: Votes, blind: F64, scale: F64) -> tuple[F64, F64]:
        """Compute the first, and minus the second, derivative of each vote's log-likelihood in z.

        Args:
            z: (m,) the argument of the likelihood.
            votes: the m votes.
            blind: (m,) the share of blind answers of each vote's annotator.
            scale: (m,) the scale of measurements of each vote's annotator.
        """
        likelihood = pair_likelihood(z, votes.target, self.tie, blind, self.ties)
        rows = np.flatnonzero(votes.is_measured & (scale > 0))
        if votes.probit is not None and len(rows):
            likelihood.replace_rows(
                rows, measurement_likelihood(z[rows], votes.probit[rows], scale[rows])
            )
        return likelihood.slope, likelihood.weight

    def _z_without_bias(self, votes: Votes, reliability: F64) -> tuple[F64, F64]:
        """Predict z of each vote, apart from the side bias: return (m,) means and (m,) variances.

        This is c (s_left - s_right), with the reliability c and the scores s. For an answer of a
        model the errors e that models share are added: c (s_left - s_right) + e_left - e_right.

        Args:
            votes: the m votes.
            reliability: (m,) the reliability c of each vote's annotator.
        """
        score_mean, score_variance = self.difference(votes.left, votes.right)
        mean = reliability * score_mean
        variance = reliability**2 * score_variance
        rows = np.flatnonzero(votes.of_kind(MODEL))
        if self.errors is not None and len(rows):
            left = votes.left[rows]
            right = votes.right[rows]
            c = reliability[rows]
            z_of_models = [
                _Summand(left, c),
                _Summand(right, -c),
                _Summand(self.errors + left, 1.0),
                _Summand(self.errors + right, -1.0),
            ]
            mean[rows] = sum(factor * self.mean[position] for position, factor in z_of_models)
            variance[rows] = self._variance_of_sum(z_of_models, len(rows))
        return mean, variance

    def _variance_of_sum(self, summands: list[_Summand], m: int) -> F64:
        """Compute the variance of m sums of scores, biases or errors, each times a factor.

        With the factors f and the covariance C of the values, the variance of a sum is
        Σ_i Σ_j f_i f_j C_ij. Without a covariance, it is the variance of the sum among the draws.

        Args:
            summands: the summands of the m sums.
            m: the number of sums.
        """
        if self.covariance is None:
            drawn_sums = np.zeros((len(self.draws), m))
            for position, factor in summands:
                drawn_sums += factor * self.draws[:, position]
            variance_of_draws: F64 = drawn_sums.var(axis=0)
            return variance_of_draws
        variance = np.zeros(m)
        for row, row_factor in summands:
            for column, column_factor in summands:
                variance += row_factor * column_factor * self.covariance[row, column]
        return variance

    @property
    def errors(self) -> int | None:
        """Index in `mean` of the first error that models share; None if there are no errors."""
        n_scores_and_biases = self.n_items + len(self.reliability)
        return n_scores_and_biases if len(self.mean) > n_scores_and_biases else None

    def observe(
        self,
        left: int,
        right: int,
        target: float,
        annotator: int,
        kind: int = PERSON,
        probit: float = float("nan"),
    ) -> None:
        """Update the posterior in place by one answer about a pair (assumed density filtering).

        The updated Gaussian has the mean and the variance of the exact posterior. The answer
        depends on the values (scores, biases and errors) through one weighted sum, z. With the gain
        g, the covariance of z with each value, the mean changes by g shift, and the covariance by
        -g gᵀ shrink, with the numbers `shift` and `shrink` of `_shift_and_shrink`. Without a
        covariance nothing changes before the next fit.

        Args:
            left, right: the items of the pair.
            target: 1 for the answer left, 0 for right, ½ for a tie.
            annotator: the number of the annotator.
            kind: `PERSON` or `MODEL`.
            probit: if the answer is a probability that the left item is better, and counts as a
                measurement of z, the probit of the probability; else NaN.

        Cost: O((n + a)²).
        """
        if self.covariance is None:
            return
        x = self._factors_of_pair(left, right, annotator, kind)  # z is the sum of x * values
        gain = self.covariance @ x
        mean = float(self.mean @ x)
        variance = max(float(gain @ x), _LEAST_VARIANCE)
        shift, shrink = self._shift_and_shrink(mean, variance, target, annotator, probit)
        if shrink <= 0:  # the answer tells nothing: it was expected for certain, or it is blind
            return
        # A noisy observation of z would have the same effect on mean and variance as the answer.
        # Each draw is changed as by this observation, with noise of its own (Matheron's rule).
        observed_value = mean + shift / shrink
        noise_variance = 1 / shrink - variance
        noise = self.rng.standard_normal(len(self.draws)) * np.sqrt(noise_variance)
        surprises = observed_value + noise - self.draws @ x
        self.draws += np.outer(surprises * shrink, gain)
        self.mean += gain * shift
        self.covariance -= np.outer(gain, gain) * shrink

    def _shift_and_shrink(
        self, mean: float, variance: float, target: float, annotator: int, probit: float
    ) -> tuple[float, float]:
        """Compute how an answer about a pair changes the mean and the variance of z.

        z is the score difference of the pair, in units of the noise and with the side bias.

        If z is a Gaussian before the answer, the exact posterior of z has the mean
        mean + variance shift and the variance variance - variance² shrink.

        Args:
            mean, variance: the mean and the variance of z before the answer.
            target: 1 for the answer left, 0 for right, ½ for a tie.
            annotator: the number of the annotator.
            probit: the probit of the probability that the left item is better, if the answer is a
                measurement; else NaN.

        Returns:
            The numbers `shift` and `shrink`.
        """
        # An answer depends on z plus noise of variance 1. The uncertainty of z counts as further
        # noise. The likelihood functions need noise of variance 1, so below, all is in units of the
        # standard deviation of the whole noise.
        spread = np.sqrt(1 + variance)
        z = np.array([mean / spread])
        scale = float(self.annotators.scale[annotator])
        is_measurement = scale > 0 and not np.isnan(probit)
        if is_measurement:
            likelihood = measurement_likelihood(z, np.array([probit]), np.array([scale * spread]))
        else:
            blind = np.array([self.annotators.blind[annotator]])
            likelihood = pair_likelihood(z, np.array([target]), self.tie / spread, blind, self.ties)
        return float(likelihood.slope[0] / spread), float(likelihood.weight[0] / spread**2)

    def observe_set(self, votes: Votes) -> None:
        """Update the posterior in place by one answer about a set (Laplace's approximation).

        The answer depends on z, the differences of utility between the best item and each other
        item: z = x v, with the values v of the posterior (scores, biases and errors) and the
        matrix x of their factors. As a function of z, the likelihood is approximated by a Gaussian,
        with the slope g and the precision P at the mode. The values have the mean μ and the
        covariance C, and z has the variance V before the answer. Then:

            G = x C,    V = G xᵀ
            new μ = μ + Gᵀ g
            new C = C - Gᵀ (I + P V)⁻¹ P G

        Without a covariance nothing changes before the next fit.

        Args:
            votes: the rows of the answer, ordered as `Layout` describes.

        Cost: k times the cost of `observe` for k items.
        """
        if self.covariance is None:
            return
        (sets,) = votes.sets
        # The first rows of the answer compare the best item with each other item, so they are the
        # rows of z. The other rows are differences of these rows.
        n_others = sets.layout.n_items - 1
        x = self._factors(votes)[:n_others]
        gain = x @ self.covariance  # the covariance of z with the values
        mean = x @ self.mean
        variance = gain @ x.T
        blind = self.annotators.blind[votes.annotator[0]]
        slope, precision = observed_set(sets.layout, mean, variance, blind, self.ties)
        inverse = np.linalg.inv(np.eye(n_others) + precision @ variance)
        mode = slope @ variance + mean  # of z, after the answer
        pulls = self._pulls_of_draws(x, mode, slope, precision)
        self.draws += pulls @ inverse.T @ gain
        self.mean += slope @ gain
        self.covariance -= gain.T @ (inverse @ precision) @ gain

    def _pulls_of_draws(self, x: F64, mode: F64, slope: F64, precision: F64) -> F64:
        """Compute how strongly an answer about a set pulls each draw of z.

        The answer acts like an observation y of z with the precision P, so that the slope at the
        mode is g = P (y - mode). The draws get the same observation with drawn noise ε, whose
        covariance is P⁻¹ (Matheron's rule). A draw of z is pulled by

            P (y + ε - z) = P ε + g + P (mode - z),    where P ε has the covariance P.

        Args:
            x: (z, values) the factors of the values in z.
            mode: (z,) the mode of z.
            slope: (z,) the slope g of the log-likelihood at the mode.
            precision: (z, z) the precision P.
        """
        standard_noise = self.rng.standard_normal((len(self.draws), len(mode)))
        noise = standard_noise @ _square_root(precision).T  # P ε
        drawn_z = self.draws @ x.T
        return noise + slope + (mode - drawn_z) @ precision

    def _factors_of_pair(self, left: int, right: int, annotator: int, kind: int) -> F64:
        """Return the vector whose product with scores, biases and errors is an answer's z.

        The answer is about a pair. The arguments are the same as for `observe`.
        """
        x = np.zeros(len(self.mean))
        x[left] += self.reliability[annotator]
        x[right] -= self.reliability[annotator]
        x[self.n_items + annotator] = 1
        if kind == MODEL and self.errors is not None:
            x[self.errors + left] = 1
            x[self.errors + right] = -1
        return x

    def _factors(self, votes: Votes) -> F64:
        """Return the matrix that maps scores, biases and errors to an answer's utility differences.

        Args:
            votes: the rows of an answer about a set, one for each difference of two items.

        Returns:
            (rows, values) one row of factors for each row of the answer.
        """
        annotator = int(votes.annotator[0])
        x = np.zeros((len(votes), len(self.mean)))
        rows = np.arange(len(votes))
        x[rows, votes.left] += self.reliability[annotator]
        x[rows, votes.right] -= self.reliability[annotator]
        x[:, self.n_items + annotator] = 1.0 if votes.bias is None else votes.bias
        if self.errors is not None and votes.of_kind(MODEL).all():
            x[rows, self.errors + votes.left] += 1
            x[rows, self.errors + votes.right] -= 1
        return x


def _square_root(precision: F64) -> F64:
    """Return a square root R of a positive semi-definite precision P, such that R Rᵀ = P.

    Eigenvalues that rounding errors have made negative count as 0.
    """
    eigenvalues, eigenvectors = np.linalg.eigh(precision)
    root: F64 = eigenvectors * np.sqrt(np.maximum(eigenvalues, 0))
    return root


def information(mean: F64, variance: F64) -> F64:
    """Compute the expected information of an answer about the score difference of a pair, in bits.

    This is BALD (Houlsby and others, 2011, eq. 3):
    h(Φ(μ / √(σ² + 1))) - C exp(-μ² / (2 (σ² + C²))) / √(σ² + C²), with the mean μ and the variance
    σ² of the difference, C = √(π ln 2 / 2) and the entropy h of a coin.

    >>> information(np.array([0.0, 5.0]), np.array([1.0, 1.0])).round(3)
    array([0.278, 0.001])
    """
    c2 = np.pi * np.log(2) / 2  # C²
    p = ndtr(mean / np.sqrt(variance + 1))
    expected_entropy = np.sqrt(c2 / (variance + c2)) * np.exp(-(mean**2) / (2 * (variance + c2)))
    bits: F64 = _entropy(p) - expected_entropy
    return bits


def information_of_measurement(mean: F64, variance: F64, scale: float) -> F64:
    """Compute the expected information, in bits, of an answer that is a measurement.

    A measurement is z plus a standard normal error, with the argument z of the likelihood, see
    `measurement_likelihood`. The information is log2(1 + variance) / 2, with the variance of z. A
    measurement beyond the largest or the smallest probability counts as no information.

    Args:
        mean, variance: (m,) the mean and the variance of z.
        scale: the annotator's scale of measurements.

    >>> information_of_measurement(np.array([0.0, 9.0]), np.array([1.0, 1.0]), 0.5).round(3)
    array([0.499, 0.001])
    """
    largest = MOST_PROBIT / scale
    spread = np.sqrt(1 + variance)
    p_within = ndtr((largest - mean) / spread) - ndtr((-largest - mean) / spread)
    bits: F64 = 0.5 * np.log2(1 + variance) * p_within
    return bits


def _entropy(p: F64) -> F64:
    """Compute the entropy, in bits, of a coin that shows heads with the probability p."""
    q = np.clip(p, 1e-12, 1 - 1e-12)
    return -(q * np.log2(q) + (1 - q) * np.log2(1 - q))
