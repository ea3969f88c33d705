"""The posterior of the items' scores: a Gaussian, updated by one answer at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from sortnet.types import F64, I64, Bool

# A tie is half a win of each; at z = 0 its log-likelihood has the curvature of an observation
# "z = 0" with this variance.
TIE_VARIANCE = np.pi / 2


@dataclass(eq=False)
class Posterior:
    """Scores s of n items and side biases b of annotators, as a Gaussian; higher is better.

    An answer `left` of an annotator with reliability c has the probability
    Φ(c (s_left - s_right) + b), Thurstone's case V with the noise of one answer as the unit.

    Attributes:
        mean: (n + a,) of the scores, then of the biases.
        covariance: (n + a, n + a), or None if n is too large for it.
        draws: (k, n + a) from the posterior, a committee of k score vectors.
        reliability: (a,) of each annotator, 1 for the average one.
        n_items: n.
        rng: for the noise of the draws when an answer is observed.
    """

    mean: F64
    covariance: F64 | None
    draws: F64
    reliability: F64
    n_items: int
    rng: np.random.Generator

    @property
    def scores(self) -> F64:
        """(n,) expected scores."""
        return self.mean[: self.n_items]

    def difference(self, i: I64, j: I64) -> tuple[F64, F64]:
        """(m,) means and variances of s_i - s_j.

        Cost: a look-up per pair with a covariance, else k subtractions per pair.
        """
        mean = self.mean[i] - self.mean[j]
        C = self.covariance
        if C is None:
            variance = np.var(self.draws[:, i] - self.draws[:, j], axis=0)
        else:
            variance = C[i, i] + C[j, j] - 2 * C[i, j]
        return mean, np.maximum(variance, 1e-12)

    def probability(self, i: I64, j: I64) -> F64:
        """(m,) probabilities that an annotator of reliability 1 without bias prefers i to j."""
        mean, variance = self.difference(i, j)
        p: F64 = ndtr(mean / np.sqrt(1 + variance))
        return p

    def predicted(self, votes: Votes) -> F64:
        """(m,) probabilities of "left", given the annotators' reliability and bias."""
        mean, variance = self.difference(votes.left, votes.right)
        known = votes.annotator < len(self.reliability)  # new annotators are average
        number = np.where(known, votes.annotator, 0)
        c = np.where(known, self.reliability[number], 1.0) if len(self.reliability) else 1.0
        b = np.where(known, self.mean[self.n_items + number], 0.0) if len(self.reliability) else 0.0
        p: F64 = ndtr((c * mean + b) / np.sqrt(1 + c**2 * variance))
        return p

    def moved(self, i: int, j: int) -> tuple[F64, F64]:
        """(n + a,) changes of the means if i is preferred, and if j is."""
        gain, mean, variance = self._gain(i, j, annotator=None)
        by_i, _ = _matched(mean, variance)
        by_j, _ = _matched(-mean, variance)
        return gain * by_i, -gain * by_j

    def observe(self, left: int, right: int, target: float, annotator: int) -> None:
        """Update by one answer, by moment matching (assumed density filtering), in place.

        Args:
            left, right: the items.
            target: 1 for left, 0 for right, ½ for a tie.
            annotator: their number.

        Cost: O((n + a)²) with a covariance; without one nothing changes before the next fit.
        """
        if self.covariance is None:
            return
        gain, mean, variance = self._gain(left, right, annotator)
        if target == 0.5:
            shift, shrink = -mean / (variance + TIE_VARIANCE), 1 / (variance + TIE_VARIANCE)
        else:
            sign = 2 * target - 1
            shift, shrink = _matched(sign * mean, variance)
            shift *= sign
        if shrink <= 0:
            return
        # The draws get the same pseudo-observation, z = mean + shift / shrink with the variance
        # 1 / shrink - variance (Matheron's rule).
        noise = self.rng.standard_normal(len(self.draws)) * np.sqrt(1 / shrink - variance)
        seen = mean + shift / shrink + noise
        self.draws += np.outer((seen - self._z(self.draws, left, right, annotator)) * shrink, gain)
        self.mean += gain * shift
        self.covariance -= np.outer(gain, gain) * shrink

    def _z(self, scores: F64, left: int, right: int, annotator: int | None) -> F64:
        """(k,) c (s_left - s_right) + b of k score vectors."""
        z: F64 = scores[:, left] - scores[:, right]
        if annotator is not None:
            z = self.reliability[annotator] * z + scores[:, self.n_items + annotator]
        return z

    def _gain(self, left: int, right: int, annotator: int | None) -> tuple[F64, float, float]:
        """Covariance of everything with z; z's mean and variance."""
        mean = self._z(self.mean[None], left, right, annotator)[0]
        C = self.covariance
        if C is None:
            z = self._z(self.draws, left, right, annotator)
            gain = (z - z.mean()) @ (self.draws - self.draws.mean(axis=0)) / len(z)
            variance = z.var()
        else:
            gain = C[left] - C[right]
            if annotator is not None:
                gain = self.reliability[annotator] * gain + C[self.n_items + annotator]
            variance = self._z(gain[None], left, right, annotator)[0]
        return gain, float(mean), max(float(variance), 1e-12)


def _matched(mean: float, variance: float) -> tuple[float, float]:
    """For z ~ N(mean, variance) and an answer of probability Φ(z): the step of the mean per unit
    of covariance, and the shrinkage of the covariance.
    """
    spread = np.sqrt(1 + variance)
    t = mean / spread
    ratio = np.exp(-0.5 * t * t - log_ndtr(t)) / np.sqrt(2 * np.pi)
    return float(ratio / spread), float(ratio * (ratio + t) / (1 + variance))


def information(mean: F64, variance: F64) -> F64:
    """BALD: information of one answer about s_i - s_j, in bits (Houlsby and others, 2011, eq. 3).

    h(Φ(μ / √(σ² + 1))) - C exp(-μ² / (2 (σ² + C²))) / √(σ² + C²), with C = √(π ln 2 / 2) and
    h the entropy of a coin.

    >>> information(np.array([0.0, 5.0]), np.array([1.0, 1.0])).round(3)
    array([0.278, 0.001])
    """
    c2 = np.pi * np.log(2) / 2
    p = ndtr(mean / np.sqrt(variance + 1))
    inner = np.sqrt(c2 / (variance + c2)) * np.exp(-(mean**2) / (2 * (variance + c2)))
    bits: F64 = _coin(p) - inner
    return bits


def _coin(p: F64) -> F64:
    q = np.clip(p, 1e-12, 1 - 1e-12)
    return -(q * np.log2(q) + (1 - q) * np.log2(1 - q))


@dataclass(frozen=True, eq=False)
class Votes:
    """Answers about the order, as arrays.

    Attributes:
        left, right: (m,) items.
        target: (m,) 1 for left, 0 for right, ½ for a tie.
        annotator: (m,) their numbers.
    """

    left: I64
    right: I64
    target: F64
    annotator: I64

    def __len__(self) -> int:
        return len(self.left)

    @classmethod
    def of_one(cls, left: I64, right: I64, target: F64) -> Votes:
        """The votes of one annotator, or of several treated as one."""
        return cls(left, right, target, np.zeros(len(left), np.int64))

    def rows(self) -> Iterator[tuple[int, int, float, int]]:
        """The votes one by one."""
        columns = (self.left, self.right, self.target, self.annotator)
        return zip(*(column.tolist() for column in columns), strict=True)

    def where(self, mask: Bool) -> Votes:
        """The votes selected by a mask."""
        return Votes(self.left[mask], self.right[mask], self.target[mask], self.annotator[mask])
