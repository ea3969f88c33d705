"""The model of answers: scores with a Gaussian prior, and Luce's choices by annotators.

    s = Phi w + u            w ~ N(0, share t / d), u ~ N(0, (1 - share) t)
    z = 1.7 c s + b place    place falls evenly from 1/2 for the first place to -1/2 for the last
    P(best is i)  = exp(z_i) / sum exp(z_k)      over all items that are shown
    P(worst is i) = exp(-z_i) / sum exp(-z_k)    over the items shown, without the best

c is an annotator's reliability, b the bias to the first place in log odds: N(0, 1) for annotators
whose answers show one, as `sortnet.preference.hyperparameters` decides, and 0 for all others. An
answer about two items may be a tie, which has the weight nu exp((z_1 + z_2) / 2) beside exp(z_1)
and exp(z_2) (Davidson 1970); log nu ~ N(-0.7, 1.5^2). A probability p that item 1 is better may
count as a measurement of the difference of the scores:

    probit(p) = g (c (s_1 - s_2) + b / 1.7 + noise),     noise ~ N(0, 1)

The known answer to a gold pair has c = 3 and b = 0. The unit of a score is the standard deviation
of the noise that an average annotator, c = 1, has about the difference of two scores.

Newton's steps, taken separately for s, for each b and for log nu, find their joint mode. The
posterior of the scores is Laplace's approximation around it, with b and nu held at the mode. The
hyperparameters t, share, c, g, and who has a bias, are inputs: `sortnet.preference.hyperparameters`
chooses them.

In shapes, m is the number of choices, k of places, e of edges, the pairs of items of all choices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotri

from sortnet.core import F32, F64, I64, Bool
from sortnet.preference.answers import GOLD, Answers

Draws: TypeAlias = F64 | F32  # drawn scores, in single precision for many items

SHARPNESS = 1.7  # a logistic function as steep as the normal distribution function
N_DRAWS = 200
_GOLD_RELIABILITY = 3.0  # a gold pair whose scores differ by 1 is told right in .994
_STEPS = 50
_LONGEST_STEP = 3.0  # of a score
_CLOSE = 1e-9  # the search for the mode ends after a step as short as this
BIAS_SD = 1.0  # prior standard deviation of a bias that the answers have earned
_LOG_TIE, _LOG_TIE_SD = -0.7, 1.5  # prior of log nu
_LEAST_VARIANCE = 1e-12  # keeps variances positive despite rounding errors
_NO_ODDS = -1e300  # the logarithm of odds of 0, in a sum over places


@dataclass(frozen=True, eq=False)
class Annotators:
    """The parameters of annotators, by their numbers.

    Attributes:
        reliability: (a,) c, 1 for the average annotator.
        low, high: (a,) the 90 % posterior interval of c, for reports.
        bias: (a,) b, in log odds.
        biased: (a,) whether the annotator has a bias; b is 0 for all others.
        scale: (a,) g, in probits per unit of c (s_1 - s_2); it matters only for measurements.
        in_words: (a,) whether the annotator's measurements are reduced to choices of the likelier
            item, because choices predict left-out answers better. Not used in this module.
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
        one = np.ones(n)
        never = np.zeros(n, np.bool_)
        return cls(one, 0.5 * one, 1.5 * one, 0 * one, never, one, never)

    def only(self, number: int) -> Annotators:
        """Select one annotator, who then has number 0."""
        return Annotators(**{name: column[[number]] for name, column in vars(self).items()})

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
        rest = self.variance * (1 - self.share)
        along = self.variance * self.share * self.columns.eigenvalues + rest
        Q: F64 = (vectors * (1 / along - 1 / rest)) @ vectors.T
        Q[np.diag_indices(n)] += 1 / rest
        log_det = -float(np.log(along).sum() + (n - len(along)) * np.log(rest))
        return Q, log_det


class Ties(NamedTuple):
    """The first, and minus the second, derivative of the log-likelihood in log nu."""

    slope: float
    stiffness: float


class Likelihood(NamedTuple):
    """The log-likelihood of all answers, and its derivatives.

    Attributes:
        value: the log-likelihood.
        slope: (n,) the derivative in each score.
        weight: (e,) minus the second derivative in the difference of the two scores of each edge.
        push, stiffness: (m,) the first, and minus the second, derivative in the bias of each row.
        ties: the derivatives in log nu.
    """

    value: float
    slope: F64
    weight: F64
    push: F64
    stiffness: F64
    ties: Ties


class _Odds(NamedTuple):
    """The probabilities of the choices of each row.

    Attributes:
        log_total: (..., m) the logarithm of the sum of all odds.
        expected: (..., m, k) the expected share of each place; a tie gives each of two places 1/2.
        p_tie: (..., m) the probability of a tie.
    """

    log_total: F64
    expected: F64
    p_tie: F64


