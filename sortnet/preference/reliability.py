"""Parameters of annotators in a session: reliability, blind answers, scale of measurements.

In shapes, m is the number of answers and a of annotators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_ndtr, logsumexp

from sortnet.core import F64, I64, Bool
from sortnet.preference.likelihood import MOST_PROBIT, chance, genuine
from sortnet.preference.set_answers import set_likelihood
from sortnet.preference.vote_arrays import PERSON, Votes

# Reliabilities and shares of blind answers are estimated on a grid.
CANDIDATES = np.linspace(-2.5, 2.5, 41)  # reliabilities
BLIND = np.array([0.0, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.9])  # shares of blind answers
# Annotators that give probabilities may be far more reliable than people who give words.
_VERY_RELIABLE = np.geomspace(2.65, 8.0, 20)
# The prior of a reliability is a Student's t around 1 with the spread SPREAD and NU degrees of
# freedom: few annotators differ from the average, but they may differ a lot. The prior of a side
# bias is a Student's t around 0 with the spread SIDE.
SPREAD = 0.3
SIDE = 0.1
NU = 3.0
_BLIND_POWER = 10.0  # the prior density of a blind share is in proportion to (1 - share)^10
# The prior of a scale of measurements is lognormal. It keeps the scale well above 0 if a few
# answers seem to have no error.
SCALE = 0.5  # median of the prior: the error of a probit
_SCALE_SPREAD = 1.0  # standard deviation of the logarithm
_PRIOR_MEASUREMENTS = 3.0  # number of measurements with the error SCALE that the prior counts as
_COARSE_SCALES = np.geomspace(0.02, 8.0, 31)  # the coarse grid of scales
_FINE_FACTORS = np.geomspace(0.8, 1.25, 11)  # the fine grid / the likeliest coarse scale
_MOST_MEASUREMENTS = 1_000  # measurements of an annotator from which the scale is learned, at most
_LEAST_P = 1e-300  # keeps a probability above 0, so that it has a logarithm


@dataclass(frozen=True, eq=False)
class Annotators:
    """Estimated parameters of each annotator, with standard deviations (`_sd`).

    Attributes:
        reliability, reliability_sd: (a,) the reliability c: 1 for an average annotator, 0 for
            random answers, negative for inverted answers.
        side, side_sd: (a,) the bias b towards the left side, in units of an answer's noise.
        blind, blind_sd: (a,) the share of answers that do not depend on the items.
        scale: (a,) if answers are probabilities, the standard deviation of the errors of their
            probits, see `measurement_likelihood`; 0 if an annotator's probabilities say no more
            than the words.
    """

    reliability: F64
    reliability_sd: F64
    side: F64
    side_sd: F64
    blind: F64
    blind_sd: F64
    scale: F64

    @classmethod
    def average(cls, n_annotators: int) -> Annotators:
        """Return average annotators, the estimates before any answer."""
        ones = np.ones(n_annotators)
        zeros = np.zeros(n_annotators)
        return cls(ones, SPREAD * ones, zeros, SIDE * ones, zeros, zeros, SCALE * ones)

    def padded(self, n_annotators: int) -> Annotators:
        """Append average annotators, so that there are `n_annotators` annotators."""
        average = vars(Annotators.average(n_annotators - len(self.side)))
        columns = {name: np.append(values, average[name]) for name, values in vars(self).items()}
        return Annotators(**columns)


def side_spread(square: F64) -> F64:
    """Update the prior standard deviation of each annotator's side bias, (a,).

    The prior is a Student's t, which is a mixture of normal distributions with different spreads.
    Given a bias x, the expected inverse variance is (NU + 1) / (NU SIDE² + x²).

    Args:
        square: (a,) the expected square of each side bias.
    """
    spread: F64 = np.sqrt((NU * SIDE**2 + square) / (NU + 1))
    return spread


class AnswerGaps(NamedTuple):
    """Estimated score difference of each answer's items, without the answers of its annotator.

    Given the gap s_left - s_right, the argument of the likelihood of an answer is
    z = c gap + bias + noise, with the annotator's reliability c.

    Attributes:
        mean, variance: (m,) the mean and the variance of the gap, from scores that are fitted
            without the answers of the answer's annotator.
        bias: (m,) the side bias of the answer's annotator.
        noise: (m,) the variance of the noise. It is 1 for a person, and more for a model, because
            models share errors.
        n_answers: (m,) the number of independent answers that the answer counts as.
    """

    mean: F64
    variance: F64
    bias: F64
    noise: F64
    n_answers: F64

    @classmethod
    def of_person(cls, mean: F64, variance: F64) -> AnswerGaps:
        """Make the gaps of people's answers: no bias, noise of variance 1, each counts once."""
        m = len(mean)
        return cls(mean, variance, bias=np.zeros(m), noise=np.ones(m), n_answers=np.ones(m))

    @classmethod
    def unknown(cls, m: int) -> AnswerGaps:
        """Make placeholders for the gaps of m answers, to be filled in by `replace_rows`."""
        return cls.of_person(np.zeros(m), np.zeros(m))

    def replace_rows(self, rows: Bool, gaps: AnswerGaps) -> None:
        """Replace the values of the answers that the mask `rows` selects, in place."""
        for column, values in zip(self, gaps, strict=True):
            column[rows] = values

    def where(self, rows: Bool | I64 | slice) -> AnswerGaps:
        """Select answers by a mask, by row numbers or by a slice."""
        return AnswerGaps(*(column[rows] for column in self))

    def z(self, c: F64) -> tuple[F64, F64]:
        """Compute the mean and the standard deviation of the argument of each answer's likelihood.

        The argument is z = c gap + bias + noise, for each candidate c for the reliability of the
        answer's annotator.

        Args:
            c: (candidates,) the candidate reliabilities.

        Returns:
            (candidates, m) the means, and (candidates, m) the standard deviations.
        """
        mean = c[:, None] * self.mean + self.bias
        spread = np.sqrt(self.noise + c[:, None] ** 2 * self.variance)
        return mean, spread


