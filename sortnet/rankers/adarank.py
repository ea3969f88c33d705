"""AdaRank (Xu and Li 2007): a weighted sum of features, boosted to maximise MAP or NDCG.

A weak ranker sorts by a single feature. Its measure on each query is computed once, before the
first round (Köppel et al. 2025, RankNet revisited, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sortnet.config import TRAINING, setting
from sortnet.core import F64, Progress, Queries
from sortnet.metrics import Metric, check_can_choose, per_query
from sortnet.rankers.base import order_by
from sortnet.rankers.linear import LinearSettings

_TINY = 1e-12  # lower limit of a divisor
_TOLERANCE = 0.002  # boosting ends when the mean measure falls by this much in a round
_IN_VAIN = 5  # a weak ranker is left out after this many rounds in a row that change no measure


@dataclass(frozen=True)
class _Ensemble:
    """A weighted sum f(x) = Σ w_k h_k(x) of weak rankers h_k, and the weights of the queries."""

    w: F64  # (2 d,) weights of the d feature columns, then weights of their negatives
    query_weights: F64  # (m,) weights of the m queries that have a measure, with a sum of 1
    mean_measure: float  # mean measure of the ranking by f, over the queries

    def feature_weights(self) -> F64:
        """Combine the weights of each feature and of its negative to a single weight, (d,)."""
        weights, weights_of_negatives = np.split(self.w, 2)
        return weights - weights_of_negatives

    def exceeds(self, next_ensemble: _Ensemble) -> bool:
        """Check whether the next ensemble's mean measure is lower by 0.002 or more."""
        return next_ensemble.mean_measure + _TOLERANCE <= self.mean_measure


@dataclass(frozen=True, eq=False)
class _WeakRankers:
    """The weak rankers; each sorts by a feature or by the negative of a feature."""

    part: Queries  # the training queries
    metric: Metric
    columns: F64  # (n_docs, 2 d) the d feature columns, then their negatives
    measures: F64  # (2 d, m) the measure of each weak ranker on each query that has a measure

    @classmethod
    def of(cls, part: Queries, metric: Metric) -> _WeakRankers:
        """Make the weak rankers of the training queries, and measure each on every query."""
        columns = np.hstack((part.features, -part.features)).astype(np.float64)
        measures = np.array([_measures(part, scores, metric) for scores in columns.T])
        has_measure = ~np.isnan(measures[0])  # the same queries for every ranking
        return cls(part, metric, columns, measures[:, has_measure])

    def best(self, ensemble: _Ensemble, barred: Collection[int]) -> tuple[int, float] | None:
        """Find the weak ranker with the largest mean measure, weighted by `query_weights`.

        Args:
            ensemble: the sum so far, with the weights of the queries.
            barred: numbers of the weak rankers that must not be chosen.

        Returns:
            The number of the weak ranker and its mean measure; None if all are barred.
        """
        means = self.measures @ ensemble.query_weights
        means[list(barred)] = -np.inf
        k = int(np.argmax(means))
        if means[k] == -np.inf:
            return None
        return k, float(means[k])

    def add(self, ensemble: _Ensemble, k: int, mean: float) -> _Ensemble:
        """Add a weak ranker to the sum with the weight α = ½ ln((1 + mean) / (1 - mean)).

        The weight of each query is multiplied by exp(-α E), where E is the measure of the new sum
        on the query. Then the weights are scaled to a sum of 1.

        Args:
            ensemble: the sum so far, which is not changed.
            k: number of the weak ranker.
            mean: its mean measure, as `best` returns it.
        """
        alpha = 0.5 * np.log((1 + mean) / max(1 - mean, _TINY))
        w = ensemble.w.copy()
        w[k] += alpha
        measures = _measures(self.part, self.columns @ w, self.metric)
        measures = measures[~np.isnan(measures)]  # only of the m queries that have a measure
        query_weights = ensemble.query_weights * np.exp(-alpha * measures)
        return _Ensemble(w, query_weights / query_weights.sum(), float(measures.mean()))


