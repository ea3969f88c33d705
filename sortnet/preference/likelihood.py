"""Likelihood of an answer: Thurstone's model with ties, and a share of answers given blindly.

Throughout, z is the difference of two scores in units of the noise, Φ the normal distribution
function, φ its density and τ the tie threshold. An annotator may also answer with a probability p
that the left item is better; this answer is a measurement, see `measured`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri

from sortnet.core import F64

# A probability of .99 or more is no measurement: it only says that the difference is large. This
# is the probit of .99.
MOST_PROBIT = float(ndtri(0.99))


class Likelihood(NamedTuple):
    """Log-likelihoods of answers, with their derivatives in z."""

    log_p: F64  # (m,)
    slope: F64  # (m,) first derivatives
    weight: F64  # (m,) minus the second derivatives, at least 0


def genuine(z: F64, target: F64, tie: float | F64) -> Likelihood:
    """Likelihood of answers that depend on the items.

    P(left) = Φ(z - τ) and P(right) = Φ(-z - τ); the rest is P(tie). τ is the tie threshold (Glenn
    and David, 1960; Rao and Kupper's ties for a normal noise). log p is concave in z. With τ = 0 a
    tie counts as half an answer left and half an answer right.

    Args:
        z: (m,) differences in units of the noise.
        target: (m,) 1 for left, 0 for right, ½ for a tie. Another value is a probability p of left,
            which counts as p answers left and 1 - p answers right.
        tie: the tie threshold τ.

    >>> p = np.exp(genuine(np.zeros(3), np.array([1.0, 0.5, 0.0]), 0.5).log_p)
    >>> p.round(3), float(p.sum().round(6))
    (array([0.309, 0.383, 0.309]), 1.0)
    """
    sign = np.where(target > 0, 1.0, -1.0)
    likelihood = _side(sign * z - tie)
    log_p, slope, weight = likelihood
    slope *= sign
    is_tie = target == 0.5
    if is_tie.any():
        threshold = np.broadcast_to(tie, z.shape)[is_tie]
        of_ties = _between(z[is_tie], threshold) if np.all(threshold) else _halves(z[is_tie])
        for column, values in zip(likelihood, of_ties, strict=True):
            column[is_tie] = values
    is_probability = (target > 0) & (target < 1) & ~is_tie
    if is_probability.any():
        p = target[is_probability]
        threshold = np.broadcast_to(tie, z.shape)[is_probability]
        left = _side(z[is_probability] - threshold)
        right = _side(-z[is_probability] - threshold)
        log_p[is_probability] = p * left.log_p + (1 - p) * right.log_p
        slope[is_probability] = p * left.slope - (1 - p) * right.slope
        weight[is_probability] = p * left.weight + (1 - p) * right.weight
    return likelihood


def answers(z: F64, target: F64, tie: float, blind: F64, ties: float) -> Likelihood:
    """Likelihood of answers, a share of which is blind: given without a look at the items.

    p = (1 - blind) p_genuine + blind p_blind, see `genuine` and `chance`. With blind answers log p
    is not concave any more, so weights are cut at 0.

    Args:
        z: (m,) differences in units of the noise.
        target: (m,) see `genuine`.
        tie: the tie threshold τ.
        blind: (m,) the share of blind answers of each answer's annotator.
        ties: the share of ties among blind answers.
    """
    of_genuine = genuine(z, target, tie)
    if not np.any(blind):
        return of_genuine
    log_p, slope, weight = of_genuine
    p_genuine = (1 - blind) * np.exp(log_p)
    p = np.maximum(p_genuine + blind * chance(target, ties), 1e-300)
    share = np.where(blind > 0, p_genuine / p, 1.0)
    curvature = share * weight - share * (1 - share) * slope**2
    mixed_log_p = np.where(blind > 0, np.log(p), log_p)
    return Likelihood(mixed_log_p, share * slope, np.maximum(curvature, 0))


def measured(z: F64, probit: F64, scale: F64) -> Likelihood:
    """Likelihood of measurements of z: probit(p) = scale (z + error), with standard normal errors.

    The answer "left" or "right" is the sign of z + error; a probability p also says how large
    |z + error| is. A probit of `MOST_PROBIT` or more, left or right, is a lower bound only.

    Args:
        z: (m,) differences in units of the noise.
        probit: (m,) the probits of the probabilities that the left item is better.
        scale: (m,) each annotator's scale, above 0.

    >>> measured(np.array([1.0]), np.array([0.8]), np.array([2.0])).slope  # 0.8 / 2 - 1
    array([-0.6])
    """
    error = probit / scale - z
    log_p = -0.5 * error**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    slope = error
    weight = np.ones_like(error)
    beyond = np.abs(probit) >= MOST_PROBIT
    if beyond.any():
        sign = np.sign(probit[beyond])
        least = MOST_PROBIT / np.broadcast_to(scale, z.shape)[beyond]
        at_least = _side(sign * z[beyond] - least)
        log_p[beyond] = at_least.log_p
        slope[beyond] = sign * at_least.slope
        weight[beyond] = at_least.weight
    return Likelihood(log_p, slope, weight)


def squared_error(z: F64, probit: F64, scale: F64) -> F64:
    """(m,) expected squared errors of measurements, see `measured`.

    Where the probit is only a lower bound, it is the mean square of a truncated normal error.
    """
    square: F64 = (probit / scale - z) ** 2
    beyond = np.abs(probit) >= MOST_PROBIT
    excess = np.sign(probit[beyond]) * z[beyond] - MOST_PROBIT / scale[beyond]
    square[beyond] = 1 - excess * _side(excess).slope
    return square


def chance(target: F64, ties: float) -> F64:
    """(m,) probabilities of blind answers: `ties` for a tie, half of the rest for each side."""
    return np.where(target == 0.5, ties, (1 - ties) / 2)


def _side(u: F64) -> Likelihood:
    """Likelihood of answers for one side, log Φ(u), with its derivatives in u."""
    log_p = log_ndtr(u)
    ratio = _density_ratio(u, log_p)
    return Likelihood(log_p, ratio, ratio * (u + ratio))


def _halves(z: F64) -> Likelihood:
    """Likelihood of ties that count as half an answer left and half an answer right."""
    left = _side(z)
    right = _side(-z)
    return Likelihood(
        (left.log_p + right.log_p) / 2,
        (left.slope - right.slope) / 2,
        (left.weight + right.weight) / 2,
    )


def _between(z: F64, tie: F64) -> Likelihood:
    """Likelihood of ties with a threshold: log(Φ(τ - z) - Φ(-τ - z))."""
    # The formula is symmetric in z, and numerically stable for z > 0 only.
    sign = np.where(z < 0, -1.0, 1.0)
    distance = np.abs(z)
    high = tie - distance
    low = -tie - distance
    log_high = log_ndtr(high)
    log_p = log_high + np.log1p(-np.exp(np.minimum(log_ndtr(low) - log_high, -1e-12)))
    at_high = _density_ratio(high, log_p)
    at_low = _density_ratio(low, log_p)
    slope = at_low - at_high
    weight = np.maximum(slope**2 + high * at_high - low * at_low, 0)
    return Likelihood(log_p, sign * slope, weight)


def _density_ratio(u: F64, log_p: F64) -> F64:
    """The ratio φ(u) / p of the normal density at u and a probability p; stable for large |u|."""
    ratio: F64 = np.exp(-0.5 * u * u - log_p) / np.sqrt(2 * np.pi)
    return ratio