def reliabilities(
    before: Annotators, gaps: AnswerGaps, votes: Votes, tie: float | F64, ties: float
) -> Annotators:
    """Estimate each annotator's reliability, share of blind answers, and scale of measurements.

    An estimate is a mean of the posterior on a grid. The reliabilities are then divided by their
    mean absolute value, so that the average annotator has the reliability 1.

    Args:
        before: the present estimates. The side biases and the scales of models stay as they are.
        gaps: the score differences of the answers' items.
        votes: the answers.
        tie: the tie threshold, perhaps a different threshold for each answer.
        ties: the share of ties among blind answers.
    """
    is_measured = votes.is_measured & (before.scale[votes.annotator] > 0)
    is_word = ~is_measured
    c = np.append(CANDIDATES, _VERY_RELIABLE) if is_measured.any() else CANDIDATES
    # First, what the answers in words tell about all annotators. The shape of arrays on the grid is
    # (blind shares, candidate reliabilities, annotators).
    log_posterior = _log_likelihood_of_words(
        c,
        gaps.where(is_word),
        votes.where(is_word),
        np.broadcast_to(tie, len(votes))[is_word],
        ties,
        n_annotators=len(before.side),
    )
    log_posterior += _log_prior(c)[:, :, None]
    # Then, what the measurements of each annotator tell.
    scale = before.scale.copy()
    for number in np.unique(votes.annotator[is_measured]).tolist():
        rows = np.flatnonzero(is_measured & (votes.annotator == number))
        is_person = votes.of_kind(PERSON)[rows[0]]
        known_scale = None if is_person else float(before.scale[number])  # a model's scale stays
        measurements = _learn_from_measurements(
            c, gaps.where(rows), _probits(votes, rows), known_scale
        )
        log_posterior[:, :, number] += measurements.log_likelihood
        scale[number] = measurements.scale
    odds = _odds_on_grid(log_posterior)
    odds_of_reliability = odds.sum(axis=0)  # over the blind shares
    odds_of_blind = odds.sum(axis=1)  # over the reliabilities
    reliability, reliability_sd = _mean_and_sd(c, odds_of_reliability)
    blind, blind_sd = _mean_and_sd(BLIND, odds_of_blind)
    mean_reliability = _mean_absolute(reliability, votes)
    return replace(
        before,
        reliability=reliability / mean_reliability,
        reliability_sd=reliability_sd / mean_reliability,
        blind=blind,
        blind_sd=blind_sd,
        scale=scale,
    )