def adarank(part: Queries, metric: Metric, rounds: int) -> Iterator[F64]:
    """Yield the feature weights w (d,) after each round of AdaRank.

    Only the m queries that have a measure count. E(h) is the measure of a ranker h on each of these
    queries, and P are the weights of the queries, 1 / m at first. A round adds the weak ranker h
    with the largest Σ P E(h) to the sum f, with the weight
    α = ½ ln(Σ P (1 + E(h)) / Σ P (1 - E(h))). Then P becomes P exp(-α E(f)), scaled to a sum of 1.

    These rounds alone would choose the best one or two weak rankers for ever. As in RankLib, a weak
    ranker that is chosen twice in a row is therefore put aside, and its round is undone. The rounds
    end when the mean of E(f) falls by 0.002; the last round is undone. Then the weak rankers that
    were put aside return, one after another and the last first, and after each return further
    rounds follow. In these rounds a weak ranker may be chosen many times in a row, but after five
    rounds in a row that change nothing it is left out for a round.

    Args:
        part: the training queries.
        metric: the measure E.
        rounds: largest number of rounds.
    """
    weak = _WeakRankers.of(part, metric)
    n_weak_rankers, n_queries = weak.measures.shape
    query_weights = np.full(n_queries, 1 / n_queries)
    ensemble = _Ensemble(np.zeros(n_weak_rankers), query_weights, -np.inf)
    rounds_left = iter(range(rounds))
    put_aside = list[int]()
    ensemble = yield from _boost(weak, ensemble, put_aside, rounds_left, may_repeat=False)
    while put_aside:
        put_aside.pop()
        ensemble = yield from _boost(weak, ensemble, put_aside, rounds_left, may_repeat=True)


def _boost(
    weak: _WeakRankers,
    ensemble: _Ensemble,
    put_aside: list[int],
    rounds_left: Iterator[int],
    *,
    may_repeat: bool,
) -> Generator[F64, None, _Ensemble]:
    """Run rounds of boosting; yield the feature weights after each round.

    Args:
        weak: the weak rankers.
        ensemble: the sum to begin with.
        put_aside: numbers of the weak rankers that are not used.
        rounds_left: an item for each round that may still be run.
        may_repeat: whether a weak ranker may be added many times in a row. If so, a weak ranker
            that was repeated five times in a row, while the mean measure did not change, may not be
            chosen in the next round. If not, a weak ranker that is chosen twice in a row extends
            `put_aside`, and its round is undone.

    Returns:
        The ensemble before the mean measure fell, or after the last round.
    """
    previous_ensemble = ensemble
    previous_k = None
    n_in_vain = 0  # number of the last rounds that repeated a weak ranker without effect
    barred = put_aside  # numbers of the weak rankers that a round may not choose
    for _ in rounds_left:
        choice = weak.best(ensemble, barred)
        if choice is None:
            break
        k, mean = choice
        is_repeat = k == previous_k
        if is_repeat and not may_repeat:
            put_aside.append(k)
            ensemble = previous_ensemble
            continue
        next_ensemble = weak.add(ensemble, k, mean)
        yield next_ensemble.feature_weights()
        if ensemble.exceeds(next_ensemble):
            break
        is_in_vain = is_repeat and next_ensemble.mean_measure == ensemble.mean_measure
        n_in_vain = n_in_vain + 1 if is_in_vain else 0
        barred = put_aside
        if n_in_vain == _IN_VAIN:
            barred = [*put_aside, k]
            n_in_vain = 0
        previous_ensemble = ensemble
        previous_k = k
        ensemble = next_ensemble
    return ensemble


def _measures(part: Queries, scores: F64, metric: Metric) -> F64:
    """Rank each query by scores, and measure the ranking; NaN if the measure is undefined.

    Args:
        part: graded queries.
        scores: (n_docs,) scores of the documents.
        metric: the measure.

    Returns:
        (n_queries,) values of the measure.
    """
    ranked_grades = part.grades[order_by(part, scores)]
    return per_query(metric, ranked_grades, part.offsets)


@dataclass(frozen=True)
class AdaRankSettings(LinearSettings):
    """Settings of AdaRank."""

    kind: ClassVar[str] = "adarank-ndcg"
    measure: str = setting("ndcg@10", "Measure that weights the queries, such as map.", TRAINING)
    rounds: int = setting(300, "Largest number of weak rankers.", TRAINING, least=1)

    def solve(
        self, train: Queries, vali: Queries, progress: Progress
    ) -> tuple[F64, dict[str, Any]]:
        """Run AdaRank on the training queries; keep the round that ranks `vali` best.

        Returns:
            The weights (d,) of the round with the best RankQuality on the validation queries, and
            the number of this round.

        Raises:
            DataError: if the measure gives every ranking of `train` the same score.

        Cost: two rankings of `train` for each column, then a ranking of `train` for each round.
        """
        metric = self.metric(self.measure)
        check_can_choose(metric, train)
        progress("measuring the weak rankers")
        best_quality = -np.inf
        best_w = np.zeros(train.n_features)
        best_round = 0
        for boosting_round, w in enumerate(adarank(train, metric, self.rounds), start=1):
            progress(f"boosting, round {boosting_round}/{self.rounds}")
            quality = self.quality_of(vali, order_by(vali, vali.features @ w))
            if quality > best_quality:
                best_quality = quality
                best_w = w
                best_round = boosting_round
        return best_w, {"rounds": best_round}
