"""How an annotator answers: reliability, share of blind answers, scale of measurements."""

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

# The candidates, and their prior: few annotators differ from the others, but those may do so a lot
# (Student's t with three degrees of freedom around 1), and few answer blindly.
CANDIDATES = np.linspace(-2.5, 2.5, 41)
BLIND = np.array([0.0, 0.03, 0.08, 0.15, 0.25, 0.4, 0.6, 0.9])
SPREAD = 0.3
SIDE = 0.1  # spread of the prior of a side bias, of the same kind
NU = 3.0
_FEW_BLIND = 10.0
# Who gives probabilities may be far more reliable than people are in a word.
_RELIABLE = np.geomspace(2.65, 8.0, 20)
# Scales of measurements: the error of a probit before any answer, and the spread of its logarithm,
# which keeps the error above a floor where few answers seem to have none.
SCALE = 0.5
_SCALE_SPREAD = 1.0
_FLOOR = 3.0  # measurements with that error that the prior counts for
_SCALES = np.geomspace(0.02, 8.0, 31)
_FINER = np.geomspace(0.8, 1.25, 11)
_MEASURED = 1_000  # measurements of an annotator by which the scale is learned, at most


@dataclass(frozen=True, eq=False)
class Annotators:
    """How the annotators answer: (a,) each, an estimate and its standard deviation.

    Attributes:
        reliability: c, 1 for an average one, 0 for answers at random, negative for inverted ones.
        side: bias b to the left side, in units of an answer's noise.
        blind: share of their answers that does not depend on the items.
        scale: of the probits of their probabilities, see `measured`, in which it is the standard
            deviation of an error; 0 if these say no more than the words.
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
        """Annotators of whom nothing is known yet."""
        ones, zeros = np.ones(n_annotators), np.zeros(n_annotators)
        return cls(ones, SPREAD * ones, zeros, SIDE * ones, zeros, zeros, SCALE * ones)

    def padded(self, n_annotators: int) -> Annotators:
        """The same with average ones added."""
        more = vars(Annotators.average(n_annotators - len(self.side)))
        return Annotators(**{name: np.append(has, more[name]) for name, has in vars(self).items()})


def side_spread(square: F64) -> F64:
    """(a,) prior spreads of the side biases, given their expected squares: the weights of a t."""
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
    """Posterior means and standard deviations of reliabilities and blind shares, on a grid; and
    scales of people's measurements.

    Args:
        before: the annotators; their side biases are kept, and the scales of models.
        gap, variance: (m,) of s_left - s_right, as it would be without these answers.
        bias: (m,) side bias of who answers.
        votes: the answers.
        tie, ties: as in `answers`.
        noise: (m,) variance of z given the gap; more than 1 of models, which share errors.
        counts: (m,) how many answers each counts for; None: 1.
    """
    n_annotators, annotator = len(before.side), votes.annotator
    noise = np.broadcast_to(noise, gap.shape)
    count = np.ones(len(gap)) if counts is None else counts
    measured = votes.is_measured & (before.scale[annotator] > 0)
    c = np.append(CANDIDATES, _RELIABLE) if measured.any() else CANDIDATES
    width = np.gradient(c) / (CANDIDATES[1] - CANDIDATES[0])
    prior = np.log(width) - (NU + 1) / 2 * np.log1p(((c - 1) / SPREAD) ** 2 / NU)
    words = ~measured
    total = _of_words(
        c,
        gap[words],
        variance[words],
        bias[words],
        votes.where(words),
        np.broadcast_to(tie, gap.shape)[words],
        ties,
        noise[words],
        count[words],
        n_annotators,
    )
    total += prior[:, None] + (_FEW_BLIND * np.log1p(-BLIND))[:, None, None]
    scale = before.scale.copy()
    for who in np.unique(annotator[measured]).tolist():
        rows = np.flatnonzero(measured & (annotator == who))
        rows = rows[:: len(rows) // _MEASURED + 1]
        share = count[rows].mean() * np.sum(measured & (annotator == who)) / len(rows)
        is_person = votes.of_kind(PERSON)[rows[0]]
        known = None if is_person else before.scale[[who]]
        log_p, scales = _of_measurements(
            c, gap[rows], variance[rows], bias[rows], _probits(votes, rows), noise[rows], known
        )
        total[:, :, who] += logsumexp(share * log_p + _scale_prior(scales), axis=1)
        odds = share * log_p + _scale_prior(scales) + prior[:, None]
        odds = np.exp(odds - odds.max())
        scale[who] = np.exp(odds.sum(axis=0) @ np.log(scales) / odds.sum())
    odds = np.exp(total - total.max(axis=(0, 1)))
    odds /= odds.sum(axis=(0, 1))
    c_mean, c_sd = _moments(c, odds.sum(axis=0))
    blind, blind_sd = _moments(BLIND, odds.sum(axis=1))
    # The scores absorb a common factor, that of the people if there are any; who says nothing of
    # the order does not count.
    people = votes.of_kind(PERSON)
    counted = votes.first & (people | ~people.any())
    answered = np.bincount(annotator[counted], minlength=n_annotators)
    common = (answered @ c_mean**2) / (answered @ np.abs(c_mean))
    return replace(
        before,
        **{"reliability": c_mean / common, "reliability_sd": c_sd / common},
        **{"blind": blind, "blind_sd": blind_sd, "scale": scale},
    )


def matched_scale(scale: float, square: float, free: float) -> float:
    """The scale of an annotator's measurements, given the present one.

    Args:
        scale: with which the errors are standard normal if it is right.
        square: the sum of their squares.
        free: number of measurements less the number of unknowns that they determine.
    """
    return float(np.sqrt((scale**2 * square + _FLOOR * SCALE**2) / (free + _FLOOR)))


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
    if votes.answer is not None:  # one attention for an answer, however many rows it has
        first = votes.first
        looked, by_chance, counts = looked[:, first], by_chance[first], counts[first]
        annotator = annotator[first]
    shape = len(annotator), n_annotators
    whose = sparse.csr_array((counts, (np.arange(len(annotator)), annotator)), shape=shape)
    return np.stack(
        [
            (whose.T @ np.log(share * by_chance + (1 - share) * looked + 1e-300).T).T
            for share in BLIND
        ]
    )


def _of_measurements(
    c: F64, gap: F64, variance: F64, bias: F64, probit: F64, noise: F64, scales: F64 | None
) -> tuple[F64, F64]:
    """(candidates, scales) log-likelihoods of an annotator's measurements, and the scales.

    Scales that are not given are a grid, and a finer one where the likelihood is highest.
    """
    mean = c[:, None] * gap + bias
    spread = np.sqrt(noise + c[:, None] ** 2 * variance)
    beyond, sign = np.abs(probit) >= MOST_PROBIT, np.sign(probit)

    def log_p(scale: float) -> F64:
        error = (probit / scale - mean) / spread
        inside = -0.5 * error**2 - np.log(scale * spread)
        outside = log_ndtr(sign * (mean - sign * MOST_PROBIT / scale) / spread)
        total: F64 = np.where(beyond, outside, inside).sum(axis=1)
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
    """Probabilities of the answers, (candidates, m) if the items are seen and (m,) if they are not.

    The first row of an answer about a set has those of the whole answer.
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


def _moments(values: F64, odds: F64) -> tuple[F64, F64]:
    mean = values @ odds
    return mean, np.sqrt(np.maximum(values**2 @ odds - mean**2, 0))
