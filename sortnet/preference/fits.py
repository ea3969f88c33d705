"""What a session learns: features, both fits' scales, and the fits; one chooses, one ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from sortnet.preference.laplace import Fitted, Scales, choose_scales, fit
from sortnet.preference.posterior import Votes
from sortnet.types import F64, Bool, Pairs, Queries

ENOUGH = 200  # votes from which a net is tried
_PLENTY = 20_000  # votes that it is tried on at most
_HIDDEN = (16, 8)
_CHECKED = 0.25  # share of the votes that the net is stopped by and judged on
_BETTER = 1.0  # standard errors by which it must predict them better


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
    """`choosing` knows nothing of the hold-out answers, `all` knows everything."""

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


def learned_features(features: F64, votes: Votes, people: int, *, seed: int = 0) -> F64:
    """(n, h) standardised hidden units of a DirectRanker trained on the votes; h may be 0.

    The net f of r(x, y) = τ(w · (f(x) - f(y))) learns from soft targets: a vote of each person is
    one pair, a tie is half a pair each way. A quarter of the votes is kept apart, which stops the
    training and decides whether the units are of use: those votes must be predicted better with
    them than without. Where they are not, or votes are few, there are none (h = 0). Kept apart are
    all the votes on some of the items: what a net has learned by heart of an item is of no use, as
    the item's residual says that too, and it would not hold for items that nobody has compared.

    Args:
        features: (n, d) standardised.
        votes: the answers.
        people: how many people there are.
        seed: of the net and of the items kept apart.

    Cost: none up to 200 votes; above, a training and two fits to 20,000 votes at the most, some
    five seconds.
    """
    nothing = np.empty((len(features), 0))
    if len(votes) < ENOUGH or not features.shape[1]:
        return nothing
    if len(votes) > _PLENTY:
        votes = votes.where(np.random.default_rng(seed).random(len(votes)) < _PLENTY / len(votes))
    apart = _apart(votes, len(features), seed)
    if apart.all() or not apart.any():
        return nothing
    units = _hidden_units(features, votes.where(~apart), votes.where(apart), seed)
    gain = _likelihoods(np.hstack((features, units)), votes, people, apart, seed) - _likelihoods(
        features, votes, people, apart, seed
    )
    return units if gain.mean() > _BETTER * gain.std() / np.sqrt(len(gain)) else nothing


def _apart(votes: Votes, n: int, seed: int) -> Bool:
    """(m,) whether a vote is kept apart: all those on some of the items are, about a quarter."""
    some = max(1, round(n * (1 - np.sqrt(1 - _CHECKED))))
    of = np.zeros(n, np.bool_)
    of[np.random.default_rng(seed).permutation(n)[:some]] = True
    apart: Bool = of[votes.left] | of[votes.right]
    return apart


def _likelihoods(features: F64, votes: Votes, people: int, apart: Bool, seed: int) -> F64:
    """Log-likelihood of each vote kept apart, by a fit to the others."""
    posterior = fit(features, votes.where(~apart), people, seed=seed, draws=16).posterior
    late = votes.where(apart)
    mean, variance = posterior.difference(late.left, late.right)
    z = mean / np.sqrt(1 + variance)
    likelihood: F64 = late.target * log_ndtr(z) + (1 - late.target) * log_ndtr(-z)
    return likelihood


def _hidden_units(features: F64, train: Votes, vali: Votes, seed: int) -> F64:
    import torch

    from sortnet.comparators import DirectRanker
    from sortnet.config import Training
    from sortnet.learning.training import train_on_pairs

    items = Queries.from_arrays(features.astype(np.float32))
    net = DirectRanker(features.shape[1], hidden=_HIDDEN, seed=seed)
    train_on_pairs(net, items, _pairs(train), items, _pairs(vali), Training(), seed=seed)
    with torch.no_grad():
        net.eval()
        units = net.feature_part(torch.from_numpy(items.features)).numpy().astype(np.float64)
    spread = units.std(axis=0)
    alive = spread > 1e-6
    standard: F64 = (units[:, alive] - units[:, alive].mean(axis=0)) / spread[alive]
    return standard


def _pairs(votes: Votes) -> Pairs:
    """Soft targets as pairs: who wins a vote wins two pairs, a tie is one pair each way."""
    left, tie = votes.target == 1, votes.target == 0.5
    winner = np.where(left | tie, votes.left, votes.right)
    loser = np.where(left | tie, votes.right, votes.left)
    again_winner = np.where(tie, loser, winner)
    again_loser = np.where(tie, winner, loser)
    return Pairs(np.append(winner, again_winner), np.append(loser, again_loser))
