"""Probability of an answer: Thurstone's model with ties, and a share of answers given blindly.

A probability p that an annotator gives is a measurement, see `measured`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri

from sortnet.core import F64

# Beyond this probit of p, that of .99, a p only says that the difference is at least so large.
MOST_PROBIT = float(ndtri(0.99))


class Likelihood(NamedTuple):
    """Log-likelihoods of answers: (m,) log p, (m,) its slope in z, and (m,) the weight, which is
    minus the second derivative, at least 0.
    """

    log_p: F64
    slope: F64
    weight: F64


def genuine(z: F64, target: F64, tie: float | F64) -> Likelihood:
    """Answers that depend on the items: Φ(z - τ) left, Φ(-z - τ) right, the rest is a tie.

    τ is the tie threshold (Glenn and David, 1960; Rao and Kupper's ties for a normal noise). log p
    is concave in z. With τ = 0 a tie counts half of each side.

    Args:
        z: (m,) differences in units of the noise.
        target: (m,) 1 for left, 0 for right, ½ for a tie; between them a probability p of left,
            which counts as p answers left and 1 - p right.
        tie: τ.

    >>> p = np.exp(genuine(np.zeros(3), np.array([1.0, 0.5, 0.0]), 0.5).log_p)
    >>> p.round(3), float(p.sum().round(6))
    (array([0.309, 0.383, 0.309]), 1.0)
    """
    sign = np.where(target > 0, 1.0, -1.0)
    likelihood = _side(sign * z - tie)
    log_p, slope, weight = likelihood
    slope *= sign
    tied = target == 0.5
    if tied.any():
        width = np.broadcast_to(tie, z.shape)[tied]
        of_ties = _between(z[tied], width) if np.all(width) else _halves(z[tied])
        for column, values in zip(likelihood, of_ties, strict=True):
            column[tied] = values
    soft = (target > 0) & (target < 1) & ~tied
    if soft.any():
        p, width = target[soft], np.broadcast_to(tie, z.shape)[soft]
        left, right = _side(z[soft] - width), _side(-z[soft] - width)
        log_p[soft] = p * left.log_p + (1 - p) * right.log_p
        slope[soft] = p * left.slope - (1 - p) * right.slope
        weight[soft] = p * left.weight + (1 - p) * right.weight
    return likelihood


def answers(z: F64, target: F64, tie: float, blind: F64, ties: float) -> Likelihood:
    """Likelihood of answers of which a share `blind` does not depend on the items; the rest is
    `genuine`.

    Of the blind answers a share `ties` are ties, the rest left and right alike. With them log p is
    not concave any more, so weights are cut at 0.
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
    """Measurements of z: probit(p) = scale (z + error), where the error is standard normal.

    An answer in a word is the sign of z + error; a probability also says how large it is. A probit
    of `MOST_PROBIT` or more, left or right, says that it is at least so large.

    Args:
        z: (m,) differences in units of the noise.
        probit: (m,) of the probabilities that the left item is better.
        scale: (m,) above 0.

    >>> measured(np.array([1.0]), np.array([0.8]), np.array([2.0])).slope  # 0.8 / 2 - 1
    array([-0.6])
    """
    error = probit / scale - z
    log_p = -0.5 * error**2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    slope, weight = error, np.ones_like(error)
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
    """(m,) expected squares of the errors of `measured`. A probit beyond `MOST_PROBIT` is only
    known to be beyond it.
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
    """Likelihood of answers for one side: log Φ(u)."""
    log_p = log_ndtr(u)
    ratio = _density_ratio(u, log_p)
    return Likelihood(log_p, ratio, ratio * (u + ratio))


def _halves(z: F64) -> Likelihood:
    """Likelihood of ties that count half of each side."""
    left, right = _side(z), _side(-z)
    return Likelihood(
        (left.log_p + right.log_p) / 2,
        (left.slope - right.slope) / 2,
        (left.weight + right.weight) / 2,
    )


def _between(z: F64, tie: F64) -> Likelihood:
    """Likelihood of ties with a threshold: log(Φ(τ - z) - Φ(-τ - z))."""
    sign, distance = np.where(z < 0, -1.0, 1.0), np.abs(z)  # symmetric: stable for z > 0
    high, low = tie - distance, -tie - distance
    log_high = log_ndtr(high)
    log_p = log_high + np.log1p(-np.exp(np.minimum(log_ndtr(low) - log_high, -1e-12)))
    at_high, at_low = _density_ratio(high, log_p), _density_ratio(low, log_p)
    slope = at_low - at_high
    weight = np.maximum(slope**2 + high * at_high - low * at_low, 0)
    return Likelihood(log_p, sign * slope, weight)


def _density_ratio(u: F64, log_p: F64) -> F64:
    """φ(u) / p."""
    ratio: F64 = np.exp(-0.5 * u * u - log_p) / np.sqrt(2 * np.pi)
    return ratio