def choice_odds(z: F64, is_empty: Bool, nu: F64 | float) -> _Odds:
    """Compute the probabilities of Luce's choices.

    Args:
        z: (..., m, k) the logarithm of the odds of each place; any value in an empty place.
        is_empty: (m, k) whether there is no item in a place.
        nu: (m,) `Prior.tie_odds`; 0 where the choice cannot be a tie.
    """
    highest = np.where(is_empty, _NO_ODDS, z).max(axis=-1)
    odds = np.where(is_empty, 0.0, np.exp(np.minimum(z - highest[..., None], 0.0)))
    middle = np.where(is_empty, 0.0, z).sum(axis=-1) / 2 - highest
    tie_odds = nu * np.exp(np.minimum(middle, 0.0))
    total = odds.sum(axis=-1) + tie_odds
    p_tie = tie_odds / total
    expected = (odds / total[..., None]) + np.where(is_empty, 0.0, p_tie[..., None] / 2)
    return _Odds(highest + np.log(total), expected, p_tie)


def likelihood(answers: Answers, s: F64, annotators: Annotators, nu: float) -> Likelihood:
    """Evaluate the log-likelihood of all answers with its derivatives.

    The second derivative of a choice is a sum over the pairs of its items,
    diag(p) - p p^T = sum over i < j of p_i p_j (e_i - e_j) (e_i - e_j)^T, so one weight for each
    edge has all of it.

    Cost: O(m k^2).
    """
    c = np.append(annotators.reliability, _GOLD_RELIABILITY)[answers.annotator]
    b = np.append(annotators.bias, 0.0)[answers.annotator]
    edges = answers.edges
    is_empty = answers.items < 0
    factor = SHARPNESS * c * answers.direction
    z = factor[:, None] * s[answers.items] + (b * answers.direction)[:, None] * answers.place
    odds = choice_odds(z, is_empty, np.where(answers.may_tie, nu, 0.0))
    expected = odds.expected
    log_p = (answers.share * z).sum(axis=1) - odds.log_total + answers.tied * np.log(nu or 1.0)
    log_p *= answers.weight
    residual = answers.weight[:, None] * (answers.share - expected)
    slope_of_place = factor[:, None] * residual
    # The first item of a pair gets 1, 1/2 or 0 of a choice; with ties the variance is smaller.
    weight = expected[edges.row, edges.a] * expected[edges.row, edges.b] - odds.p_tie[edges.row] / 4
    weight *= answers.weight[edges.row]
    place_gap = answers.place[edges.row, edges.a] - answers.place[edges.row, edges.b]
    stiffness = np.zeros(len(answers))
    np.add.at(stiffness, edges.row, weight * place_gap**2)
    push = answers.direction * (residual * answers.place).sum(axis=1)
    weight *= factor[edges.row] ** 2
    p_tie = odds.p_tie.copy()
    rows = np.flatnonzero(answers.is_measured)
    if len(rows):
        error = measurement_errors(answers, rows, s, c[rows], b[rows], annotators.scale)
        scale = annotators.scale[answers.annotator[rows]]
        n_answers = answers.weight[rows]
        log_p[rows] = n_answers * (-0.5 * error**2 - np.log(scale * np.sqrt(2 * np.pi)))
        slope_of_place[rows] = 0.0
        slope_of_place[rows, 0] = n_answers * c[rows] * error
        slope_of_place[rows, 1] = -slope_of_place[rows, 0]
        edge = np.flatnonzero(answers.is_measured[edges.row])
        weight[edge] = answers.weight[edges.row[edge]] * c[edges.row[edge]] ** 2
        push[rows] = n_answers * error / SHARPNESS
        stiffness[rows] = n_answers * SHARPNESS**-2
        p_tie[rows] = 0.0
    slope = np.zeros(len(s))
    np.add.at(slope, answers.items[~is_empty], slope_of_place[~is_empty])
    n_excess_ties = float(answers.weight @ (answers.tied - p_tie))
    ties = Ties(n_excess_ties, float(answers.weight @ (p_tie * (1 - p_tie))))
    return Likelihood(float(log_p.sum()), slope, weight, push, stiffness, ties)


def measurement_errors(
    answers: Answers, rows: I64, s: Draws, c: F64 | float, b: F64 | float, scale: F64
) -> F64:
    """Compute the error of each measurement, in units of its standard deviation.

    Args:
        answers: the answers.
        rows: (r,) the rows of the measurements.
        s: (..., n) the scores.
        c, b: reliability and bias of each row's annotator.
        scale: (a,) the scale of each annotator.
    """
    first, second = answers.items[rows, 0], answers.items[rows, 1]
    difference = s[..., first] - s[..., second]
    measured: F64 = answers.probit[rows] / scale[answers.annotator[rows]]
    return measured - c * difference - b / SHARPNESS


@dataclass(frozen=True, eq=False)
class Mode:
    """The most probable scores, and Laplace's approximation around them.

    Attributes:
        scores: (n,) the scores.
        annotators: the annotators with their most probable biases.
        prior: the prior with the most probable odds of a tie.
        at: the likelihood before the last step, which was as short as the search allows.
        factor: (n, n) the lower Cholesky factor of the precision of the scores, before that step.
        evidence: the logarithm of the evidence, given the biases and the odds of a tie.
    """

    scores: F64
    annotators: Annotators
    prior: Prior
    at: Likelihood
    factor: F64
    evidence: float

    def drawn(self, n_draws: int, rng: np.random.Generator) -> F64:
        """Draw scores from the Gaussian around the mode, (n_draws, n)."""
        noise = rng.standard_normal((len(self.scores), n_draws))
        drawn: F64 = self.scores + solve_triangular(self.factor, noise, lower=True, trans="T").T
        return drawn


