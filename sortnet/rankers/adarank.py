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
_NO_RANKER = -1  # in place of the number of a weak ranker


@dataclass(frozen=True)
class _Ensemble:
    """A weighted sum f(x) = Σ w_k h_k(x) of weak rankers h_k, and the weights P of the queries."""

    w: F64  # (2 d,) weights of the d feature columns, then weights of their negatives
    P: F64  # (m,) weights of the m queries that have a measure
    mean_measure: float  # mean measure of the ranking by f, over the queries


@dataclass(frozen=True, eq=False)
class _WeakRankers:
    """The weak rankers; each sorts by a feature or by the negative of a feature."""

    part: Queries  # the training queries
    metric: Metric
    columns: F64  # (n_docs, 2 d) the d feature columns, then their negatives
    E: F64  # (2 d, m) the measure of each weak ranker on each query

    @classmethod
    def of(cls, part: Queries, metric: Metric) -> _WeakRankers:
        """Make the weak rankers of the training queries, and measure each on every query."""
        columns = np.hstack((part.features, -part.features)).astype(np.float64)
        return cls(part, metric, columns, _measures(part, columns, metric))

    def best(self, ensemble: _Ensemble, barred: Collection[int]) -> tuple[int, float]:
        """Find the weak ranker h with the largest mean measure Σ P E(h), weighted by queries.

        Args:
            ensemble: the sum so far, with the weights P of the queries.
            barred: numbers of the weak rankers that must not be chosen.

        Returns:
            The number of the weak ranker, or `_NO_RANKER` if all are barred; and its mean measure.
        """
        means = self.E @ ensemble.P
        means[list(barred)] = -np.inf
        k = int(np.argmax(means))
        mean = float(means[k])
        if mean == -np.inf:
            return _NO_RANKER, mean
        return k, mean

    def add(self, ensemble: _Ensemble, k: int, mean: float) -> _Ensemble:
        """Add weak ranker number k with the weight α = ½ ln((1 + mean) / (1 - mean)).

        The weights P of the queries become P exp(-α E(f)), scaled to a sum of 1, where E(f) is the
        measure of the new sum f.

        Args:
            ensemble: the sum so far, which is not changed.
            k: number of the weak ranker.
            mean: its mean measure, as `best` returns it.
        """
        w = ensemble.w.copy()
        alpha = 0.5 * np.log((1 + mean) / max(1 - mean, _TINY))
        w[k] += alpha
        scores = self.columns @ w
        measures = _measures(self.part, scores[:, None], self.metric)[0]
        P = ensemble.P * np.exp(-alpha * measures)
        return _Ensemble(w, P / P.sum(), float(measures.mean()))


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
    rounds follow. In these rounds a weak ranker may be chosen many times in a row, but it is barred
    after five rounds in a row that change nothing.

    Args:
        part: the training queries.
        metric: the measure E.
        rounds: largest number of rounds.
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

    Args:
        weak: the weak rankers.
        ensemble: the sum to begin with.
        aside: numbers of the weak rankers that were put aside; the rounds extend the list.
        rounds_left: an item for each round that may still be run.
        may_repeat: whether a weak ranker may be chosen several times in a row, but at most
            `_IN_VAIN` times without a change of the measure. If not, it is put aside.
    """
    previous_ensemble = ensemble
    previous_k = _NO_RANKER
    barred = set[int]()
    n_in_vain = 0
    for _ in rounds_left:
        k, mean = weak.best(ensemble, {*aside, *barred})
        if k == _NO_RANKER:
            break
        if k == previous_k and not may_repeat:
            aside.append(k)
            ensemble = previous_ensemble
            continue
        next_ensemble = weak.add(ensemble, k, mean)
        w_of_columns, w_of_negatives = np.split(next_ensemble.w, 2)
        yield w_of_columns - w_of_negatives
        if next_ensemble.mean_measure + _TOLERANCE <= ensemble.mean_measure:
            break
        # A weak ranker that is chosen again and again without an effect gives way to another one.
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


def _measures(part: Queries, columns: F64, metric: Metric) -> F64:
    """Measure the ranking of each query by each column of scores, (n_columns, m).

    The m queries that have a measure are the same for all columns; other queries are left out.

    Args:
        part: graded queries.
        columns: (n_docs, n_columns) scores of the documents.
        metric: the measure.
    """
    measures = []
    for scores in columns.T:
        ranked_grades = part.grades[order_by(part, scores)]
        measures.append(per_query(metric, ranked_grades, part.offsets))
    E: F64 = np.array(measures)
    has_measure = ~np.isnan(E[0])
    return E[:, has_measure]


@dataclass(frozen=True)
class AdaRankSettings(LinearSettings):
    """Settings of AdaRank."""

    kind: ClassVar[str] = "adarank-ndcg"
    measure: str = setting("ndcg@10", "Measure that weights the queries, such as map.", TRAINING)
    rounds: int = setting(300, "Largest number of weak rankers.", TRAINING, least=1)

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[F64, dict[str, Any]]:
        """Run AdaRank on the training queries T; keep the round that ranks the queries V best.

        Returns:
            The weights (d,) of the round with the best RankQuality on the validation queries V, and
            the number of this round.

        Raises:
            DataError: if the measure gives every ranking of T the same score.

        Cost: two rankings of T for each column, then a ranking of T for each round.
        """
        metric = self.metric(self.measure)
        check_can_choose(metric, T)
        progress("measuring the weak rankers")
        best_quality = -np.inf
        best_w = np.zeros(T.n_features)
        best_round = 0
        for boosting_round, w in enumerate(adarank(T, metric, self.rounds), start=1):
            progress(f"boosting, round {boosting_round}/{self.rounds}")
            quality = self.quality_of(V, order_by(V, V.features @ w))
            if quality > best_quality:
                best_quality = quality
                best_w = w
                best_round = boosting_round
        return best_w, {"rounds": best_round}