def _odds_on_grid(log_posterior: F64) -> F64:
    """Turn log-probabilities on the grid into probabilities, which add up to 1 for each annotator.

    Both arrays have the shape (blind shares, candidate reliabilities, annotators).
    """
    # The maximum of each annotator is subtracted, so that exp does not overflow.
    odds: F64 = np.exp(log_posterior - log_posterior.max(axis=(0, 1)))
    odds /= odds.sum(axis=(0, 1))
    return odds


def _log_prior(c: F64) -> F64:
    """Compute the prior log-probability of each pair of a blind share and a reliability.

    A blind share and a reliability are independent under the prior.

    Args:
        c: the candidate reliabilities.

    Returns:
        (blind shares, candidate reliabilities) the log-probabilities.
    """
    log_prior_of_blind = _BLIND_POWER * np.log1p(-BLIND)
    log_prior: F64 = _log_prior_of_reliability(c) + log_prior_of_blind[:, None]
    return log_prior


def _log_prior_of_reliability(c: F64) -> F64:
    """Compute the prior log-probability of each reliability c on a grid, up to a constant.

    It is the log-density of a Student's t around 1, plus the logarithm of the grid's step at c.
    """
    usual_step = CANDIDATES[1] - CANDIDATES[0]
    step = np.gradient(c) / usual_step
    deviation = (c - 1) / SPREAD
    log_prior: F64 = np.log(step) - (NU + 1) / 2 * np.log1p(deviation**2 / NU)
    return log_prior


def _mean_absolute(reliability: F64, votes: Votes) -> float:
    """Compute the mean absolute reliability, by which all reliabilities are divided.

    An answer depends on the product of the reliability and the score difference only. So the next
    fit of the scores makes up for the division.

    It is the mean of |c|, because the reliability c is negative for inverted answers. The weights
    are n_answers |c|, so that annotators with random answers, whose c is near 0, hardly count:

        mean = Σ n_answers c² / Σ n_answers |c|

    If people have answered, models do not count.

    Args:
        reliability: (a,) the reliability of each annotator.
        votes: the answers.
    """
    is_counted = votes.first  # an answer about a set has several rows, but counts once
    is_by_person = votes.of_kind(PERSON)
    if is_by_person.any():
        is_counted = is_counted & is_by_person
    n_answers = np.bincount(votes.annotator[is_counted], minlength=len(reliability))
    weighted_sum = n_answers @ reliability**2
    sum_of_weights = n_answers @ np.abs(reliability)
    return float(weighted_sum / sum_of_weights)


def matched_scale(scale: float, sum_of_squares: float, degrees_of_freedom: float) -> float:
    """Update the scale of an annotator's measurements, the root mean square of the errors.

    The prior counts as three more measurements with the error `SCALE`:

        new_scale^2 = (scale^2 * sum_of_squares + 3 * SCALE^2) / (degrees_of_freedom + 3)

    Args:
        scale: the present scale.
        sum_of_squares: the sum of the squared errors, in units of the present scale.
        degrees_of_freedom: the number of measurements, less the number of unknowns that the
            measurements determine.
    """
    squares = scale**2 * sum_of_squares + _PRIOR_MEASUREMENTS * SCALE**2
    return float(np.sqrt(squares / (degrees_of_freedom + _PRIOR_MEASUREMENTS)))