def find_mode(
    answers: Answers,
    prior: Prior,
    annotators: Annotators,
    start: F64 | None = None,
    *,
    close: float = _CLOSE,
) -> Mode:
    """Find the most probable scores, biases and odds of a tie by Newton's method.

    Args:
        answers: the answers.
        prior: the prior.
        annotators: the annotators, with the biases where the search starts.
        start: (n,) the scores where the search starts; zeros if None.
        close: the search ends once no score or bias has moved farther; after 50 steps at last.

    Cost: O(n^3) for each of about six steps.
    """
    n = len(prior.columns)
    Q, log_det = prior.precision()
    s = np.zeros(n) if start is None else start.copy()
    has_ties = bool(answers.tied.any())
    log_nu = np.log(prior.tie_odds) if prior.tie_odds else _LOG_TIE
    for _ in range(_STEPS):
        nu = float(np.exp(log_nu)) if has_ties else 0.0
        at = likelihood(answers, s, annotators, nu)
        P: F64 = laplacian(answers, at.weight, n) + Q
        factor: F64 = np.asarray(np.linalg.cholesky(P), np.float64)
        step = cho_solve((factor, True), at.slope - Q @ s, check_finite=False)
        longest = float(np.abs(step).max())
        s += step * min(1.0, _LONGEST_STEP / max(longest, _CLOSE))
        bias_step = bias_steps(answers, at, annotators)
        annotators = replace(annotators, bias=annotators.bias + bias_step)
        if has_ties:
            log_nu += tie_step(at.ties, log_nu)
        if max(longest, float(np.abs(bias_step).max(initial=0.0))) < close:
            break
    evidence = at.value - 0.5 * float(s @ Q @ s) + 0.5 * log_det
    evidence -= float(np.log(np.diag(factor)).sum())
    return Mode(s, annotators, replace(prior, tie_odds=nu), at, factor, evidence)


def laplacian(answers: Answers, weight: F64, n: int) -> F64:
    """Sum weight (e_i - e_j) (e_i - e_j)^T over the edges of all answers, an (n, n) matrix."""
    edges = answers.edges
    H: F64 = np.zeros((n, n))
    np.add.at(H, (edges.i, edges.j), weight)
    H = H + H.T
    degree = H.sum(axis=1)
    np.negative(H, out=H)
    H[np.diag_indices(n)] += degree
    return H


def bias_curve(answers: Answers, at: Likelihood, n: int) -> tuple[F64, F64]:
    """Return the first, and minus the second, derivative of the log-likelihood in each bias."""
    is_theirs = answers.annotator != GOLD
    number = answers.annotator[is_theirs]
    slope = np.bincount(number, at.push[is_theirs], minlength=n)
    stiffness = np.bincount(number, at.stiffness[is_theirs], minlength=n)
    return slope.astype(np.float64), stiffness.astype(np.float64)


def bias_steps(answers: Answers, at: Likelihood, annotators: Annotators) -> F64:
    """Compute the Newton step of the bias of each annotator who has one, (a,)."""
    slope, stiffness = bias_curve(answers, at, len(annotators))
    prior_precision = BIAS_SD**-2
    step = (slope - annotators.bias * prior_precision) / (stiffness + prior_precision)
    clipped: F64 = np.clip(step, -1.0, 1.0) * annotators.biased
    return clipped


def tie_step(ties: Ties, log_nu: float) -> float:
    """Compute the Newton step of log nu."""
    prior_precision = _LOG_TIE_SD**-2
    slope = ties.slope - (log_nu - _LOG_TIE) * prior_precision
    return float(np.clip(slope / (ties.stiffness + prior_precision), -1.0, 1.0))


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of the scores, a Gaussian, and the parameters of the annotators.

    Attributes:
        scores: (n,) the most probable scores, the mean of the Gaussian.
        covariance: (n, n) the covariance of the scores; None from `many_items.fit_many`.
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
        """The least absolute difference of scores at which no tie is likeliest, if c = 1, b = 0."""
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


def fit(
    answers: Answers, prior: Prior, annotators: Annotators, start: F64 | None = None, *, seed: int
) -> Posterior:
    """Fit scores, biases and the odds of a tie to answers; the hyperparameters are given.

    Args:
        answers: the answers.
        prior: the prior.
        annotators: the annotators.
        start: (n,) the scores where the search for the mode starts.
        seed: the seed of the draws.

    Cost: that of `find_mode`, and O(n^3) for the covariance.
    """
    mode = find_mode(answers, prior, annotators, start)
    lower_half, _ = dpotri(mode.factor, lower=True)
    covariance = np.tril(lower_half) + np.tril(lower_half, -1).T
    draws = mode.drawn(N_DRAWS, np.random.default_rng(seed))
    return Posterior(mode.scores, covariance, draws, mode.annotators, mode.prior)
