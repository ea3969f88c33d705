"""Parameters of annotators in a session: reliability, blind answers, scale of measurements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import log_ndtr, logsumexp

from sortnet.core import F64
from sortnet.preference.likelihood import MOST_PROBIT, chance, genuine
from sortnet.preference.set_answers import set_likelihood
from sortnet.preference.vote_arrays import PERSON, Votes

# Reliabilities and blind shares on a grid, and their prior. Few annotators differ from the average,
# but they may differ a lot (Student's t with three degrees of freedom around 1). Few are blind.
CANDIDATES = np.linspace(-2.5, 2.5, 41)
BLIND = np.array([0.0, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.9])
SPREAD = 0.3
SIDE = 0.1  # spread of the prior of a side bias, a Student's t, too
NU = 3.0
_FEW_BLIND = 10.0
# Annotators that give probabilities may be far more reliable than people who give words.
_RELIABLE = np.geomspace(2.65, 8.0, 20)
# Scales of measurements: the error of a probit before any answer, and the spread of its logarithm,
# which keeps the error above a floor where a few answers seem to have no error.
SCALE = 0.5
_SCALE_SPREAD = 1.0
_FLOOR = 3.0  # number of measurements with the error SCALE that the prior counts for
_SCALES = np.geomspace(0.02, 8.0, 31)
_FINER = np.geomspace(0.8, 1.25, 11)  # factors of the likeliest scale
_MEASURED = 1_000  # measurements of an annotator by which the scale is learned, at most


@dataclass(frozen=True, eq=False)
class Annotators:
    """Estimates of the parameters of each annotator, (a,), and their standard deviations.

    Attributes:
        reliability: c, 1 for an average annotator, 0 for random answers, negative for inverted
            answers.
        side: bias b towards the left side, in units of an answer's noise.
        blind: share of answers that do not depend on the items.
        scale: standard deviation of the errors of the probits of their probabilities, see
            `measured`; 0 if probabilities say no more than the words.
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
        """Annotators without answers: estimates by the prior."""
        ones = np.ones(n_annotators)
        zeros = np.zeros(n_annotators)
        return cls(ones, SPREAD * ones, zeros, SIDE * ones, zeros, zeros, SCALE * ones)

    def padded(self, n_annotators: int) -> Annotators:
        """The annotators, and average annotators up to this number."""
        average = vars(Annotators.average(n_annotators - len(self.side)))
        return Annotators(
            **{name: np.append(values, average[name]) for name, values in vars(self).items()}
        )


def side_spread(square: F64) -> F64:
    """(a,) prior spreads of the side biases, given their expected squares.

    The prior is a Student's t, a normal distribution whose spread depends on the square.
    """
    spread: F64 = np.sqrt((NU * SIDE**2 + square) / (NU + 1))
    return spread


