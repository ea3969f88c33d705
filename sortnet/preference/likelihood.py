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
    """(m,) of each answer: log p, its slope in z, and minus its second derivative, at least 0."""

    log_p: F64
    slope: F64
    weight: F64


def genuine(z: F64, target: F64, tie: float | F64) -> Likelihood:
    """Answers of someone who looks: Φ(z - τ) left, Φ(-z - τ) right, the rest is a tie.

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
    log_p, slope, weight = _side(sign * z - tie)
    slope *= sign
    tied = target == 0.5
    if tied.any():
        at = z[tied]
        width = np.broadcast_to(tie, z.shape)[tied]
        between = _between(at, width) if np.all(width) else _halves(at)
        for everything, these in zip((log_p, slope, weight), between, strict=True):
            everything[tied] = these
    soft = (target > 0) & (target < 1) & ~tied
    if soft.any():
        p, at, width = target[soft], z[soft], np.broadcast_to(tie, z.shape)[soft]
        left, right = _side(at - width), _side(-at - width)
        log_p[soft] = p * left[0] + (1 - p) * right[0]
        slope[soft] = p * left[1] - (1 - p) * right[1]
        weight[soft] = p * left[2] + (1 - p) * right[2]
    return Likelihood(log_p, slope, weight)


def answers(z: F64, target: F64, tie: float, blind: F64, ties: float) -> Likelihood:
    """As `genuine`, but a share `blind` of the answers does not depend on the items: `ties` of them
    are ties, the rest left and right alike. As log p is not concave any more, weights are cut at 0.
    """
    log_p, slope, weight = looked = genuine(z, target, tie)
    if not np.any(blind):
        return looked
    p = (1 - blind) * np.exp(log_p)
    either = np.maximum(p + blind * chance(target, ties), 1e-300)
    share = np.where(blind > 0, p / either, 1.0)
    curved = share * weight - share * (1 - share) * slope**2
    mixed = np.where(blind > 0, np.log(either), log_p)
    return Likelihood(mixed, share * slope, np.maximum(curved, 0))


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
        log_p[beyond], at_sign, weight[beyond] = _side(
            sign * z[beyond] - MOST_PROBIT / np.broadcast_to(scale, z.shape)[beyond]
        )
        slope[beyond] = sign * at_sign
    return Likelihood(log_p, slope, weight)


def squared_error(z: F64, probit: F64, scale: F64) -> F64:
    """(m,) expected squares of the errors of `measured`; of a probit that is only known to be
    beyond `MOST_PROBIT`, given that.
    """
    square: F64 = (probit / scale - z) ** 2
    beyond = np.abs(probit) >= MOST_PROBIT
    below = np.sign(probit[beyond]) * z[beyond] - MOST_PROBIT / scale[beyond]
    square[beyond] = 1 - below * _side(below)[1]
    return square


def chance(target: F64, ties: float) -> F64:
    """(m,) probability of each answer if given blindly: `ties` ties, the rest either side alike."""
    return np.where(target == 0.5, ties, (1 - ties) / 2)


def _side(u: F64) -> tuple[F64, F64, F64]:
    """log Φ(u), its slope, and minus its second derivative."""
    log_p = log_ndtr(u)
    ratio = _density(u, log_p)
    return log_p, ratio, ratio * (u + ratio)


def _halves(z: F64) -> tuple[F64, F64, F64]:
    """The same of half a win of each."""
    up, down = _side(z), _side(-z)
    return (up[0] + down[0]) / 2, (up[1] - down[1]) / 2, (up[2] + down[2]) / 2


def _between(z: F64, tie: F64) -> tuple[F64, F64, F64]:
    """The same of log(Φ(τ - z) - Φ(-τ - z))."""
    sign, far = np.where(z < 0, -1.0, 1.0), np.abs(z)  # symmetric: stable for z > 0
    high, low = tie - far, -tie - far
    log_high = log_ndtr(high)
    log_p = log_high + np.log1p(-np.exp(np.minimum(log_ndtr(low) - log_high, -1e-12)))
    at_high, at_low = _density(high, log_p), _density(low, log_p)
    slope = at_low - at_high
    return log_p, sign * slope, np.maximum(slope**2 + high * at_high - low * at_low, 0)


def _density(u: F64, log_p: F64) -> F64:
    """φ(u) / p."""
    ratio: F64 = np.exp(-0.5 * u * u - log_p) / np.sqrt(2 * np.pi)
    return ratio
