"""RankBoost and FRank: sums of stumps. A stump compares a single feature with a threshold.

`rankboost` follows Freund et al. 2003, An Efficient Boosting Algorithm for Combining Preferences.
`frank` minimises the fidelity loss of Tsai et al. 2007, FRank: A Ranking Method with Fidelity Loss,
with the same weight for every query; the choice of a stump and its weight are derived here from
the loss, see `by_fidelity` and `boosted`. The bins of all values are computed once, before the
first round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sortnet.config import TRAINING, setting
from sortnet.core import F32, F64, I64, Progress, Queries
from sortnet.learning.pairs_to_ask import pairs_of_grades
from sortnet.rankers.forest import Forest, ForestSettings

_THRESHOLDS = 255  # at most, for each feature: quantiles of its training values
_TINY = 1e-12
_SMOOTH = 1e-6  # added to both sums of weights, so that a stump that is never wrong stays finite


@dataclass(frozen=True)
class StumpSettings(ForestSettings):
    """Settings of RankBoost and FRank."""

    kind: ClassVar[str] = "rankboost"
    algorithm: str = setting(
        "rankboost", "Loss that weights the pairs.", TRAINING, choices=("rankboost", "frank")
    )
    rounds: int = setting(300, "Largest number of weak rankers.", TRAINING, least=1)

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[Forest, dict[str, Any]]:
        """Boost stumps on `T`; keep the number of stumps with the best RankQuality on `V`.

        Cost: memory of about 100 bytes a pair of different grades at the peak; a round passes over
        all pairs of different grades, and over all features of all documents.
        """
        stumps = boosted(T, _WEIGH[self.algorithm], self.rounds, progress)
        forest, n_rounds = self.best_trees(Forest.stumps(stumps), V)
        return forest, {"rounds": n_rounds}


# The arguments are the margins of the pairs, (m,), and their weights at the start, (m,). The result
# is the weights of the pairs in the next round, (m,).
Weigh = Callable[[F64, F64], F64]


def by_exponential(margin: F64, start: F64) -> F64:
    """Weigh the pairs by start exp(-margin), scaled to a sum of 1: RankBoost's distribution D.

    Cost: linear in the pairs.
    """
    weight = start * np.exp(margin.min() - margin)
    distribution: F64 = weight / weight.sum()
    return distribution


def by_fidelity(margin: F64, start: F64) -> F64:
    """Weigh the pairs by start e^(margin/2) / (1 + e^margin)^(3/2), scaled to a sum of 1.

    The fidelity loss of a pair with a known order is 1 - sqrt(P), P = 1 / (1 + exp(-margin)); its
    derivative is -½ sqrt(P) (1 - P). A weight is twice its size, times `start`.

    Cost: linear in the pairs.
    """
    P = 1 / (1 + np.exp(-np.clip(margin, -500, 500)))
    weight = start * np.sqrt(P) * (1 - P)
    weights: F64 = weight / max(weight.sum(), _TINY)
    return weights


def boosted(
    train: Queries, weigh: Weigh, rounds: int, progress: Progress = lambda text: None
) -> list[tuple[int, float, float, bool]]:
    """Boost stumps h, which are 1 above a threshold of a feature, else 0.

    Returns a list of (feature, threshold, weight, True) for `Forest.stumps`. A round weighs the
    pairs i over j by W and chooses the stump with the largest |r|, r = Σ W (h_i - h_j). The stump's
    weight is α = ½ ln(W+ / W-), where W+ and W- are the sums of W over the pairs that the stump
    orders rightly and wrongly. RankBoost adds half of the undecided pairs to both sums, so that
    W± = (1 ± r) / 2.
    """
    pairs = pairs_of_grades(train)
    winner = pairs.i
    loser = pairs.j
    query = train.query_of_docs()[winner]
    start = 1 / np.bincount(query)[query] if weigh is by_fidelity else np.ones(len(pairs))
    codes, thresholds = _binned(train.features)
    score = np.zeros(train.n_docs)
    stumps = []
    for k in range(rounds):
        progress(f"boosting, round {k + 1}/{rounds}")
        W = weigh(score[winner] - score[loser], start)
        potential: F64 = np.bincount(winner, W, train.n_docs).astype(np.float64)
        potential -= np.bincount(loser, W, train.n_docs)
        feature, bin_, r = best_stump(codes, potential, len(thresholds))
        if abs(r) < _TINY:
            break
        h = (codes[:, feature] > bin_).astype(np.float64)
        if weigh is by_exponential:
            W_right = (1 + r) / 2
            W_wrong = (1 - r) / 2
        else:
            difference = h[winner] - h[loser]
            W_right = float(W @ (difference > 0))
            W_wrong = float(W @ (difference < 0))
        alpha = 0.5 * np.log((W_right + _SMOOTH) / (W_wrong + _SMOOTH))
        score += alpha * h
        stumps.append((feature, float(thresholds[bin_, feature]), float(alpha), True))
    return stumps or [(0, 0.0, 0.0, True)]


def best_stump(codes: I64, potential: F64, n_bins: int) -> tuple[int, int, float]:
    """Find the feature and the threshold b with the largest |r|, r = Σ potential above b.

    Returns the number of the feature, the number b of the threshold, and r.

    Args:
        codes: (n_docs, d) the bin of each value, from 0.
        potential: (n_docs,) summand of each document in r, where its value is above b.
        n_bins: number of thresholds of a feature; a code of b + 1 or more is above threshold b.

    Cost: linear in the values: a sum for each bin, then sums from above.
    """
    d = codes.shape[1]
    flat = (codes + (n_bins + 1) * np.arange(d)).ravel()
    sums = np.bincount(flat, np.repeat(potential, d), (n_bins + 1) * d).reshape(d, -1)
    sums_from_above = np.flip(np.flip(sums, axis=1).cumsum(axis=1), axis=1)
    above = sums_from_above[:, 1:]  # column b sums the codes of b + 1 or more
    number = int(np.argmax(np.abs(above)))
    feature, bin_ = divmod(number, n_bins)
    return feature, bin_, float(above.ravel()[number])


def _binned(X: F32) -> tuple[I64, F64]:
    """Divide the values of each feature into bins: codes (n_docs, d), thresholds (b, d).

    The code of a value is the number of thresholds below the value, 0 for a missing value.
    """
    b = min(_THRESHOLDS, len(X) + 1)
    thresholds = np.full((b, X.shape[1]), np.inf)
    codes = np.zeros(X.shape, np.int64)
    for k in range(X.shape[1]):
        x = X[:, k][~np.isnan(X[:, k])]
        if len(x):
            cuts = np.quantile(x, np.linspace(0, 1, b)[:-1], method="lower")
            # A threshold below all values separates documents with a value from documents without.
            cuts = np.unique(np.append(cuts, np.nextafter(x.min(), np.float32(-np.inf))))
            thresholds[: len(cuts), k] = cuts
            codes[:, k] = np.where(np.isnan(X[:, k]), 0, np.searchsorted(cuts, X[:, k]))
    return codes, thresholds


_WEIGH: dict[str, Weigh] = {"rankboost": by_exponential, "frank": by_fidelity}