def reliabilities(
    before: Annotators,
    gap: F64,
    variance: F64,
    bias: F64,
    votes: Votes,
    tie: float | F64,
    ties: float,
    noise: F64 | float = 1.0,
    counts: F64 | None = None,
) -> Annotators:
    """Estimate reliabilities and blind shares on a grid, and the scales of people's measurements.

    Args:
        before: the present estimates; side biases and the scales of models stay.
        gap, variance: (m,) mean and variance of s_left - s_right, if the answer were not given.
        bias: (m,) side bias of the annotator who answers.
        votes: the answers.
        tie, ties: as in `answers`.
        noise: (m,) variance of z given the gap; more than 1 for models, which share errors.
        counts: (m,) number of answers that an answer counts for; None: 1.
    """
    n_annotators = len(before.side)
    annotator = votes.annotator
    noise = np.broadcast_to(noise, gap.shape)
    count = np.ones(len(gap)) if counts is None else counts
    is_measured = votes.is_measured & (before.scale[annotator] > 0)
    c = np.append(CANDIDATES, _RELIABLE) if is_measured.any() else CANDIDATES
    width = np.gradient(c) / (CANDIDATES[1] - CANDIDATES[0])
    prior = np.log(width) - (NU + 1) / 2 * np.log1p(((c - 1) / SPREAD) ** 2 / NU)
    is_word = ~is_measured
    log_posterior = _of_words(
        c,
        gap[is_word],
        variance[is_word],
        bias[is_word],
        votes.where(is_word),
        np.broadcast_to(tie, gap.shape)[is_word],
        ties,
        noise[is_word],
        count[is_word],
        n_annotators,
    )
    log_posterior += prior[:, None] + (_FEW_BLIND * np.log1p(-BLIND))[:, None, None]
    scale = before.scale.copy()
    for number in np.unique(annotator[is_measured]).tolist():
        all_rows = np.flatnonzero(is_measured & (annotator == number))
        rows = all_rows[:: len(all_rows) // _MEASURED + 1]
        # The number of answers that each of these rows stands for.
        weight = count[rows].mean() * len(all_rows) / len(rows)
        is_person = votes.of_kind(PERSON)[rows[0]]
        log_p, scales = _of_measurements(
            c,
            gap[rows],
            variance[rows],
            bias[rows],
            _probits(votes, rows),
            noise[rows],
            None if is_person else before.scale[[number]],
        )
        log_odds = weight * log_p + _scale_prior(scales)
        log_posterior[:, :, number] += logsumexp(log_odds, axis=1)
        log_odds += prior[:, None]
        odds = np.exp(log_odds - log_odds.max())
        scale[number] = np.exp(odds.sum(axis=0) @ np.log(scales) / odds.sum())
    odds = np.exp(log_posterior - log_posterior.max(axis=(0, 1)))
    odds /= odds.sum(axis=(0, 1))
    c_mean, c_sd = _mean_and_sd(c, odds.sum(axis=0))
    blind, blind_sd = _mean_and_sd(BLIND, odds.sum(axis=1))
    # The scores absorb a common factor: the mean over people, or without people over models. An
    # annotator counts by reliability, so that nobody whose answers are random counts.
    is_by_person = votes.of_kind(PERSON)
    counts_for_mean = votes.first & (is_by_person | ~is_by_person.any())
    n_answers = np.bincount(annotator[counts_for_mean], minlength=n_annotators)
    common = (n_answers @ c_mean**2) / (n_answers @ np.abs(c_mean))
    return replace(
        before,
        reliability=c_mean / common,
        reliability_sd=c_sd / common,
        blind=blind,
        blind_sd=blind_sd,
        scale=scale,
    )


def matched_scale(scale: float, sum_of_squares: float, degrees_of_freedom: float) -> float:
    """Update the scale of an annotator's measurements: the root mean square of their errors.

    The prior counts as `_FLOOR` more measurements with the error `SCALE`:

        scale'^2 = (scale^2 * sum_of_squares + _FLOOR * SCALE^2) / (degrees_of_freedom + _FLOOR)

    Args:
        scale: the present scale, in whose units the errors are given.
        sum_of_squares: the sum of the squared errors, each divided by the present scale.
        degrees_of_freedom: number of measurements less the number of unknowns that they determine.
    """
    squares = scale**2 * sum_of_squares + _FLOOR * SCALE**2
    return float(np.sqrt(squares / (degrees_of_freedom + _FLOOR)))


def _of_words(
    c: F64,
    gap: F64,
    variance: F64,
    bias: F64,
    votes: Votes,
    tie: F64,
    ties: float,
    noise: F64,
    counts: F64,
    n_annotators: int,
) -> F64:
    """(blind, candidates, a) log-likelihoods of each annotator's answers in words."""
    spread = np.sqrt(noise + c[:, None] ** 2 * variance)
    z = (c[:, None] * gap + bias) / spread
    looked, by_chance = _probabilities(z, votes, tie / spread, ties)
    annotator = votes.annotator
    if votes.answer is not None:
        # An answer is given blindly or not as a whole, however many rows it has.
        first = votes.first
        looked = looked[:, first]
        by_chance = by_chance[first]
        counts = counts[first]
        annotator = annotator[first]
    shape = len(annotator), n_annotators
    count_of = sparse.csr_array((counts, (np.arange(len(annotator)), annotator)), shape=shape)
    log_likelihoods = []
    for blind in BLIND:
        log_p = np.log(blind * by_chance + (1 - blind) * looked + 1e-300)
        log_likelihoods.append((count_of.T @ log_p.T).T)
    return np.stack(log_likelihoods)


def _of_measurements(
    c: F64, gap: F64, variance: F64, bias: F64, probit: F64, noise: F64, scales: F64 | None
) -> tuple[F64, F64]:
    """(candidates, scales) log-likelihoods of an annotator's measurements, and the scales.

    If `scales` is None, a fine grid around the likeliest scale of a coarse grid is used.
    """
    mean = c[:, None] * gap + bias
    spread = np.sqrt(noise + c[:, None] ** 2 * variance)
    sign = np.sign(probit)
    is_beyond = np.abs(probit) >= MOST_PROBIT  # such a probit means "at least"

    def log_p(scale: float) -> F64:
        error = (probit / scale - mean) / spread
        within = -0.5 * error**2 - np.log(scale * spread)
        beyond = log_ndtr(sign * (mean - sign * MOST_PROBIT / scale) / spread)
        total: F64 = np.where(is_beyond, beyond, within).sum(axis=1)
        return total

    if scales is not None:
        return np.stack([log_p(scale) for scale in scales], axis=1), scales
    coarse = np.stack([log_p(scale) for scale in _SCALES], axis=1)
    likeliest = np.argmax((coarse + _scale_prior(_SCALES)).max(axis=0))
    finer = _SCALES[likeliest] * _FINER
    return np.stack([log_p(scale) for scale in finer], axis=1), finer


def _probits(votes: Votes, rows: NDArray[np.intp]) -> F64:
    assert votes.probit is not None
    return votes.probit[rows]


def _scale_prior(scales: F64) -> F64:
    """Log-density of the prior of each scale, up to a constant."""
    return -0.5 * (np.log(scales / SCALE) / _SCALE_SPREAD) ** 2


def _probabilities(z: F64, votes: Votes, tie: float | F64, ties: float) -> tuple[F64, F64]:
    """Probabilities of the answers: (candidates, m) if an annotator looks, (m,) if blindly given.

    The first row of an answer about a set has the probability of the whole answer.
    """
    looked = np.exp(genuine(z, np.broadcast_to(votes.target, z.shape), tie).log_p)
    by_chance = chance(votes.target, ties)
    for sets in votes.sets:
        first = sets.first
        sighted = np.zeros((len(z), len(first)))
        of_sets = set_likelihood(sets.layout, z[:, sets.rows], sighted, ties)
        looked[:, first] = np.exp(of_sets.log_p)
        by_chance[first] = sets.layout.chance(ties)
    return looked, by_chance


def _mean_and_sd(values: F64, odds: F64) -> tuple[F64, F64]:
    """Mean and standard deviation of values with these probabilities, (v, a), by column."""
    mean = values @ odds
    return mean, np.sqrt(np.maximum(values**2 @ odds - mean**2, 0))
