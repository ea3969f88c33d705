"""How an annotator answers: reliability and share of blind answers, given the scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from sortnet.core import F64
from sortnet.preference.likelihood import chance, genuine
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


@dataclass(frozen=True, eq=False)
class Annotators:
    """How the annotators answer: (a,) each, an estimate and its standard deviation.

    Attributes:
        reliability: c, 1 for an average one, 0 for answers at random, negative for inverted ones.
        side: bias b to the left side, in units of an answer's noise.
        blind: share of their answers that does not depend on the items.
    """

    reliability: F64
    reliability_sd: F64
    side: F64
    side_sd: F64
    blind: F64
    blind_sd: F64

    @classmethod
    def average(cls, n_annotators: int) -> Annotators:
        """Annotators of whom nothing is known yet."""
        ones, zeros = np.ones(n_annotators), np.zeros(n_annotators)
        return cls(ones, SPREAD * ones, zeros, SIDE * ones, zeros, zeros)

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
    """Posterior means and standard deviations of reliabilities and blind shares, on a grid.

    Args:
        before: the annotators; their side biases are kept.
        gap, variance: (m,) of s_left - s_right, as it would be without these answers.
        bias: (m,) side bias of who answers.
        votes: the answers.
        tie, ties: as in `answers`.
        noise: (m,) variance of z given the gap; more than 1 of models, which share errors.
        counts: (m,) how many answers each counts for; None: 1.
    """
    n_annotators, annotator = len(before.side), votes.annotator
    c = CANDIDATES[:, None]
    spread = np.sqrt(noise + c**2 * variance)
    z = (c * gap + bias) / spread
    looked, by_chance = _probabilities(z, votes, tie / spread, ties)
    people = votes.of_kind(PERSON)
    if votes.answer is not None:  # one attention for an answer, however many rows it has
        first = votes.first
        looked, by_chance = looked[:, first], by_chance[first]
        gap, annotator, people = gap[first], annotator[first], people[first]
        counts = None if counts is None else counts[first]
    whose = sparse.csr_array(
        (np.ones(len(gap)) if counts is None else counts, (np.arange(len(gap)), annotator)),
        shape=(len(gap), n_annotators),
    )
    prior = -(NU + 1) / 2 * np.log1p(((CANDIDATES - 1) / SPREAD) ** 2 / NU)
    total = np.stack(
        [
            (whose.T @ np.log(share * by_chance + (1 - share) * looked + 1e-300).T).T
            + (prior + _FEW_BLIND * np.log1p(-share))[:, None]
            for share in BLIND
        ]
    )  # (blind, candidates, a)
    odds = np.exp(total - total.max(axis=(0, 1)))
    odds /= odds.sum(axis=(0, 1))
    c_mean, c_sd = _moments(CANDIDATES, odds.sum(axis=0))
    blind, blind_sd = _moments(BLIND, odds.sum(axis=1))
    # The scores absorb a common factor, that of the people if there are any; who says nothing of
    # the order does not count.
    answered = np.bincount(annotator[people | ~people.any()], minlength=n_annotators)
    common = (answered @ c_mean**2) / (answered @ np.abs(c_mean))
    return replace(
        before,
        **{"reliability": c_mean / common, "reliability_sd": c_sd / common},
        **{"blind": blind, "blind_sd": blind_sd},
    )


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
