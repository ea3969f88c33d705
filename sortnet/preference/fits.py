"""Both fits of a session: one that chooses the questions, and one that ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.preference.laplace import Fitted, Scales, choose_scales, fit
from sortnet.preference.learned import learned_features
from sortnet.preference.posterior import Votes
from sortnet.types import F64


@dataclass(frozen=True, eq=False)
class Basis:
    """What is chosen now and then, from the answers up to a milestone.

    Attributes:
        milestone: how many events those were.
        features: (n, d + h) with those that a net has learned.
        scales: of the prior, and of people's reliability.
    """

    milestone: int
    features: F64
    scales: Scales


@dataclass(frozen=True, eq=False)
class Fits:
    """`choosing` knows nothing of the hold-out arm's answers, `all` knows everything."""

    basis: Basis
    choosing: Fitted
    all: Fitted


def milestone(events: int) -> int:
    """When the basis was last chosen: at 8 events, and each time there are a quarter more.

    A function of the number of events only, so that a replay arrives at the same basis.

    >>> [milestone(events) for events in (7, 8, 9, 10, 100)]
    [0, 8, 8, 10, 97]
    """
    at, then = 0, 8
    while then <= events:
        at, then = then, then + then // 4
    return at


def choose_basis(features: F64, votes: Votes, at: int, *, seed: int = 0) -> Basis:
    """Learned features and scales, from the votes up to a milestone."""
    people = int(votes.person.max(initial=-1)) + 1
    learned = learned_features(features, votes, people, seed=seed)
    together = np.hstack((features, learned))
    return Basis(at, together, choose_scales(together, votes, people, seed=seed))


def fit_both(
    basis: Basis,
    usable: Votes,
    everything: Votes,
    people: int,
    *,
    start: F64 | None = None,
    seed: int = 0,
) -> Fits:
    """Fit the scores to the answers that may be used to choose, and to all of them."""
    scales = basis.scales
    choosing = fit(basis.features, usable, people, scales=scales, start=start, seed=seed)
    ranking = fit(
        basis.features, everything, people, scales=scales, start=choosing.theta, seed=seed
    )
    return Fits(basis, choosing, ranking)
