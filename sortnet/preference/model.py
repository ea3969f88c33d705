"""The model of answers: scores with a Gaussian prior, and Luce's choices by annotators.

    s = Phi w + u            w ~ N(0, share t / d), u ~ N(0, (1 - share) t)
    z = 1.7 c s + b place    place falls evenly from 1/2 for the first place to -1/2 for the last
    P(best is i)  = exp(z_i) / sum exp(z_k)      over all items that are shown
    P(worst is i) = exp(-z_i) / sum exp(-z_k)    over the items shown, without the best

The data are choices: each answer is a choice of the best of its items, and if it names the worst,
too, a second choice among the others, which keep their places; a skip is none
(`sortnet.preference.answers`). Only items of the same group are shown together, so only features
tell how the scores of two groups compare. The features Phi are standardised; their squares may be
among them, standardised again, and count in d.

c is an annotator's reliability: 1 for the median annotator, 0 for somebody who does not look at the
items, and negative for somebody who prefers the worse item. b is the bias to the first place in log
odds: N(0, 1) for annotators whose answers show one, and 0 for all others. An answer about two items
may be a tie, which has the weight nu exp((z_1 + z_2) / 2) beside exp(z_1) and exp(z_2) (Davidson
1970); log nu ~ N(-0.7, 1.5^2), or nu = 0 if no answer is a tie. A probability p that item 1 is
better counts in one of three ways, which the study sets: in words, as the choice of the likelier
item; as a share of votes, p of a choice of item 1 and 1 - p of item 2; or as a measurement of the
difference of the scores:

    probit(p) = g (c (s_1 - s_2) + b / 1.7 + noise),     noise ~ N(0, 1)

The known answer to a gold pair is a choice with c = 3 and b = 0. The unit of a score is the
standard deviation of the noise that the median annotator has about the difference of two scores.

`sortnet.preference.fit` finds the joint mode of s, b and log nu. The posterior of the scores is
Laplace's approximation around it, with b and nu held at the mode. The hyperparameters t, share, c,
g, who has a bias, and whose measurements count in words, are inputs, taken as known:
`sortnet.preference.hyperparameters` chooses them.

In shapes, m is the number of choices, k of places, e of edges, the pairs of items of all choices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from sortnet.core import F32, F64, I64, Bool
from sortnet.preference.answers import GOLD, Answers

Draws: TypeAlias = F64 | F32  # drawn scores, in single precision for many items

SHARPNESS = 1.7  # a logistic function as steep as the normal distribution function
_GOLD_RELIABILITY = 3.0  # a gold pair whose scores differ by 1 is told right in .994
_LOGISTIC = 0.39  # pi / 8: how much a Gaussian flattens a logistic function
_LEAST_VARIANCE = 1e-12  # keeps variances positive despite rounding errors
_NO_ODDS = -1e300  # the logarithm of odds of 0, in a sum over places


@dataclass(frozen=True, eq=False)
class Annotators:
    """The parameters of annotators, by their numbers.

    Attributes:
        reliability: (a,) c, 1 for the median annotator.
        low, high: (a,) the 90 % posterior interval of c, for reports.
        bias: (a,) b, in log odds.
        biased: (a,) whether the annotator has a bias; b is 0 for all others.
        scale: (a,) g, in probits per unit of c (s_1 - s_2); it matters only for measurements.
        in_words: (a,) whether the annotator's measurements count in words, because words predict
            left-out answers better. Not used in this module.
    """

    reliability: F64
    low: F64
    high: F64
    bias: F64
    biased: Bool
    scale: F64
    in_words: Bool

    def __len__(self) -> int:
        return len(self.reliability)

    @classmethod
    def average(cls, n: int) -> Annotators:
        """Make n average annotators, about whom nothing is known."""
        ones = np.ones(n)
        never = np.zeros(n, np.bool_)
        return cls(ones, 0.5 * ones, 1.5 * ones, 0 * ones, never, ones, never)

    def only(self, number: int) -> Annotators:
        """Select one annotator, who then has number 0."""
        return Annotators(**{name: column[[number]] for name, column in vars(self).items()})

    def with_one(self, number: int, annotator: Annotators) -> Annotators:
        """Return a copy in which one annotator has the parameters of another one."""
        columns = {name: column.copy() for name, column in vars(self).items()}
        for name, value in vars(annotator).items():
            columns[name][number] = value[0]
        return Annotators(**columns)

    def padded(self, n: int) -> Annotators:
        """Add average annotators, so that there are n."""
        new = vars(Annotators.average(max(n - len(self), 0)))
        return Annotators(**{name: np.append(old, new[name]) for name, old in vars(self).items()})


class Columns:
    """Features of items, and the spectrum of the covariance that they give to scores.

    Args:
        values: (n, d) the standardised features.

    Attributes:
        values: (n, d) the standardised features.
        vectors, eigenvalues: eigenvectors (n, r) and eigenvalues (r,) of values values^T / d.
    """

    def __init__(self, values: F64) -> None:
        _, d = values.shape
        self.values = values
        u, singular, _ = np.linalg.svd(values / np.sqrt(max(d, 1)), full_matrices=False)
        is_used = singular > 1e-6 * singular.max(initial=1.0)
        self.vectors = u[:, is_used]
        self.eigenvalues = singular[is_used] ** 2

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.values.shape[1])


@dataclass(frozen=True, eq=False)
class Prior:
    """The prior of the scores.

    Attributes:
        columns: the features Phi.
        variance: t, the variance of a score, in the mean of all items.
        share: the share of the variance that the features explain, below 1.
        tie_odds: nu, P(tie) / P(item 1 is better) for equal items and b = 0; 0 if no answer is a
            tie.
    """

    columns: Columns
    variance: float = 1.0
    share: float = 0.0
    tie_odds: float = 0.0

    def precision(self) -> tuple[F64, float]:
        """Return the prior precision of the scores, and the logarithm of its determinant."""
        n = len(self.columns)
        vectors = self.columns.vectors
        residual_variance = self.variance * (1 - self.share)
        along = self.variance * self.share * self.columns.eigenvalues + residual_variance
        Q: F64 = (vectors * (1 / along - 1 / residual_variance)) @ vectors.T
        Q[np.diag_indices(n)] += 1 / residual_variance
        log_det = -float(np.log(along).sum() + (n - len(along)) * np.log(residual_variance))
        return Q, log_det


class Predicted(NamedTuple):
    """Probability of each choice by the model, and how the choice differs from what is expected.

    Attributes:
        log_p: (..., m) the log-probability of the choice, or the log density of the measurement.
        expected: (..., m, k) the expected share of each place; a tie gives each of two places 1/2.
        residual: (..., m, k) the derivative of `log_p` in the log odds of each place.
        p_tie: (..., m) the probability of a tie.
    """

    log_p: F64
    expected: F64
    residual: F64
    p_tie: F64


def predict(answers: Answers, s: Draws, annotators: Annotators, nu: float) -> Predicted:
    """Predict answers by scores.

    Args:
        answers: the answers.
        s: (..., n) the scores.
        annotators: the annotators of the answers.
        nu: `Prior.tie_odds`. If it is 0, `log_p` of a tie is the mean of those of the two choices.
    """
    factor = SHARPNESS * reliability_of_rows(answers, annotators)
    bias = np.append(annotators.bias, 0.0)[answers.annotator]
    scores_of_places = s[..., answers.items]
    z = factor[:, None] * scores_of_places + bias[:, None] * answers.place
    z *= answers.direction[:, None]
    is_empty = answers.items < 0
    highest = np.where(is_empty, _NO_ODDS, z).max(axis=-1)
    odds = np.where(is_empty, 0.0, np.exp(np.minimum(z - highest[..., None], 0.0)))
    middle = np.where(is_empty, 0.0, z).sum(axis=-1) / 2 - highest
    tie_odds = np.where(answers.may_tie, nu, 0.0) * np.exp(np.minimum(middle, 0.0))
    total = odds.sum(axis=-1) + tie_odds
    p_tie = tie_odds / total
    expected = odds / total[..., None] + np.where(is_empty, 0.0, p_tie[..., None] / 2)
    log_p = (answers.share * z).sum(axis=-1) - highest - np.log(total)
    log_p += answers.tied * np.log(nu or 1.0)
    residual = answers.share - expected
    is_measured = answers.is_measured
    if is_measured.any():
        scale = np.append(annotators.scale, 1.0)[answers.annotator]
        difference = scores_of_places[..., 0] - scores_of_places[..., 1]
        error = answers.probit / scale - (factor * difference + bias) / SHARPNESS
        log_p = np.where(is_measured, -0.5 * error**2 - np.log(scale * np.sqrt(2 * np.pi)), log_p)
        of_measured = 2 * answers.place * error[..., None] / SHARPNESS
        residual = np.where(is_measured[:, None], of_measured, residual)
        p_tie = np.where(is_measured, 0.0, p_tie)
    return Predicted(log_p, expected, residual, p_tie)


def reliability_of_rows(answers: Answers, annotators: Annotators) -> F64:
    """Return the reliability of each row's annotator, (m,)."""
    reliability: F64 = np.append(annotators.reliability, _GOLD_RELIABILITY)[answers.annotator]
    return reliability


