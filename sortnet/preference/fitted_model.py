"""The fitted model of a session: learned features, scales, a fit to choose and one to rank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import log_ndtr, xlogy

from sortnet.core import F64, Bool, ComparedPairs, Queries
from sortnet.core.pairs import packed, unique
from sortnet.metrics import is_gain
from sortnet.preference.cached_on_disk import Arrays, cached
from sortnet.preference.laplace import Fitted, choose_scales, fit
from sortnet.preference.reliability import Annotators
from sortnet.preference.scales import Scales
from sortnet.preference.vote_arrays import Votes

ENOUGH = 200  # votes from which on a net is tried
_PLENTY = 20_000  # votes it is tried on, at most
_HIDDEN = (16, 8)
_CHECKED = 0.25  # share of the votes held out for early stopping and evaluation
_BETTER = 1.0  # standard errors by which it must predict held-out votes better
# Epochs after the best one. Training to the end keeps the same epoch, and takes four times as long.
_PATIENCE = 10


@dataclass(frozen=True, eq=False)
class Basis:
    """Learned features and scales, chosen from the answers up to a milestone."""

    milestone: int  # number of events up to which the net was trained
    scaled: int  # and up to which the scales were chosen
    features: F64  # (n, d + h), the given ones and those learned by a net
    scales: Scales


@dataclass(frozen=True, eq=False)
class Fits:
    """`choosing` is fitted without the hold-out, `all` with it."""

    basis: Basis
    choosing: Fitted
    all: Fitted


def milestone(events: int) -> int:
    """The event at which the basis was last chosen: 8, then each time there are a quarter more.

    It depends only on the number of events, so that a replay gets the same basis.

    >>> [milestone(events) for events in (7, 8, 9, 10, 100)]
    [0, 8, 8, 10, 97]
    """
    at, then = 0, 8
    while then <= events:
        at, then = then, then + then // 4
    return at


def choose_basis(
    features: F64,
    votes: Votes,
    at: int,
    *,
    net: Basis | None = None,
    seed: int = 0,
    keep: Path | None = None,
) -> Basis:
    """Learned features, or those of `net`, and scales, from the votes up to a milestone.

    `keep` is a folder for what is found, see `cached`.
    """
    n_annotators = int(votes.annotator.max(initial=-1)) + 1
    if net is None:

        def learn() -> Arrays:
            return {"units": learned_features(features, votes, n_annotators, seed=seed)}

        learned = cached(keep, ("units", features, *vars(votes).values(), seed), learn)
        milestone, together = at, np.hstack((features, learned["units"]))
    else:
        milestone, together = net.milestone, net.features
    scales = kept_scales(together, votes, n_annotators, seed=seed, keep=keep)
    return Basis(milestone, at, together, scales)


def kept_scales(
    features: F64, votes: Votes, n_annotators: int, *, seed: int = 0, keep: Path | None = None
) -> Scales:
    """`choose_scales`, or what it returned earlier."""

    def choose() -> Arrays:
        return choose_scales(features, votes, n_annotators, seed=seed).arrays()

    inputs = ("scales", features, *vars(votes).values(), n_annotators, seed)
    return Scales.from_arrays(cached(keep, inputs, choose))


def fit_both(
    basis: Basis,
    usable: Votes,
    everything: Votes,
    n_annotators: int,
    *,
    start: F64 | None = None,
    seed: int = 0,
    keep: Path | None = None,
) -> Fits:
    """Fit the scores to the answers without the hold-out, and to all; `keep`: see `cached`."""
    scales = basis.scales

    def fit_them() -> Arrays:
        choosing = fit(basis.features, usable, n_annotators, scales=scales, start=start, seed=seed)
        if not len(everything) and choosing.posterior.covariance is None:
            # Both are the prior. Without a covariance no answer changes one of them in place, so
            # they can share their draws: of a million items they take 400 MB.
            ranking = choosing
        else:
            ranking = fit(
                basis.features,
                everything,
                n_annotators,
                scales=scales,
                start=choosing.theta,
                seed=seed,
            )
        parts = {"choosing": choosing.arrays(), "all": ranking.arrays()}
        return {f"{part}.{name}": a for part, of in parts.items() for name, a in of.items()}

    votes = (*vars(usable).values(), *vars(everything).values())
    inputs = ("fits", basis.features, *scales.arrays().values(), *votes, n_annotators, start, seed)
    found = cached(keep, inputs, fit_them)

    def part(name: str) -> Fitted:
        own = {k.removeprefix(name): array for k, array in found.items() if k.startswith(name)}
        return Fitted.from_arrays(own, len(basis.features), scales)

    return Fits(basis, part("choosing."), part("all."))


def predicted_better_without(number: int, basis: Basis, votes: Votes, *, seed: int = 0) -> bool:
    """Whether held-out answers of the others are predicted better without one annotator's.

    Each of the others' answers is predicted as if it had not been fitted. All count alike here, as
    they do in an export: a model that knows who is unreliable hardly needs to leave anybody out.
    Better is by a standard error of the mean log-likelihood, in two fits to 20,000 votes at most.
    """
    votes = _at_most(votes.comparisons(), seed)
    own = votes.annotator == number
    if own.all() or not own.any():
        return False
    alike = replace(votes, annotator=np.zeros(len(votes), np.int64), weight=None)
    others = alike.where(~own)
    scales = replace(basis.scales, annotators=Annotators.average(1))

    def likelihoods(known: Votes) -> F64:
        found = fit(basis.features, known, 1, scales=scales, seed=seed, draws=16).posterior
        p = found.predicted(others, left_out=True)
        likelihood: F64 = xlogy(others.target, p) + xlogy(1 - others.target, 1 - p)
        return likelihood

    gain = likelihoods(others) - likelihoods(alike)
    return is_gain(gain, _BETTER, ddof=0)


def _at_most(votes: Votes, seed: int) -> Votes:
    if len(votes) <= _PLENTY:
        return votes
    return votes.where(votes.drawn(_PLENTY / len(votes), np.random.default_rng(seed)))


def learned_features(features: F64, votes: Votes, n_annotators: int, *, seed: int = 0) -> F64:
    """(n, h) standardised hidden units of a DirectRanker trained on the votes; h may be 0.

    The net f of r(x, y) = τ(w · (f(x) - f(y))) learns from soft targets: each vote is one pair, a
    tie is a pair each way. A quarter of the votes is held out for early stopping and to decide
    whether to keep the units: they must improve the likelihood of the held-out votes. If they do
    not, or there are few votes, there are none (h = 0). Held out are all votes on some of the
    items: a net that memorises items is useless, as the items' residuals do that already and it
    would not generalise to items that nobody has compared.

    Cost: none up to 200 votes; above, a training and two fits to at most 20,000 votes, about five
    seconds.
    """
    nothing = np.empty((len(features), 0))
    if votes.n_answers < ENOUGH or not features.shape[1]:
        return nothing
    votes = _at_most(votes, seed)
    some = max(1, round(len(features) * (1 - np.sqrt(1 - _CHECKED))))
    of = np.zeros(len(features), np.bool_)
    of[np.random.default_rng(seed).permutation(len(features))[:some]] = True
    held_out = of[votes.left] | of[votes.right]
    train, vali = votes.where(~held_out), votes.where(held_out)
    if not len(train) or not len(vali):
        return nothing
    units = _hidden_units(features, train, vali, seed)
    without = _likelihoods(features, votes, n_annotators, held_out, seed)
    gain = _likelihoods(np.hstack((features, units)), votes, n_annotators, held_out, seed) - without
    return units if is_gain(gain, _BETTER, ddof=0) else nothing


def _likelihoods(features: F64, votes: Votes, n_annotators: int, held_out: Bool, seed: int) -> F64:
    """Log-likelihood of each held-out vote, by a fit to the others."""
    posterior = fit(features, votes.where(~held_out), n_annotators, seed=seed, draws=16).posterior
    votes = votes.where(held_out).comparisons()
    mean, variance = posterior.difference(votes.left, votes.right)
    z = mean / np.sqrt(1 + variance)
    likelihood: F64 = votes.target * log_ndtr(z) + (1 - votes.target) * log_ndtr(-z)
    return likelihood


def _hidden_units(features: F64, train: Votes, vali: Votes, seed: int) -> F64:
    import torch

    from sortnet.comparators import DirectRanker
    from sortnet.config import Training
    from sortnet.learning.training import train_on_pairs

    items = Queries.from_arrays(features.astype(np.float32))
    net = DirectRanker(features.shape[1], hidden=_HIDDEN, seed=seed)
    how = Training(patience=_PATIENCE)
    train_on_pairs(net, items, _pairs(train), items, _pairs(vali), how, seed=seed)
    with torch.no_grad():
        net.eval()
        units = net.feature_part(torch.from_numpy(items.features)).numpy().astype(np.float64)
    spread = units.std(axis=0)
    alive = spread > 1e-6
    standard: F64 = (units[:, alive] - units[:, alive].mean(axis=0)) / spread[alive]
    return standard


def _pairs(votes: Votes) -> ComparedPairs:
    """The likelier winner of each vote first; of a tie, either."""
    votes = votes.comparisons()
    first = np.append(votes.target >= 0.5, votes.target > 0.5)
    left, right = np.tile(votes.left, 2), np.tile(votes.right, 2)
    better, worse = np.where(first, left, right), np.where(first, right, left)
    return ComparedPairs.of_keys(unique(packed(better, worse)))
