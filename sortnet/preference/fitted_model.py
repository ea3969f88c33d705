"""The fitted model of a session: learned features, scales, and two fits of the scores.

One fit chooses the questions and does not see the hold-out; the other fit ranks the items.
"""

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

ENOUGH = 200  # votes without which no net is trained
_PLENTY = 20_000  # votes that a trial uses at most
_HIDDEN = (16, 8)
_CHECKED = 0.25  # share of the votes held out for early stopping and evaluation
_BETTER = 1.0  # standard errors by which a prediction must improve
# Training stops this number of epochs after the best one. Without early stopping the same epoch was
# best, and training took four times as long.
_PATIENCE = 10


@dataclass(frozen=True, eq=False)
class Basis:
    """Learned features and scales, chosen from the answers up to a milestone."""

    milestone: int  # number of events up to which the net was trained
    scaled: int  # number of events up to which the scales were chosen
    features: F64  # (n, d + h) given features, and features learned by a net
    scales: Scales


@dataclass(frozen=True, eq=False)
class Fits:
    """Two fits on one basis.

    Attributes:
        basis: the features and scales of both fits.
        choosing: the fit without the hold-out, which chooses the questions.
        all: the fit to all answers, which ranks the items.
    """

    basis: Basis
    choosing: Fitted
    all: Fitted


def milestone(events: int) -> int:
    """The number of events after which the basis was last chosen: 8, then a quarter more each time.

    The milestone depends only on the number of events, so that a replay gets the same basis.

    >>> [milestone(events) for events in (7, 8, 9, 10, 100)]
    [0, 8, 8, 10, 97]
    """
    last = 0
    following = 8
    while following <= events:
        last = following
        following += following // 4
    return last


def choose_basis(
    features: F64,
    votes: Votes,
    at: int,
    *,
    net: Basis | None = None,
    seed: int = 0,
    keep: Path | None = None,
) -> Basis:
    """Choose the basis of the fits: learned features, and scales.

    Args:
        features: (n, d) the given features.
        votes: the votes up to the milestone.
        at: the milestone, a number of events.
        net: an earlier basis, whose features are taken over; None: a net is trained.
        seed: the seed of the training and of the draws.
        keep: a folder in which features and scales are cached, see `cached`.
    """
    n_annotators = int(votes.annotator.max(initial=-1)) + 1
    if net is None:

        def learn() -> Arrays:
            return {"units": learned_features(features, votes, n_annotators, seed=seed)}

        inputs = ["units", features, *vars(votes).values(), seed]
        units = cached(keep, inputs, learn)["units"]
        trained_at = at
        extended = np.hstack((features, units))
    else:
        trained_at = net.milestone
        extended = net.features
    scales = kept_scales(extended, votes, n_annotators, seed=seed, keep=keep)
    return Basis(trained_at, at, extended, scales)


def kept_scales(
    features: F64, votes: Votes, n_annotators: int, *, seed: int = 0, keep: Path | None = None
) -> Scales:
    """Choose the scales with `choose_scales`, or read them from the folder `keep` if cached."""

    def choose() -> Arrays:
        return choose_scales(features, votes, n_annotators, seed=seed).arrays()

    inputs = ["scales", features, *vars(votes).values(), n_annotators, seed]
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
    """Fit the scores twice: to the answers without the hold-out, and to all answers.

    Args:
        basis: features and scales.
        usable: the votes without the hold-out.
        everything: all votes.
        n_annotators: the number of annotators.
        start: where the search for the mode starts; None: at zero.
        seed: the seed of the draws.
        keep: a folder in which the fits are cached, see `cached`.
    """
    scales = basis.scales
    features = basis.features

    def fit_them() -> Arrays:
        """Compute both fits; return their arrays, with a prefix before each name."""
        choosing = fit(features, usable, n_annotators, scales=scales, start=start, seed=seed)
        if not len(everything) and choosing.posterior.covariance is None:
            # Both fits are the prior. They can share their draws, which take 400 MB for a million
            # items, because a fit without a covariance is never changed in place.
            ranking = choosing
        else:
            ranking = fit(
                features,
                everything,
                n_annotators,
                scales=scales,
                start=choosing.theta,
                seed=seed,
            )
        arrays = {f"choosing.{name}": array for name, array in choosing.arrays().items()}
        for name, array in ranking.arrays().items():
            arrays[f"all.{name}"] = array
        return arrays

    votes = [*vars(usable).values(), *vars(everything).values()]
    inputs = ["fits", features, *scales.arrays().values(), *votes, n_annotators, start, seed]
    arrays = cached(keep, inputs, fit_them)

    def fit_named(prefix: str) -> Fitted:
        """Make the fit whose arrays have the prefix."""
        arrays_of_fit = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        return Fitted.from_arrays(arrays_of_fit, len(features), scales)

    return Fits(basis, fit_named("choosing."), fit_named("all."))


