"""RankBoost and FRank: sums of stumps. A stump compares a single feature with a threshold.

`rankboost` follows Freund et al. 2003, An Efficient Boosting Algorithm for Combining Preferences.
`frank` minimises the fidelity loss of Tsai et al. 2007, FRank: A Ranking Method with Fidelity Loss,
with the same weight for every query. The stumps of `frank` and their weights are derived here from
the loss, see `by_fidelity` and `boosted`. The values of each feature are divided into bins once,
before the first round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sortnet.config import TRAINING, setting
from sortnet.core import F32, F64, I64, Progress, Queries
from sortnet.learning.pairs_to_ask import pairs_of_grades
from sortnet.rankers.base import Solved
from sortnet.rankers.trees import Forest, ForestSettings

_THRESHOLDS = 255  # largest number of thresholds of a feature, quantiles of its training values
_TINY = 1e-12  # a sum of weights that counts as 0
_SMOOTH = 1e-6  # added to both sums of weights, so that a stump that is never wrong stays finite
_LARGEST_EXPONENT = 500  # exp of a larger number may overflow
_STUMP_WITHOUT_EFFECT = (0, 0.0, 0.0, True)  # gives every document the value 0


@dataclass(frozen=True)
class StumpSettings(ForestSettings):
    """Settings of RankBoost and FRank."""

    kind: ClassVar[str] = "rankboost"
    algorithm: str = setting(
        "rankboost", "Loss that weights the pairs.", TRAINING, choices=("rankboost", "frank")
    )
    rounds: int = setting(300, "Largest number of weak rankers.", TRAINING, least=1)

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Boost stumps on the training queries; keep the number of stumps that ranks `vali` best.

        Returns:
            The forest of stumps with the best RankQuality on `vali`, and the number of its rounds.

        Cost: memory of about 100 bytes a pair of different grades at the peak; a round passes over
        all pairs of different grades, and over all features of all documents.
        """
        stumps = boosted(train, _WEIGH[self.algorithm], self.rounds, progress)
        forest, n_rounds = self.best_trees(Forest.of_stumps(stumps), vali)
        return forest, {"rounds": n_rounds}


# Function (margins of the m pairs, weights of the m pairs before the first round) -> weights of the
# m pairs in the next round.
Weigh = Callable[[F64, F64], F64]


def by_exponential(margin: F64, start: F64) -> F64:
    """Weigh each pair by exp(-margin) times its weight at the start, as RankBoost does.

    The weights are scaled to a sum of 1, and are RankBoost's distribution D of pairs.

    Args:
        margin: (m,) margins of the pairs.
        start: (m,) weights of the pairs before the first round.
    """
    weight = start * np.exp(margin.min() - margin)
    distribution: F64 = weight / weight.sum()
    return distribution


def by_fidelity(margin: F64, start: F64) -> F64:
    """Weigh each pair by the slope of its fidelity loss, as FRank does.

    P = 1 / (1 + exp(-margin)) is the probability of a pair's order. The fidelity loss of a pair
    whose order is known is 1 - sqrt(P), with the derivative -½ sqrt(P) (1 - P) by the margin. So
    the weight is sqrt(P) (1 - P) times the weight at the start, scaled to a sum of 1.

    Args:
        margin: (m,) margins of the pairs.
        start: (m,) weights of the pairs before the first round.
    """
    P = 1 / (1 + np.exp(-np.clip(margin, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)))
    weight = start * np.sqrt(P) * (1 - P)
    weights: F64 = weight / max(weight.sum(), _TINY)
    return weights