class Likelihood(NamedTuple):
    """The log-likelihood of all answers, and its derivatives.

    Attributes:
        value: the log-likelihood.
        slope: (n,) the derivative in each score.
        weight: (e,) minus the second derivative in the difference of the two scores of each edge.
        bias_slope, bias_stiffness: (a,) the first, and minus the second, derivative in each bias.
        tie_slope, tie_stiffness: the first, and minus the second, derivative in log nu.
    """

    value: float
    slope: F64
    weight: F64
    bias_slope: F64
    bias_stiffness: F64
    tie_slope: float
    tie_stiffness: float


def likelihood(answers: Answers, s: F64, annotators: Annotators, nu: float) -> Likelihood:
    """Evaluate the log-likelihood of all answers with its derivatives.

    The second derivative of a choice is a sum over the pairs of its items,
    diag(p) - p p^T = sum over i < j of p_i p_j (e_i - e_j) (e_i - e_j)^T, so one weight for each
    edge has all of it.

    Cost: O(m k^2).
    """
    row, a, b, _, _ = answers.edges
    log_p, expected, residual, p_tie = predict(answers, s, annotators, nu)
    residual = residual * answers.weight[:, None]
    # A tie gives each of two items 1/2: the variance is smaller than that of a choice of one.
    of_choice = expected[row, a] * expected[row, b] - p_tie[row] / 4
    variance = np.where(answers.is_measured[row], SHARPNESS**-2, of_choice) * answers.weight[row]
    factor = SHARPNESS * answers.direction * reliability_of_rows(answers, annotators)
    has_item = answers.items >= 0
    slope_of_place = factor[:, None] * residual
    slope = _sums(answers.items[has_item], slope_of_place[has_item], len(s))
    push = answers.direction * (residual * answers.place).sum(axis=1)
    gap = answers.place[row, a] - answers.place[row, b]
    # Gold pairs, which have no bias, are counted as an annotator after all others.
    n = len(annotators)
    annotator = np.where(answers.annotator == GOLD, n, answers.annotator)
    return Likelihood(
        value=float(answers.weight @ log_p),
        slope=slope,
        weight=variance * factor[row] ** 2,
        bias_slope=_sums(annotator, push, n + 1)[:n],
        bias_stiffness=_sums(annotator[row], variance * gap**2, n + 1)[:n],
        tie_slope=float(answers.weight @ (answers.tied - p_tie)),
        tie_stiffness=float(answers.weight @ (p_tie * (1 - p_tie))),
    )


