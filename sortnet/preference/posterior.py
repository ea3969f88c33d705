"""The posterior of the items' scores: a Gaussian, updated by one answer at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.special import ndtr

from sortnet.core import F32, F64, I64
from sortnet.preference.likelihood import MOST_PROBIT, answers, measured
from sortnet.preference.reliability import Annotators
from sortnet.preference.set_answers import observed_set
from sortnet.preference.vote_arrays import MODEL, PERSON, Votes, unseen

Draws: TypeAlias = F32 | F64  # drawn scores, in single precision for many items
Measuring: TypeAlias = tuple[float, float]  # reliability and scale of an annotator
_BLOCK = 1 << 16  # pairs whose draws are compared at once
_FEW_DRAWN = 1 << 22  # numbers in the draws up to which a copy, item by item, is kept


@dataclass(eq=False)
class Posterior:
    """Scores s of n items and side biases b of annotators, as a Gaussian; higher is better.

    An answer `left` of an annotator with reliability c has the probability
    Φ(c (s_left - s_right) + b - τ), Thurstone's case V with the noise of one answer as the unit;
    see `answers` for ties and for answers given blindly.

    Attributes:
        mean: (n + a,) expected scores, then expected biases; (2 n + a,) if models share errors:
            then the expected errors are last.
        covariance: covariance of scores, biases and errors; None if n is too large for it.
        draws: (k, ...) scores, biases and errors drawn from the posterior, a committee of k score
            vectors; in single precision if there are many items.
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
        """(a,) expected reliability of each annotator."""
        return self.annotators.reliability

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
        if C is not None:
            variance = C[i, i] + C[j, j] - 2 * C[i, j]
        else:
            variance = np.empty(len(i))
            for start in range(0, len(i), _BLOCK):
                block = slice(start, start + _BLOCK)
                variance[block] = self._drawn_variance(i[block], j[block])
        return mean, np.maximum(variance, 1e-12)

    def _drawn_variance(self, i: I64, j: I64) -> F64:
        """(m,) variances of s_i - s_j among the draws."""
        if self.draws.size > _FEW_DRAWN:
            spread: F64 = np.var(self.draws[:, i] - self.draws[:, j], axis=0)
            return spread
        gaps = self._centred.take(i, axis=0)
        gaps -= self._centred.take(j, axis=0)
        squares: F64 = np.einsum("ij,ij->i", gaps, gaps)
        return squares / len(self.draws)

    @cached_property
    def _centred(self) -> F32:
        """(n, k) draws of each score, less their mean.

        A question looks at thousands of pairs. Draws of an item that lie side by side, in single
        precision, are read forty times as fast. Only fits without a covariance need them, and no
        answer changes such a fit.
        """
        scores = self.draws[:, : self.n_items]
        return np.ascontiguousarray((scores - scores.mean(axis=0)).T, np.float32)

    def predicted(self, votes: Votes, *, left_out: bool = False) -> F64:
        """(m,) probabilities of "left" if the answer is left or right; new annotators are average.

        With `left_out`, each vote is predicted as if the posterior had not been fitted to it.
        """
        n_annotators = len(self.reliability)
        annotators = self.annotators.padded(n_annotators + 1)  # new ones are average
        number = np.minimum(votes.annotator, n_annotators)
        blind = annotators.blind[number]
        scale = annotators.scale[number]
        biases = self.mean[self.n_items :][:n_annotators]
        bias = np.append(biases, 0.0)[number]
        mean, variance = self._gaps(votes, annotators.reliability[number])
        if left_out:
            _, slope, weight = answers(mean + bias, votes.target, self.tie, blind, self.ties)
            rows = np.flatnonzero(votes.is_measured & (scale > 0))
            if votes.probit is not None and len(rows):
                z = (mean + bias)[rows]
                likelihood = measured(z, votes.probit[rows], scale[rows])
                slope[rows] = likelihood.slope
                weight[rows] = likelihood.weight
            mean, variance = unseen(mean, variance, slope, weight)
        z = mean + bias
        spread = np.sqrt(1 + variance)
        left = blind / 2 + (1 - blind) * ndtr((z - self.tie) / spread)
        right = blind / 2 + (1 - blind) * ndtr((-z - self.tie) / spread)
        p: F64 = left / np.maximum(left + right, 1e-300)
        return p

    def _gaps(self, votes: Votes, reliability: F64) -> tuple[F64, F64]:
        """(m,) means and variances of c (s_left - s_right), for models plus e_left - e_right."""
        score_mean, score_variance = self.difference(votes.left, votes.right)
        mean = reliability * score_mean
        variance = reliability**2 * score_variance
        model_rows = np.flatnonzero(votes.of_kind(MODEL))
        if self.errors is None or not len(model_rows):
            return mean, variance
        model_reliability = reliability[model_rows]
        left = votes.left[model_rows]
        right = votes.right[model_rows]
        # The gap is the sum of factor * unknown over these (unknown, factor).
        terms: list[tuple[I64, F64 | float]] = [
            (left, model_reliability),
            (right, -model_reliability),
            (self.errors + left, 1.0),
            (self.errors + right, -1.0),
        ]
        mean[model_rows] = sum(factor * self.mean[unknown] for unknown, factor in terms)
        if self.covariance is None:
            gap_draws = np.zeros((len(self.draws), len(model_rows)))
            for unknown, factor in terms:
                gap_draws += factor * self.draws[:, unknown]
            variance[model_rows] = gap_draws.var(axis=0)
        else:
            gap_variance = np.zeros(len(model_rows))
            for unknown, factor in terms:
                for other, other_factor in terms:
                    gap_variance += factor * other_factor * self.covariance[unknown, other]
            variance[model_rows] = gap_variance
        return mean, variance

    @property
    def errors(self) -> int | None:
        """The index in `mean` of the first error that models share; None if there are no errors."""
        first = self.n_items + len(self.reliability)
        return first if len(self.mean) > first else None

    def observe(
        self,
        left: int,
        right: int,
        target: float,
        annotator: int,
        kind: int = PERSON,
        probit: float = float("nan"),
    ) -> None:
        """Update the posterior by one answer, in place, by moment matching.

        This is assumed density filtering. A probit that is no NaN is a measurement, see `measured`;
        then the target is the word that goes with it.

        Cost: O((n + a)²) with a covariance; without one nothing changes before the next fit.
        """
        if self.covariance is None:
            return
        x = np.zeros(len(self.mean))  # z = x · (scores, biases, errors)
        x[left] += self.reliability[annotator]
        x[right] -= self.reliability[annotator]
        x[self.n_items + annotator] = 1
        if kind == MODEL and self.errors is not None:
            x[self.errors + left] = 1
            x[self.errors + right] = -1
        gain = self.covariance @ x
        mean = float(self.mean @ x)
        variance = max(float(gain @ x), 1e-12)
        scale = float(self.annotators.scale[annotator])
        spread = np.sqrt(1 + variance)
        z = np.array([mean / spread])  # in units of the error of z
        if scale > 0 and not np.isnan(probit):
            likelihood = measured(z, np.array([probit]), np.array([scale * spread]))
        else:
            blind = np.array([self.annotators.blind[annotator]])
            likelihood = answers(z, np.array([target]), self.tie / spread, blind, self.ties)
        shift = float(likelihood.slope[0] / spread)
        shrink = float(likelihood.weight[0] / spread**2)
        if shrink <= 0:
            return
        # The draws get the same pseudo-observation, z = mean + shift / shrink with the variance
        # 1 / shrink - variance (Matheron's rule).
        noise = self.rng.standard_normal(len(self.draws)) * np.sqrt(1 / shrink - variance)
        observed = mean + shift / shrink + noise
        self.draws += np.outer((observed - self.draws @ x) * shrink, gain)
        self.mean += gain * shift
        self.covariance -= np.outer(gain, gain) * shrink

    def observe_set(self, votes: Votes) -> None:
        """Update the posterior by one answer about a set, in place, by Laplace's approximation.

        The approximation is a Gaussian in the differences of the items' utilities.

        Args:
            votes: the rows of the answer, see `Layout`.

        Cost: k times the cost of `observe` for k items.
        """
        if self.covariance is None:
            return
        (sets,) = votes.sets
        layout = sets.layout
        annotator = int(votes.annotator[0])
        x = np.zeros((len(votes), len(self.mean)))  # z = x · (scores, biases, errors) of each row
        rows = np.arange(len(votes))
        x[rows, votes.left] += self.reliability[annotator]
        x[rows, votes.right] -= self.reliability[annotator]
        x[:, self.n_items + annotator] = 1.0 if votes.bias is None else votes.bias
        if self.errors is not None and votes.of_kind(MODEL).all():
            x[rows, self.errors + votes.left] += 1
            x[rows, self.errors + votes.right] -= 1
        x = x[: layout.n_items - 1]  # the other rows are differences of these
        gain = x @ self.covariance
        mean = x @ self.mean
        variance = gain @ x.T
        blind = self.annotators.blind[annotator]
        shift, precision = observed_set(layout, mean, variance, blind, self.ties)
        inverse = np.linalg.inv(np.eye(len(mean)) + precision @ variance)
        # The draws get the same pseudo-observation with noise (Matheron's rule).
        values, vectors = np.linalg.eigh(precision)
        root = vectors * np.sqrt(np.maximum(values, 0))
        noise = self.rng.standard_normal((len(self.draws), len(mean))) @ root.T
        pull = noise + shift + (shift @ variance + mean - self.draws @ x.T) @ precision
        self.draws += pull @ inverse.T @ gain
        self.mean += shift @ gain
        self.covariance -= gain.T @ (inverse @ precision) @ gain


def information(mean: F64, variance: F64) -> F64:
    """Information of one answer about s_i - s_j, in bits: BALD (Houlsby and others, 2011, eq. 3).

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


def information_of_measurement(mean: F64, variance: F64, scale: float) -> F64:
    """Information of a measurement of z with a standard normal error, in bits, see `measured`.

    A measurement beyond the largest or the smallest probability counts as no information.

    >>> information_of_measurement(np.array([0.0, 9.0]), np.array([1.0, 1.0]), 0.5).round(3)
    array([0.499, 0.001])
    """
    most = MOST_PROBIT / scale
    spread = np.sqrt(1 + variance)
    within = ndtr((most - mean) / spread) - ndtr((-most - mean) / spread)
    bits: F64 = 0.5 * np.log2(1 + variance) * within
    return bits


def _coin(p: F64) -> F64:
    """(m,) entropies of coins that fall on one side with these probabilities, in bits."""
    q = np.clip(p, 1e-12, 1 - 1e-12)
    return -(q * np.log2(q) + (1 - q) * np.log2(1 - q))