def _log_likelihood_of_words(
    c: F64, gaps: AnswerGaps, votes: Votes, tie: F64, ties: float, n_annotators: int
) -> F64:
    """Compute the log-likelihood of each annotator's answers in words: left, right or tie.

    It is computed for each share of blind answers and each candidate reliability.

    Args:
        c: the candidate reliabilities.
        gaps: the score differences of the answers' items.
        votes: the answers in words.
        tie: (m,) the tie threshold.
        ties: the share of ties among blind answers.
        n_annotators: the number of annotators a.

    Returns:
        (blind shares, candidates, a) the log-likelihoods.
    """
    mean, spread = gaps.z(c)
    p_genuine, p_blind = _probabilities(mean / spread, votes, tie / spread, ties)
    annotator = votes.annotator
    n_answers = gaps.n_answers
    if votes.answer is not None:
        # A whole answer is either blind or not, so only the first of its rows counts.
        first = votes.first
        p_genuine = p_genuine[:, first]
        p_blind = p_blind[first]
        n_answers = n_answers[first]
        annotator = annotator[first]
    # A product with this sparse matrix (annotators, answers) sums over each annotator's answers. In
    # the sum an answer of a model may count as less than one answer.
    rows = np.arange(len(annotator))
    shape = len(annotator), n_annotators
    sum_by_annotator = sparse.csr_array((n_answers, (rows, annotator)), shape=shape).T
    log_likelihoods = []
    for blind in BLIND:
        p = blind * p_blind + (1 - blind) * p_genuine  # (candidates, answers)
        log_likelihoods.append((sum_by_annotator @ np.log(p + _LEAST_P).T).T)
    return np.stack(log_likelihoods)


class _Measurements(NamedTuple):
    """What an annotator's measurements tell about the reliability and the scale.

    Attributes:
        log_likelihood: (candidates,) the log-likelihood of each candidate reliability, averaged
            over the scales.
        scale: the scale of the measurements.
    """

    log_likelihood: F64
    scale: float


