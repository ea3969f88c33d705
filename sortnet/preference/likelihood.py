"""Likelihood of an answer: Thurstone's model with ties, and a share of answers given blindly.

Throughout, z is the difference of two scores in units of the noise of an answer, Φ the normal
distribution function, φ its density, τ the tie threshold, and m the number of answers. An annotator
may also answer with a probability p that the left item is better. This answer is a measurement, see
`measurement_likelihood`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri

from sortnet.core import F64, I64, Bool

# The probit of .99. A probability of .99 or more is no measurement: it only says that the
# difference is large.
MOST_PROBIT = float(ndtri(0.99))
_LEAST_P = 1e-300  # keeps a probability above 0, so that it has a logarithm
# Keeps a ratio below 1 despite rounding errors, so that 1 - ratio has a logarithm.
_LARGEST_LOG_RATIO = -1e-12


class Likelihood(NamedTuple):
    """Log-likelihoods of answers, with their derivatives in the score difference z.

    Attributes:
        log_p: (m,) the log-likelihoods.
        slope: (m,) the first derivatives.
        weight: (m,) minus the second derivatives, at least 0.
    """

    log_p: F64
    slope: F64
    weight: F64

    def where(self, rows: Bool | I64) -> Likelihood:
        """Select answers by a mask or by row numbers."""
        return Likelihood(self.log_p[rows], self.slope[rows], self.weight[rows])

    def times(self, n_answers: F64) -> Likelihood:
        """Count each answer as several answers, (m,), or as a fraction of an answer."""
        return Likelihood(n_answers * self.log_p, n_answers * self.slope, n_answers * self.weight)

    def replace_rows(self, rows: Bool | I64, likelihood: Likelihood) -> None:
        """Replace the values of the answers that `rows` selects, in place."""
        self.log_p[rows] = likelihood.log_p
        self.slope[rows] = likelihood.slope
        self.weight[rows] = likelihood.weight


def genuine(z: F64, target: F64, tie: float | F64) -> Likelihood:
    """Compute the likelihood of genuine answers, which depend on the scores of the items.

    P(left) = Φ(z - τ), P(right) = Φ(-z - τ), and P(tie) = 1 - P(left) - P(right), with the tie
    threshold τ (Glenn and David, 1960; Rao and Kupper's ties for a normal noise). log p is concave
    in z. With τ = 0 a tie counts as half an answer left and half an answer right.

    Args:
        z: (m,) the difference of two scores, in units of the noise.
        target: (m,) 1 for left, 0 for right, ½ for a tie. Any other value is a probability p of
            left, which counts as p answers left and 1 - p answers right.
        tie: the tie threshold τ.

    >>> p = np.exp(genuine(np.zeros(3), np.array([1.0, 0.5, 0.0]), 0.5).log_p)
    >>> p.round(3), float(p.sum().round(6))
    (array([0.309, 0.383, 0.309]), 1.0)
    """
    # Most answers are left or right, so all are first treated as such. Then the values of ties and
    # of probabilities are replaced.
    sign = np.where(target > 0, 1.0, -1.0)
    likelihood = _side_likelihood(sign * z - tie)
    likelihood = likelihood._replace(slope=sign * likelihood.slope)  # the derivative in z
    threshold = np.broadcast_to(tie, z.shape)
    is_tie = target == 0.5
    if is_tie.any():
        likelihood.replace_rows(is_tie, _tie_likelihood(z[is_tie], threshold[is_tie]))
    is_probability = (target > 0) & (target < 1) & ~is_tie
    if is_probability.any():
        mixed = _mixed_likelihood(
            z[is_probability], target[is_probability], threshold[is_probability]
        )
        likelihood.replace_rows(is_probability, mixed)
    return likelihood


def pair_likelihood(z: F64, target: F64, tie: float, blind: F64, ties: float) -> Likelihood:
    """Compute the likelihood of answers about two items: left, right, tie, or a share of votes.

    A share of each annotator's answers is blind: independent of the items.

    With p_genuine from `genuine` and p_blind from `chance`, the likelihood p, and the share of p
    that is due to genuine answers, are

        p = (1 - blind) p_genuine + blind p_blind,    share = (1 - blind) p_genuine / p

    With the slope g and the weight w of genuine answers, the slope is share g, and the weight is
    share w - share (1 - share) g². This may be negative, because log p is not concave if there are
    blind answers. Then the weight is set to 0.

    Args:
        z: (m,) the difference of two scores, in units of the noise.
        target: (m,) 1 for left, 0 for right, ½ for a tie. Any other value is a probability of left.
        tie: the tie threshold τ.
        blind: (m,) the share of blind answers of each answer's annotator.
        ties: the share of ties among blind answers.
    """
    genuine_likelihood = genuine(z, target, tie)
    if not np.any(blind):
        return genuine_likelihood
    log_p, slope, weight = genuine_likelihood
    p_genuine = (1 - blind) * np.exp(log_p)
    p = np.maximum(p_genuine + blind * chance(target, ties), _LEAST_P)
    # Where no answer is blind, the values stay as they are: p may be too small for a logarithm.
    may_be_blind = blind > 0
    share = np.where(may_be_blind, p_genuine / p, 1.0)
    curvature = share * weight - share * (1 - share) * slope**2
    mixed_log_p = np.where(may_be_blind, np.log(p), log_p)
    return Likelihood(mixed_log_p, share * slope, np.maximum(curvature, 0))


def measurement_likelihood(z: F64, probit: F64, scale: F64) -> Likelihood:
    """Compute the likelihood of answers that state a probability p that the left item is better.

    Such an answer is a measurement of z: probit(p) = scale (z + error), with a standard normal
    error. The word "left" or "right" is the sign of z + error; the probability also tells how large
    |z + error| is. A probit of at least `MOST_PROBIT`, or at most -`MOST_PROBIT`, is a lower bound
    of |z + error| only.

    Args:
        z: (m,) the difference of two scores, in units of the noise.
        probit: (m,) the probit of each probability.
        scale: (m,) the scale of each answer's annotator, above 0.

    >>> z, probit, scale = np.array([1.0]), np.array([0.8]), np.array([2.0])
    >>> measurement_likelihood(z, probit, scale).slope  # 0.8 / 2 - 1
    array([-0.6])
    """
    error = probit / scale - z
    log_p = -0.5 * error**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    slope = error
    weight = np.ones_like(error)
    beyond = np.abs(probit) >= MOST_PROBIT
    if beyond.any():
        sign = np.sign(probit[beyond])
        lower_bound = MOST_PROBIT / np.broadcast_to(scale, z.shape)[beyond]
        # The answer says that sign (z + error) is at least the lower bound.
        at_least = _side_likelihood(sign * z[beyond] - lower_bound)
        log_p[beyond] = at_least.log_p
        slope[beyond] = sign * at_least.slope
        weight[beyond] = at_least.weight
    return Likelihood(log_p, slope, weight)


def squared_error(z: F64, probit: F64, scale: F64) -> F64:
    """Compute the expected square of the error of each measurement.

    The error is probit / scale - z. If the probit is only a lower bound, the expected square is
    the mean square of a truncated normal error.
    """
    square: F64 = (probit / scale - z) ** 2
    beyond = np.abs(probit) >= MOST_PROBIT
    excess = np.sign(probit[beyond]) * z[beyond] - MOST_PROBIT / scale[beyond]
    square[beyond] = 1 - excess * _side_likelihood(excess).slope
    return square


def chance(target: F64, ties: float) -> F64:
    """Return the probability of each answer if it is given blindly, (m,).

    A tie has the probability `ties`; left and right have half of the rest each.
    """
    return np.where(target == 0.5, ties, (1 - ties) / 2)


def _side_likelihood(u: F64) -> Likelihood:
    """Compute log Φ(u), with the normal distribution function Φ, and its derivatives in u."""
    log_p = log_ndtr(u)
    ratio = _density_ratio(u, log_p)
    return Likelihood(log_p, ratio, ratio * (u + ratio))


def _mixed_likelihood(z: F64, p: F64, tie: F64) -> Likelihood:
    """Compute the likelihood of answers that count as p answers left and 1 - p answers right.

    With the tie threshold τ, log p_mixed = p log Φ(z - τ) + (1 - p) log Φ(-z - τ).

    Args:
        z: (m,) the difference of two scores, in units of the noise.
        p: (m,) the probability of left.
        tie: (m,) the tie threshold.
    """
    left = _side_likelihood(z - tie)
    right = _side_likelihood(-z - tie)
    return Likelihood(
        log_p=p * left.log_p + (1 - p) * right.log_p,
        slope=p * left.slope - (1 - p) * right.slope,  # the argument of `right` falls with z
        weight=p * left.weight + (1 - p) * right.weight,
    )


def _tie_likelihood(z: F64, tie: F64) -> Likelihood:
    """Compute the log-likelihood of ties, with the derivatives in z.

    A tie has the probability Φ(τ - z) - Φ(-τ - z), with the tie threshold τ. If a threshold is 0,
    all ties count as half an answer left and half an answer right.

    Args:
        z: (m,) the difference of two scores, in units of the noise.
        tie: (m,) the tie threshold τ.
    """
    if not np.all(tie):
        return _mixed_likelihood(z, np.full(len(z), 0.5), np.zeros(len(z)))
    # The formula is symmetric in z, and numerically stable for z > 0 only.
    sign = np.where(z < 0, -1.0, 1.0)
    distance = np.abs(z)
    high = tie - distance
    low = -tie - distance
    log_high = log_ndtr(high)
    # log(Φ(high) - Φ(low)) is log Φ(high) + log(1 - ratio), with the ratio Φ(low) / Φ(high) < 1.
    log_ratio = np.minimum(log_ndtr(low) - log_high, _LARGEST_LOG_RATIO)
    log_p = log_high + np.log1p(-np.exp(log_ratio))
    at_high = _density_ratio(high, log_p)
    at_low = _density_ratio(low, log_p)
    slope = at_low - at_high
    weight = np.maximum(slope**2 + high * at_high - low * at_low, 0)
    return Likelihood(log_p, sign * slope, weight)


def _density_ratio(u: F64, log_p: F64) -> F64:
    """Compute φ(u) / p, the normal density at u over a probability p, stably for large |u|."""
    ratio: F64 = np.exp(-0.5 * u * u - log_p) / np.sqrt(2 * np.pi)
    return ratio