def boosted(
    train: Queries, weigh: Weigh, rounds: int, progress: Progress = lambda text: None
) -> list[tuple[int, float, float, bool]]:
    """Boost stumps on the pairs of documents of different grades.

    A stump h has the value 1 above a threshold of a feature, else 0. A round gives each pair of a
    better document i and a worse document j a weight W, and chooses the stump with the largest |r|,
    where r = Σ W (h_i - h_j). The score of a document is the sum Σ α h over the rounds. The weight
    α of a stump is half the logarithm of the ratio of the weights of the pairs that the stump
    orders rightly and wrongly.

    Args:
        train: graded queries.
        weigh: function that weighs the pairs.
        rounds: largest number of rounds.
        progress: called with a line of text in each round.

    Returns:
        The stumps (feature, threshold, α, True) for `Forest.of_stumps`, at least one.
    """
    pairs = pairs_of_grades(train)
    better = pairs.i
    worse = pairs.j
    is_rankboost = weigh is by_exponential
    if is_rankboost:
        weight_at_start = np.ones(len(pairs))
    else:  # FRank: the weights of the pairs of each query have a sum of 1
        query = train.query_of_docs()[better]
        weight_at_start = 1 / np.bincount(query)[query]
    codes, thresholds = _binned(train.features)
    score = np.zeros(train.n_docs)
    stumps = []
    for boosting_round in range(1, rounds + 1):
        progress(f"boosting, round {boosting_round}/{rounds}")
        weight = weigh(score[better] - score[worse], weight_at_start)
        # A document's potential is its weight in pairs as the better document, minus its weight as
        # the worse document. So r is the sum of the potentials of the documents with h = 1.
        potential: F64 = np.bincount(better, weight, train.n_docs).astype(np.float64)
        potential -= np.bincount(worse, weight, train.n_docs)
        feature, threshold, r = best_stump(codes, potential, len(thresholds))
        if abs(r) < _TINY:  # every stump orders as much weight rightly as wrongly
            break
        h = (codes[:, feature] > threshold).astype(np.float64)
        if is_rankboost:  # half of the weights of undecided pairs is added to both sums
            weight_right = (1 + r) / 2
            weight_wrong = (1 - r) / 2
        else:
            difference = h[better] - h[worse]
            weight_right = float(weight @ (difference > 0))
            weight_wrong = float(weight @ (difference < 0))
        alpha = float(0.5 * np.log((weight_right + _SMOOTH) / (weight_wrong + _SMOOTH)))
        score += alpha * h
        stumps.append((feature, float(thresholds[threshold, feature]), alpha, True))
    return stumps or [_STUMP_WITHOUT_EFFECT]


def best_stump(codes: I64, potential: F64, n_thresholds: int) -> tuple[int, int, float]:
    """Find the feature and the threshold with the largest |r|.

    r is the sum of the potentials of the documents with values above the threshold.

    Args:
        codes: (n_docs, d) number of the bin of each value; a value with code c is above the
            thresholds 0 to c - 1 of its feature.
        potential: (n_docs,) summand of each document in r.
        n_thresholds: number of thresholds of a feature.

    Returns:
        The number of the feature, the number of the threshold, and r.

    Cost: linear in the number of values: a sum for each bin, then cumulative sums of the bins.
    """
    d = codes.shape[1]
    n_bins = n_thresholds + 1
    bin_of_value = (codes + n_bins * np.arange(d)).ravel()  # bins are numbered feature by feature
    potential_of_value = np.repeat(potential, d)
    sums = np.bincount(bin_of_value, potential_of_value, n_bins * d).reshape(d, n_bins)
    # Cumulative sums from the last bin down give, at each bin, the sum of this and all higher bins.
    sums_from_bin = np.flip(np.flip(sums, axis=1).cumsum(axis=1), axis=1)
    above = sums_from_bin[:, 1:]  # (d, n_thresholds) r of each threshold
    number = int(np.argmax(np.abs(above)))
    feature, threshold = divmod(number, n_thresholds)
    return feature, threshold, float(above[feature, threshold])


def _binned(X: F32) -> tuple[I64, F64]:
    """Divide the values of each feature into bins at thresholds, quantiles of the values.

    Args:
        X: (n_docs, d) features; NaN is a missing value.

    Returns:
        Codes (n_docs, d): the number of thresholds below each value, 0 for a missing value; and
        thresholds (n_thresholds, d), where infinity stands for a threshold that is not needed.
    """
    n_thresholds = min(_THRESHOLDS, len(X) + 1)  # at most one for each value, and one below all
    thresholds = np.full((n_thresholds, X.shape[1]), np.inf)
    codes = np.zeros(X.shape, np.int64)
    for feature in range(X.shape[1]):
        column = X[:, feature]
        is_missing = np.isnan(column)
        x = column[~is_missing]
        if not len(x):
            continue
        shares_below = np.linspace(0, 1, n_thresholds)[:-1]  # without 1, since no value is larger
        quantiles = np.quantile(x, shares_below, method="lower")
        # A threshold below all values separates documents with a value from documents without.
        below_all = np.nextafter(x.min(), np.float32(-np.inf))
        cuts = np.unique(np.append(quantiles, below_all))
        thresholds[: len(cuts), feature] = cuts
        codes[:, feature] = np.where(is_missing, 0, np.searchsorted(cuts, column))
    return codes, thresholds


_WEIGH: dict[str, Weigh] = {"rankboost": by_exponential, "frank": by_fidelity}
