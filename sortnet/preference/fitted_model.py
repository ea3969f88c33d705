"""The fitted model of a session: learned features, hyperparameters, and two fits of the scores.

One fit chooses the questions and does not use the hold-out; the other fit ranks the items.
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

ENOUGH = 200  # with fewer votes no net is trained
_MOST_VOTES = 20_000  # votes that a comparison of two fits uses, at most
_HIDDEN = (16, 8)  # units in the hidden layers of the net
_SHARE_HELD_OUT = 0.25  # share of the votes held out for early stopping and evaluation
_STANDARD_ERRORS = 1.0  # standard errors by which a prediction must improve
# Training stops this number of epochs after the best epoch. Without early stopping the same epoch
# was best, and training took four times as long.
_PATIENCE = 10
_LEAST_SPREAD = 1e-6  # standard deviation below which a hidden unit is constant
_DRAWS_TO_COMPARE = 16  # draws of a fit that is only compared with another fit
_FIRST_MILESTONE = 8  # events


@dataclass(frozen=True, eq=False)
class Basis:
    """Learned features and hyperparameters, on which fits are based until the next choice.

    Attributes:
        milestone: the number of events on which the net was trained.
        scaled: the number of events from which the scales were chosen.
        features: (n, d + h) d given features of the n items, and h features learned by the net.
        scales: the hyperparameters of the fits.
    """

    milestone: int
    scaled: int
    features: F64
    scales: Scales


@dataclass(frozen=True, eq=False)
class Fits:
    """Two fits of the scores with the same features and scales.

    Attributes:
        basis: the features and scales of both fits.
        choosing: the fit without the hold-out, which chooses the questions.
        all: the fit to all answers, which ranks the items.
    """

    basis: Basis
    choosing: Fitted
    all: Fitted


def milestone(events: int) -> int:
    """Return the number of events after which features and hyperparameters were last chosen.

    They are chosen at milestones: the first is at 8 events, and each next at a quarter more events.
    The result depends on the number of events only, so that a replay of the events chooses the same
    features and hyperparameters.

    >>> [milestone(events) for events in (7, 8, 9, 10, 100)]
    [0, 8, 8, 10, 97]
    """
    last = 0
    next_milestone = _FIRST_MILESTONE
    while next_milestone <= events:
        last = next_milestone
        next_milestone += next_milestone // 4
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
    """Choose the basis of the fits: learned features, and hyperparameters.

    Args:
        features: (n, d) the given features of the items.
        votes: the votes up to the milestone.
        at: the milestone, a number of events.
        net: an earlier basis, from which the features are taken. If None, a new net is trained.
        seed: the seed of the training and of the draws.
        keep: the folder in which features and scales are cached, see `cached`. If None, nothing is
            cached.
    """
    n_annotators = int(votes.annotator.max(initial=-1)) + 1
    if net is None:
        units = _cached_units(features, votes, n_annotators, seed=seed, keep=keep)
        extended = np.hstack((features, units))
        trained_at = at
    else:
        extended = net.features
        trained_at = net.milestone
    scales = cached_scales(extended, votes, n_annotators, seed=seed, keep=keep)
    return Basis(milestone=trained_at, scaled=at, features=extended, scales=scales)


def _cached_units(
    features: F64, votes: Votes, n_annotators: int, *, seed: int, keep: Path | None
) -> F64:
    """Learn features with `learned_features`, or read them from the cache in the folder `keep`."""
    inputs = ["units", features, *vars(votes).values(), seed]
    arrays = cached(
        keep,
        inputs,
        make=lambda: {"units": learned_features(features, votes, n_annotators, seed=seed)},
    )
    return arrays["units"]


def cached_scales(
    features: F64, votes: Votes, n_annotators: int, *, seed: int = 0, keep: Path | None = None
) -> Scales:
    """Choose the hyperparameters from the votes, or read them from the cache.

    Args:
        features: (n, d) the features of the items.
        votes: the votes.
        n_annotators: the number of annotators.
        seed: the seed of the draws.
        keep: the folder of the cache, see `cached`. If None, nothing is cached.
    """
    inputs = ["scales", features, *vars(votes).values(), n_annotators, seed]
    arrays = cached(
        keep,
        inputs,
        make=lambda: choose_scales(features, votes, n_annotators, seed=seed).arrays(),
    )
    return Scales.from_arrays(arrays)


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
        basis: the features and scales of both fits.
        usable: the votes without the hold-out.
        everything: all votes.
        n_annotators: the number of annotators.
        start: the unknowns from which the search for the mode starts. If None, they are 0.
        seed: the seed of the draws.
        keep: the folder in which the fits are cached, see `cached`. If None, nothing is cached.
    """
    scales = basis.scales
    features = basis.features

    def compute_fits() -> Arrays:
        """Compute both fits; return the arrays, with "choosing." or "all." before each name."""
        choosing = fit(features, usable, n_annotators, scales=scales, start=start, seed=seed)
        ranking = _fit_ranking(features, everything, n_annotators, choosing, scales, seed)
        return {
            **_add_prefix("choosing.", choosing.arrays()),
            **_add_prefix("all.", ranking.arrays()),
        }

    votes = [*vars(usable).values(), *vars(everything).values()]
    inputs = ["fits", features, *scales.arrays().values(), *votes, n_annotators, start, seed]
    arrays = cached(keep, inputs, compute_fits)
    n = len(features)
    choosing = Fitted.from_arrays(_select_prefix("choosing.", arrays), n, scales)
    ranking = Fitted.from_arrays(_select_prefix("all.", arrays), n, scales)
    return Fits(basis, choosing, ranking)