def _learn_from_measurements(
    c: F64, gaps: AnswerGaps, probit: F64, known_scale: float | None
) -> _Measurements:
    """Compute what an annotator's measurements tell about the reliability and the scale.

    The likelihood of a reliability is the sum over the scales of the likelihood times the prior of
    the scale.

    Args:
        c: the candidate reliabilities.
        gaps: the score differences of the answers' items.
        probit: (m,) the measurements.
        known_scale: the scale, if it is known. If None, the scale is estimated.
    """
    # To save time, of thousands of measurements only every second, or every third, ... is used.
    # Each of these also counts for the measurements that are left out.
    sample = slice(None, None, len(probit) // _MOST_MEASUREMENTS + 1)
    used_gaps = gaps.where(sample)
    used_probit = probit[sample]
    n_answers_per_measurement = used_gaps.n_answers.mean() * len(probit) / len(used_probit)
    if known_scale is None:
        scales = _likely_scales(c, used_gaps, used_probit)
    else:
        scales = np.array([known_scale])
    log_likelihood = _log_likelihood_of_measurements(c, used_gaps, used_probit, scales)
    # One row for each candidate reliability, one column for each scale.
    log_p = n_answers_per_measurement * log_likelihood + _log_prior_of_scale(scales)
    log_posterior = log_p + _log_prior_of_reliability(c)[:, None]
    return _Measurements(
        log_likelihood=logsumexp(log_p, axis=1),  # the sum over the scales
        scale=_mean_scale(scales, log_posterior),
    )


def _mean_scale(scales: F64, log_posterior: F64) -> float:
    """Compute the geometric mean of the scales, weighted by their posterior probabilities.

    Args:
        scales: the scales of a grid.
        log_posterior: (reliabilities, scales) the log-probabilities on the grid, up to a constant.
    """
    odds = np.exp(log_posterior - log_posterior.max())  # so that exp does not overflow
    mean_log_scale = odds.sum(axis=0) @ np.log(scales) / odds.sum()
    return float(np.exp(mean_log_scale))


def _likely_scales(c: F64, gaps: AnswerGaps, probit: F64) -> F64:
    """List scales of measurements: a fine grid around the likeliest scale of a coarse grid.

    Args:
        c: the candidate reliabilities.
        gaps: the score differences of the answers' items.
        probit: (m,) the measurements.
    """
    log_likelihood = _log_likelihood_of_measurements(c, gaps, probit, _COARSE_SCALES)
    log_posterior = log_likelihood + _log_prior_of_scale(_COARSE_SCALES)
    log_p_at_best_reliability = log_posterior.max(axis=0)
    likeliest_scale = float(_COARSE_SCALES[np.argmax(log_p_at_best_reliability)])
    return likeliest_scale * _FINE_FACTORS


def _log_likelihood_of_measurements(c: F64, gaps: AnswerGaps, probit: F64, scales: F64) -> F64:
    """Compute the log-likelihood of measurements, for each candidate reliability and scale.

    A measurement is probit = scale z, where z is normal with the mean and the spread of
    `AnswerGaps.z`. So its density is φ((probit / scale - mean) / spread) / (scale spread).

    The probit of a probability of .99 or more, or of .01 or less, is only a lower bound of
    scale |z|. The probability that z is beyond the bound takes the place of the density.

    Args:
        c: the candidate reliabilities.
        gaps: the score differences of the answers' items.
        probit: (m,) the measurements.
        scales: the scales of the grid.

    Returns:
        (candidates, scales) the log-likelihoods.
    """
    mean, spread = gaps.z(c)  # (candidates, m)
    is_bound = np.abs(probit) >= MOST_PROBIT
    mean_towards_answer = np.sign(probit) * mean  # positive if the answer has the likelier sign
    log_likelihoods = []
    for scale in scales:
        error = (probit / scale - mean) / spread
        log_density = -0.5 * error**2 - np.log(scale * spread)
        lower_bound = MOST_PROBIT / scale
        log_p_beyond = log_ndtr((mean_towards_answer - lower_bound) / spread)
        log_p = np.where(is_bound, log_p_beyond, log_density)
        log_likelihoods.append(log_p.sum(axis=1))  # over the measurements
    return np.stack(log_likelihoods, axis=1)


def _probits(votes: Votes, rows: NDArray[np.intp]) -> F64:
    """Return the probits of votes that are measurements."""
    assert votes.probit is not None
    return votes.probit[rows]


def _log_prior_of_scale(scales: F64) -> F64:
    """Compute the log-density of the prior of each scale, up to a constant."""
    return -0.5 * (np.log(scales / SCALE) / _SCALE_SPREAD) ** 2


def _probabilities(z: F64, votes: Votes, tie: float | F64, ties: float) -> tuple[F64, F64]:
    """Compute each answer's probability if it depends on the items, and if it is given blindly.

    The first row of an answer about a set has the probability of the whole answer.

    Args:
        z: (candidates, m) the argument of the likelihood.
        votes: the answers.
        tie: the tie threshold.
        ties: the share of ties among blind answers.

    Returns:
        (candidates, m) the probability if the answer depends on the items, and (m,) the probability
        if it is given blindly.
    """
    # All rows are first treated as answers about pairs, then the rows about sets are replaced.
    p_genuine = np.exp(genuine(z, np.broadcast_to(votes.target, z.shape), tie).log_p)
    p_blind = chance(votes.target, ties)
    for sets in votes.sets:
        first = sets.first
        no_blind_answers = np.zeros((len(z), len(first)))
        likelihood = set_likelihood(sets.layout, z[:, sets.rows], no_blind_answers, ties)
        p_genuine[:, first] = np.exp(likelihood.log_p)
        p_blind[first] = sets.layout.chance(ties)
    return p_genuine, p_blind


def _mean_and_sd(values: F64, odds: F64) -> tuple[F64, F64]:
    """Compute the mean and standard deviation of a parameter from its probabilities on a grid.

    Args:
        values: (v,) the values of the grid.
        odds: (v, a) the probability of each value, for each annotator.

    Returns:
        (a,) the means, and (a,) the standard deviations.
    """
    mean = values @ odds
    return mean, np.sqrt(np.maximum(values**2 @ odds - mean**2, 0))