def predicted_better_without(number: int, basis: Basis, votes: Votes, *, seed: int = 0) -> bool:
    """Whether the other annotators' answers are predicted better without one annotator's answers.

    Each answer of another annotator is predicted as if it had not been fitted. All annotators have
    the same reliability here, as they do in an export: a model that knows who is unreliable hardly
    needs to leave anybody out. Better means: by a standard error of the mean log-likelihood.

    Args:
        number: the number of the annotator.
        basis: features and scales.
        votes: all votes.
        seed: the seed of the sample and of the draws.

    Cost: two fits to at most 20,000 votes.
    """
    votes = _plenty_of(votes.comparisons(), seed)
    is_own = votes.annotator == number
    if is_own.all() or not is_own.any():
        return False
    as_of_one = replace(votes, annotator=np.zeros(len(votes), np.int64), weight=None)
    of_others = as_of_one.where(~is_own)
    scales = replace(basis.scales, annotators=Annotators.average(1))

    def log_likelihoods(fitted_votes: Votes) -> F64:
        """Log-likelihoods of the other annotators' answers under a fit to the given votes."""
        fitted = fit(basis.features, fitted_votes, 1, scales=scales, seed=seed, draws=16)
        p = fitted.posterior.predicted(of_others, left_out=True)
        log_p: F64 = xlogy(of_others.target, p) + xlogy(1 - of_others.target, 1 - p)
        return log_p

    gain = log_likelihoods(of_others) - log_likelihoods(as_of_one)
    return is_gain(gain, _BETTER, ddof=0)


def _plenty_of(votes: Votes, seed: int) -> Votes:
    """Return the votes, or about 20,000 random votes if there are more."""
    if len(votes) <= _PLENTY:
        return votes
    return votes.where(votes.drawn(_PLENTY / len(votes), np.random.default_rng(seed)))


def learned_features(features: F64, votes: Votes, n_annotators: int, *, seed: int = 0) -> F64:
    """(n, h) standardised hidden units of a DirectRanker trained on the votes; h may be 0.

    The DirectRanker r(x, y) = τ(w · (f(x) - f(y))) is trained on one pair for each vote; a tie is
    two pairs, one each way. A quarter of the votes is held out for early stopping and to decide
    whether to keep the hidden units of f: they must improve the likelihood of the held-out votes.
    If the units do not improve the likelihood, or votes are few, no units are returned (h = 0). The
    held-out votes are all votes on some of the items, because a net that memorises items is
    useless: the residuals of the items do that already.

    Cost: none below 200 votes; else a training and two fits to at most 20,000 votes, about five
    seconds.
    """
    nothing = np.empty((len(features), 0))
    if votes.n_answers < ENOUGH or not features.shape[1]:
        return nothing
    votes = _plenty_of(votes, seed)
    n_items = len(features)
    n_held_out = max(1, round(n_items * (1 - np.sqrt(1 - _CHECKED))))
    held_out_items = np.random.default_rng(seed).permutation(n_items)[:n_held_out]
    is_item_held_out = np.zeros(n_items, np.bool_)
    is_item_held_out[held_out_items] = True
    held_out = is_item_held_out[votes.left] | is_item_held_out[votes.right]
    train = votes.where(~held_out)
    vali = votes.where(held_out)
    if not len(train) or not len(vali):
        return nothing
    units = _hidden_units(features, train, vali, seed)
    extended = np.hstack((features, units))
    without = _log_likelihoods(features, votes, n_annotators, held_out, seed)
    gain = _log_likelihoods(extended, votes, n_annotators, held_out, seed) - without
    return units if is_gain(gain, _BETTER, ddof=0) else nothing


def _log_likelihoods(
    features: F64, votes: Votes, n_annotators: int, held_out: Bool, seed: int
) -> F64:
    """Log-likelihood of each held-out vote under a fit to the votes that are not held out."""
    posterior = fit(features, votes.where(~held_out), n_annotators, seed=seed, draws=16).posterior
    comparisons = votes.where(held_out).comparisons()
    mean, variance = posterior.difference(comparisons.left, comparisons.right)
    z = mean / np.sqrt(1 + variance)
    target = comparisons.target
    log_p: F64 = target * log_ndtr(z) + (1 - target) * log_ndtr(-z)
    return log_p


def _hidden_units(features: F64, train: Votes, vali: Votes, seed: int) -> F64:
    """Train a net; return its (n, h) standardised hidden units, without constant units."""
    import torch

    from sortnet.comparators import DirectRanker
    from sortnet.config import Training
    from sortnet.learning.training import train_on_pairs

    items = Queries.from_arrays(features.astype(np.float32))
    net = DirectRanker(features.shape[1], hidden=_HIDDEN, seed=seed)
    training = Training(patience=_PATIENCE)
    train_on_pairs(net, items, _pairs(train), items, _pairs(vali), training, seed=seed)
    with torch.no_grad():
        net.eval()
        units = net.feature_part(torch.from_numpy(items.features)).numpy().astype(np.float64)
    spread = units.std(axis=0)
    alive = spread > 1e-6
    standard: F64 = (units[:, alive] - units[:, alive].mean(axis=0)) / spread[alive]
    return standard


def _pairs(votes: Votes) -> ComparedPairs:
    """Training pairs with the preferred item first; a tie gives two pairs, one each way."""
    votes = votes.comparisons()
    is_left_better = np.append(votes.target >= 0.5, votes.target > 0.5)
    left = np.tile(votes.left, 2)
    right = np.tile(votes.right, 2)
    better = np.where(is_left_better, left, right)
    worse = np.where(is_left_better, right, left)
    return ComparedPairs.of_keys(unique(packed(better, worse)))