def _fit_ranking(
    features: F64, everything: Votes, n_annotators: int, choosing: Fitted, scales: Scales, seed: int
) -> Fitted:
    """Fit the scores to all votes, starting at the mode of the fit without the hold-out.

    Args:
        features: (n, d) the features of the items.
        everything: all votes.
        n_annotators: the number of annotators.
        choosing: the fit without the hold-out.
        scales: the hyperparameters.
        seed: the seed of the draws.
    """
    if not len(everything) and choosing.posterior.covariance is None:
        # Both fits are the prior. They can share their draws, which take 400 MB for a million
        # items, because a fit without a covariance is never changed in place.
        return choosing
    return fit(features, everything, n_annotators, scales=scales, start=choosing.theta, seed=seed)


def _add_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return arrays by name, with the prefix before each name."""
    return {prefix + name: array for name, array in arrays.items()}


def _select_prefix(prefix: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names start with the prefix, by their names without the prefix."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def predicted_better_without(number: int, basis: Basis, votes: Votes, *, seed: int = 0) -> bool:
    """Tell whether the answers of all other annotators are predicted better without an annotator.

    Each answer of the other annotators is predicted twice, from all answers but itself: with and
    without the answers of the left-out annotator. Without them, the mean log-likelihood must be
    higher by more than a standard error. All annotators count as equally reliable, as in an export
    of the answers: a fit with estimated reliabilities hardly ever improves if an annotator is left
    out.

    Args:
        number: the number of the annotator who is left out.
        basis: the features and scales of the fits.
        votes: all votes.
        seed: the seed of the sample of votes and of the draws.

    Cost: two fits to at most 20,000 votes.
    """
    votes = _sample_votes(votes.comparisons(), seed)
    is_own = votes.annotator == number
    if is_own.all() or not is_own.any():
        return False
    all_votes = replace(votes, annotator=np.zeros(len(votes), np.int64), weight=None)
    votes_of_others = all_votes.where(~is_own)
    scales = replace(basis.scales, annotators=Annotators.average(1))

    def log_likelihoods(fitted_votes: Votes) -> F64:
        """Fit the scores to the given votes, and predict all votes but the left-out annotator's.

        Returns:
            The log-likelihood of each predicted vote. If the scores are fitted to a vote, its
            effect on its own prediction is taken back.
        """
        fitted = fit(
            basis.features,
            fitted_votes,
            n_annotators=1,
            scales=scales,
            seed=seed,
            draws=_DRAWS_TO_COMPARE,
        )
        p = fitted.posterior.predicted(votes_of_others, left_out=True)
        target = votes_of_others.target
        log_p: F64 = xlogy(target, p) + xlogy(1 - target, 1 - p)
        return log_p

    gain = log_likelihoods(votes_of_others) - log_likelihoods(all_votes)
    return is_gain(gain, _STANDARD_ERRORS, ddof=0)


def _sample_votes(votes: Votes, seed: int) -> Votes:
    """Draw about 20,000 random votes if there are more, else return all votes."""
    if len(votes) <= _MOST_VOTES:
        return votes
    return votes.where(votes.drawn(_MOST_VOTES / len(votes), np.random.default_rng(seed)))


def learned_features(features: F64, votes: Votes, n_annotators: int, *, seed: int = 0) -> F64:
    """Learn features of the items with a net: the hidden units of a DirectRanker.

    The DirectRanker r(x, y) = τ(w · (f(x) - f(y))), with an odd function τ, is trained on one pair
    for each vote; a tie gives two pairs, one in each direction. A quarter of the votes is held out,
    for early stopping and to decide whether to keep the hidden units f(x): the units must improve
    the likelihood of the held-out votes.

    The held-out votes are all votes about some of the items. So a net does not improve the
    likelihood by memorising items, which would be useless because the residuals do it already.

    Returns:
        (n, h) h standardised hidden units for each of the n items; h is 0 if there are few votes,
        or if the units do not improve the likelihood.

    Cost: none below 200 votes; else a training and two fits to at most 20,000 votes, about five
    seconds.
    """
    no_units = np.empty((len(features), 0))
    if votes.n_answers < ENOUGH or not features.shape[1]:
        return no_units
    votes = _sample_votes(votes, seed)
    held_out = _draw_held_out_votes(votes, len(features), seed)
    training_votes = votes.where(~held_out)
    validation_votes = votes.where(held_out)
    if not len(training_votes) or not len(validation_votes):
        return no_units
    units = _train_hidden_units(features, training_votes, validation_votes, seed)
    extended = np.hstack((features, units))
    log_p_without_units = _log_likelihoods(features, votes, n_annotators, held_out, seed)
    log_p_with_units = _log_likelihoods(extended, votes, n_annotators, held_out, seed)
    gain = log_p_with_units - log_p_without_units
    return units if is_gain(gain, _STANDARD_ERRORS, ddof=0) else no_units


def _draw_held_out_votes(votes: Votes, n_items: int, seed: int) -> Bool:
    """Draw random items; return a mask of their votes, about a quarter of all votes.

    A vote is held out if either of its items is drawn. If the share s of the items is drawn, this
    is the share 1 - (1 - s)² of the votes.
    """
    share_of_items = 1 - np.sqrt(1 - _SHARE_HELD_OUT)
    n_drawn = max(1, round(n_items * share_of_items))
    drawn_items = np.random.default_rng(seed).permutation(n_items)[:n_drawn]
    is_drawn = np.zeros(n_items, np.bool_)
    is_drawn[drawn_items] = True
    return is_drawn[votes.left] | is_drawn[votes.right]


def _log_likelihoods(
    features: F64, votes: Votes, n_annotators: int, held_out: Bool, seed: int
) -> F64:
    """Compute the log-likelihood of each held-out vote under a fit to the other votes.

    Args:
        features: (n, d) the features of the items.
        votes: all votes.
        n_annotators: the number of annotators.
        held_out: a mask of the votes that are held out.
        seed: the seed of the draws.
    """
    fitted = fit(features, votes.where(~held_out), n_annotators, seed=seed, draws=_DRAWS_TO_COMPARE)
    comparisons = votes.where(held_out).comparisons()
    mean, variance = fitted.posterior.difference(comparisons.left, comparisons.right)
    z = mean / np.sqrt(1 + variance)
    target = comparisons.target
    log_p: F64 = target * log_ndtr(z) + (1 - target) * log_ndtr(-z)
    return log_p


def _train_hidden_units(
    features: F64, training_votes: Votes, validation_votes: Votes, seed: int
) -> F64:
    """Train a DirectRanker; return the hidden units of each item, standardised, (n, h).

    Constant units are left out.
    """
    import torch

    from sortnet.comparators import DirectRanker
    from sortnet.config import Training
    from sortnet.learning.training import train_on_pairs

    items = Queries.from_arrays(features.astype(np.float32))
    net = DirectRanker(features.shape[1], hidden=_HIDDEN, seed=seed)
    training = Training(patience=_PATIENCE)
    training_pairs = _compared_pairs(training_votes)
    validation_pairs = _compared_pairs(validation_votes)
    train_on_pairs(net, items, training_pairs, items, validation_pairs, training, seed=seed)
    with torch.no_grad():
        net.eval()
        units = net.feature_part(torch.from_numpy(items.features)).numpy().astype(np.float64)
    spread = units.std(axis=0)
    varies = spread > _LEAST_SPREAD
    varying_units = units[:, varies]
    standardised: F64 = (varying_units - varying_units.mean(axis=0)) / spread[varies]
    return standardised


def _compared_pairs(votes: Votes) -> ComparedPairs:
    """List the distinct pairs (better, worse) of the votes; a tie counts in both directions."""
    comparisons = votes.comparisons()
    left_wins = comparisons.where(comparisons.target >= 0.5)
    right_wins = comparisons.where(comparisons.target <= 0.5)
    better = np.append(left_wins.left, right_wins.right)
    worse = np.append(left_wins.right, right_wins.left)
    return ComparedPairs.of_keys(unique(packed(better, worse)))
