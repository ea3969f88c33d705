"""AdaRank (Xu and Li 2007): a weighted sum of features, boosted to maximise MAP or NDCG.

The measures of the weak rankers are computed once, before the first round (Köppel et al. 2025,
RankNet revisited, algorithm 1).
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

_TINY = 1e-12
_TOLERANCE = 0.002  # boosting ends when the mean measure falls by this much in a round
_IN_VAIN = 5  # a weak ranker is left out after this many rounds in a row that change no measure


@dataclass(frozen=True)
class _Ensemble:
    """A weighted sum f(x) = Σ w_k h_k(x) of weak rankers, and the weights of the queries."""

    w: F64  # (2 d,) weights of the columns, then of their negatives
    P: F64  # (m,) weights of the queries that have a measure
    mean_measure: float


@dataclass(frozen=True, eq=False)
class _WeakRankers:
    """The weak rankers: every feature column is one, and so is its negative."""

    part: Queries
    metric: Metric
    columns: F64  # (n_docs, 2 d)
    E: F64  # (2 d, m) the measure of each weak ranker on each query

    @classmethod
    def of(cls, part: Queries, metric: Metric) -> _WeakRankers:
        columns = np.hstack((part.features, -part.features)).astype(np.float64)
        return cls(part, metric, columns, _performances(part, columns, metric))

    def best(self, ensemble: _Ensemble, barred: Collection[int]) -> tuple[int, float]:
        """Find the weak ranker h with the largest weighted measure Σ P E(h).

        Returns:
            The number of the weak ranker, or -1 if all are barred; and its weighted measure.
        """
        means = self.E @ ensemble.P
        means[list(barred)] = -np.inf
        k = int(np.argmax(means))
        if means[k] == -np.inf:
            return -1, float(means[k])
        return k, float(means[k])

    def add(self, ensemble: _Ensemble, k: int, mean: float) -> _Ensemble:
        """Add weak ranker number k with the weight α = ½ ln((1 + mean) / (1 - mean)).

        The queries' weights become P exp(-α E(f)), scaled to a sum of 1, where f is the new sum.
        """
        w = ensemble.w.copy()
        alpha = 0.5 * np.log((1 + mean) / max(1 - mean, _TINY))
        w[k] += alpha
        measures = _performances(self.part, (self.columns @ w)[:, None], self.metric)[0]
        P = ensemble.P * np.exp(-alpha * measures)
        return _Ensemble(w, P / P.sum(), float(measures.mean()))


def adarank(part: Queries, metric: Metric, rounds: int) -> Iterator[F64]:
    """Yield the feature weights w (d,) after each round of AdaRank.

    Only the m queries that have a measure E count, with the weights P = 1 / m at first. The weak
    ranker h with the largest Σ P E(h) gets α = ½ ln(Σ P (1 + E(h)) / Σ P (1 - E(h))); then P
    becomes P exp(-α E(f)), where f is the sum so far.

    Rounds of this kind alone would choose the best one or two weak rankers for ever. As in RankLib,
    a weak ranker that is chosen twice in a row is therefore put aside, and its round is undone. The
    rounds end when the mean of E(f) falls by 0.002; the last round is left out. Then the weak
    rankers that were put aside return singly, the last first. Now a weak ranker may be chosen many
    times in a row, but is barred if it changes nothing five times in a row.
    """
    weak = _WeakRankers.of(part, metric)
    n_queries = weak.E.shape[1]
    rounds_left = iter(range(rounds))
    aside = list[int]()
    ensemble = _Ensemble(np.zeros(len(weak.E)), np.full(n_queries, 1 / n_queries), -np.inf)
    ensemble = yield from _rounds(weak, ensemble, aside, rounds_left, may_repeat=False)
    while aside:
        aside.pop()
        ensemble = yield from _rounds(weak, ensemble, aside, rounds_left, may_repeat=True)


def _rounds(
    weak: _WeakRankers,
    ensemble: _Ensemble,
    aside: list[int],
    rounds_left: Iterator[int],
    *,
    may_repeat: bool,
) -> Generator[F64, None, _Ensemble]:
    """Run rounds of boosting until the mean measure falls; return the ensemble before the fall.

    A weak ranker that is chosen twice in a row is put `aside`. With `may_repeat` it may be
    chosen in a row, but at most `_IN_VAIN` times without a change of the measure.
    """
    previous_ensemble = ensemble
    previous_k = -1
    barred = set[int]()
    n_in_vain = 0
    for _ in rounds_left:
        k, mean = weak.best(ensemble, {*aside, *barred})
        if k < 0:
            break
        if k == previous_k and not may_repeat:
            aside.append(k)
            ensemble = previous_ensemble
            continue
        next_ensemble = weak.add(ensemble, k, mean)
        w, negative = np.split(next_ensemble.w, 2)
        yield w - negative
        if next_ensemble.mean_measure + _TOLERANCE <= ensemble.mean_measure:
            break
        if next_ensemble.mean_measure == ensemble.mean_measure and k == previous_k:
            n_in_vain += 1
        else:
            barred.clear()
            n_in_vain = 0
        if n_in_vain == _IN_VAIN:
            barred.add(k)
            n_in_vain = 0
        previous_ensemble = ensemble
        previous_k = k
        ensemble = next_ensemble
    return ensemble


def _performances(part: Queries, columns: F64, metric: Metric) -> F64:
    """Measure every query when it is sorted by each column alone, (n_columns, n_queries).

    Queries without a measure are left out.
    """
    measures = [
        per_query(metric, part.grades[order_by(part, column)], part.offsets) for column in columns.T
    ]
    E: F64 = np.array(measures)
    return E[:, ~np.isnan(E[0])]


@dataclass(frozen=True)
class AdaRankSettings(LinearSettings):
    """Settings of AdaRank."""

    kind: ClassVar[str] = "adarank-ndcg"
    measure: str = setting("ndcg@10", "Measure that weights the queries, such as map.", TRAINING)
    rounds: int = setting(300, "Largest number of weak rankers.", TRAINING, least=1)

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[F64, dict[str, Any]]:
        """Run AdaRank on T; return the weights of the round with the best RankQuality on V.

        Raises:
            DataError: if the measure scores every ranking of T alike.

        Cost: a ranking of T for each column and direction, then one for each round.
        """
        metric = self.metric(self.measure)
        check_can_choose(metric, T)
        progress("measuring the weak rankers")
        best_quality = -np.inf
        best_w = np.zeros(T.n_features)
        best_round = 0
        for k, w in enumerate(adarank(T, metric, self.rounds), 1):
            progress(f"boosting, round {k}/{self.rounds}")
            quality = self.quality_of(V, order_by(V, V.features @ w))
            if quality > best_quality:
                best_quality = quality
                best_w = w
                best_round = k
        return best_w, {"rounds": best_round}
