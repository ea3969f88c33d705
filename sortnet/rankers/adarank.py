"""AdaRank (Xu and Li 2007): a weighted sum of features, boosted to maximise MAP or NDCG.

A weak ranker sorts by a single feature. Its measure on each query is computed once, before the
first round (Köppel et al. 2025, RankNet revisited, algorithm 1).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
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
class _Sum:
    """A weighted sum f(x) = Σ w_k h_k(x) of weak rankers h_k, and the weights of the queries."""

    w: F64  # (2 d,) weights of the d feature columns, then weights of their negatives
    query_weights: F64  # (m,) weights of the m queries that have a measure, with a sum of 1
    mean_measure: float  # mean measure of the ranking by f, over the queries


class _WeakRankers:
    """The weak rankers of training queries; each sorts by a feature or by a feature's negative.

    Attributes:
        measures: (2 d, m) the measure of each weak ranker on each query that has a measure.
    """

    def __init__(self, part: Queries, metric: Metric) -> None:
        """Measure each weak ranker on every query."""
        self._part = part
        self._metric = metric
        self._columns = np.hstack((part.features, -part.features)).astype(np.float64)
        self.measures = np.array([self._measure(scores) for scores in self._columns.T])

    def add(self, total: _Sum, k: int, mean: float) -> _Sum:
        """Add weak ranker k to a sum with the weight α = ½ ln((1 + mean) / (1 - mean)).

        `mean` is the mean measure of the weak ranker by the weights of the queries. The weight of
        each query is multiplied by exp(-α E), where E is the measure of the new sum on the query.
        Then the weights are scaled to a sum of 1.
        """
        alpha = 0.5 * np.log((1 + mean) / max(1 - mean, _TINY))
        w = total.w.copy()
        w[k] += alpha
        measures = self._measure(self._columns @ w)
        query_weights = total.query_weights * np.exp(-alpha * measures)
        return _Sum(w, query_weights / query_weights.sum(), float(measures.mean()))

    def _measure(self, scores: F64) -> F64:
        """Rank each query by scores; return the measures, (m,), of the queries that have one."""
        ranked_grades = self._part.grades[order_by(self._part, scores)]
        measures = per_query(self._metric, ranked_grades, self._part.offsets)
        return measures[~np.isnan(measures)]  # the same queries for every ranking


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
    weak = _WeakRankers(part, metric)
    n_weak_rankers, n_queries = weak.measures.shape
    total = _Sum(np.zeros(n_weak_rankers), np.full(n_queries, 1 / n_queries), -np.inf)
    rounds_left = iter(range(rounds))
    put_aside = list[int]()
    total = yield from _boost(weak, total, put_aside, rounds_left, may_repeat=False)
    while put_aside:
        put_aside.pop()
        total = yield from _boost(weak, total, put_aside, rounds_left, may_repeat=True)


def _boost(
    weak: _WeakRankers,
    total: _Sum,
    put_aside: list[int],
    rounds_left: Iterator[int],
    *,
    may_repeat: bool,
) -> Generator[F64, None, _Sum]:
    """Run rounds of boosting; yield the feature weights after each round.

    Args:
        weak: the weak rankers.
        total: the sum to begin with.
        put_aside: numbers of the weak rankers that are not used.
        rounds_left: an item for each round that may still be run.
        may_repeat: whether a weak ranker may be added many times in a row. If so, a weak ranker
            that was repeated five times in a row, while the mean measure did not change, may not be
            chosen in the next round. If not, a weak ranker that is chosen twice in a row extends
            `put_aside`, and its round is undone.

    Returns:
        The sum before the mean measure fell, or after the last round.
    """
    previous_total = total
    previous_k = None
    n_in_vain = 0  # number of the last rounds that repeated a weak ranker without effect
    barred = put_aside  # numbers of the weak rankers that a round may not choose
    for _ in rounds_left:
        if len(set(barred)) == len(weak.measures):
            break
        means = weak.measures @ total.query_weights
        means[barred] = -np.inf
        k = int(np.argmax(means))
        is_repeat = k == previous_k
        if is_repeat and not may_repeat:
            put_aside.append(k)
            total = previous_total
            continue
        next_total = weak.add(total, k, means[k])
        weights, weights_of_negatives = np.split(next_total.w, 2)
        yield weights - weights_of_negatives
        if next_total.mean_measure + _TOLERANCE <= total.mean_measure:
            break
        is_in_vain = is_repeat and next_total.mean_measure == total.mean_measure
        n_in_vain = n_in_vain + 1 if is_in_vain else 0
        barred = put_aside
        if n_in_vain == _IN_VAIN:
            barred = [*put_aside, k]
            n_in_vain = 0
        previous_total = total
        previous_k = k
        total = next_total
    return total


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