def _sums(number: I64, values: F64, n: int) -> F64:
    """Sum the values with each number, (n,)."""
    return np.bincount(number, values, n).astype(np.float64)


def laplacian(i: I64, j: I64, weight: F64, n: int) -> sparse.csr_array:
    """Sum weight (e_i - e_j) (e_i - e_j)^T over pairs of items, a sparse (n, n) matrix."""
    rows = np.concatenate((i, j, i, j))
    columns = np.concatenate((i, j, j, i))
    values = np.concatenate((weight, weight, -weight, -weight))
    return sparse.csr_array((values, (rows, columns)), shape=(n, n))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of the scores, a Gaussian, and the parameters of the annotators.

    Attributes:
        scores: (n,) the most probable scores, the mean of the Gaussian.
        covariance: (n, n) the covariance of the scores; None for many items.
        draws: (k, n) draws of the scores.
        annotators: the annotators.
        prior: the prior, with its hyperparameters.
    """

    scores: F64
    covariance: F64 | None
    draws: Draws
    annotators: Annotators
    prior: Prior

    @property
    def n_items(self) -> int:
        """The number of items."""
        return len(self.scores)

    @property
    def tie_threshold(self) -> float:
        """Difference of scores from which a tie is not the likeliest answer, if c = 1, b = 0."""
        if self.prior.tie_odds <= 1:
            return 0.0
        return 2 * float(np.log(self.prior.tie_odds)) / SHARPNESS

    def difference(self, i: I64, j: I64) -> tuple[F64, F64]:
        """Return the mean and the variance of the difference s_i - s_j of each pair of items."""
        mean = self.scores[i] - self.scores[j]
        C = self.covariance
        if C is None:
            variance = np.var(self.draws[:, i] - self.draws[:, j], axis=0).astype(np.float64)
        else:
            variance = C[i, i] + C[j, j] - 2 * C[i, j]
        return mean, np.maximum(variance, _LEAST_VARIANCE)


def information_of_words(mean: F64, variance: F64) -> F64:
    """Return the information of a choice about a difference of two scores, 1.7^2 p (1 - p).

    p is the probability of the choice if c = 1, b = 0 and nothing is a tie: approximately the mean
    over the distribution of the difference.

    Args:
        mean, variance: the mean and the variance of each difference.
    """
    z = SHARPNESS * np.abs(mean) / np.sqrt(1 + _LOGISTIC * SHARPNESS**2 * variance)
    p = 1 / (1 + np.exp(-np.minimum(z, 30)))
    information: F64 = SHARPNESS**2 * p * (1 - p)
    return information
