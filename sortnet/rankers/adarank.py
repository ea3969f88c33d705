"""AdaRank for MAP and for NDCG (Xu and Li 2007): a sum of features, each weighted by a measure.

What the weak rankers reach is computed once, before the first round (Köppel et al. 2025, RankNet
revisited, algorithm 1).
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
_TOLERANCE = 0.002  # by which the measure may fall in a round
_IN_VAIN = 5  # rounds in a row of one weak ranker that change nothing


@dataclass(frozen=True)
class _Sum:
    """A sum of weak rankers."""

    w: F64  # (2 d,) of each column and of its negative
    P: F64  # (m,) weights of the queries that have a measure
    reached: float  # the mean measure


@dataclass(frozen=True, eq=False)
class _Weak:
    """The weak rankers: each column of the queries, and its negative."""

    part: Queries
    metric: Metric
    columns: F64  # (n_docs, 2 d)
    E: F64  # (2 d, m) their measures

    @classmethod
    def of(cls, part: Queries, metric: Metric) -> _Weak:
        columns = np.hstack((part.features, -part.features)).astype(np.float64)
        return cls(part, metric, columns, _performances(part, columns, metric))

    def best(self, sum_: _Sum, barred: Collection[int]) -> tuple[int, float]:
        """The one of the largest Σ P E(h) that is not barred, or -1, and that sum."""
        mean = self.E @ sum_.P
        mean[list(barred)] = -np.inf
        k = int(np.argmax(mean))
        return (k if mean[k] > -np.inf else -1), float(mean[k])

    def added(self, sum_: _Sum, k: int, mean: float) -> _Sum:
        """With α h, α = ½ ln((1 + mean) / (1 - mean)), and P exp(-α E(f)) scaled to a sum of 1."""
        w = sum_.w.copy()
        alpha = 0.5 * np.log((1 + mean) / max(1 - mean, _TINY))
        w[k] += alpha
        now = _performances(self.part, (self.columns @ w)[:, None], self.metric)[0]
        P = sum_.P * np.exp(-alpha * now)
        return _Sum(w, P / P.sum(), float(now.mean()))


def adarank(part: Queries, metric: Metric, rounds: int) -> Iterator[F64]:
    """(d,) the weights after each round.

    Of queries that have a measure E, with P = 1 / m at first: the weak ranker h of the largest Σ P
    E(h) gets α = ½ ln(Σ P (1 + E(h)) / Σ P (1 - E(h))); then P ~ P exp(-α E(f)) of the sum f so
    far. Left to itself this chooses the best one or two for ever. So, as RankLib has it, one that
    is chosen twice in a row is put aside and its round taken back, until the mean of E(f) falls by
    0.002 in a round, which is left out. Then those put aside return one by one, the last first, and
    may be chosen again and again, but for one that has changed nothing five times in a row.
    """
    weak = _Weak.of(part, metric)
    m, left, aside = weak.E.shape[1], iter(range(rounds)), list[int]()
    sum_ = _Sum(np.zeros(len(weak.E)), np.full(m, 1 / m), -np.inf)
    sum_ = yield from _rounds(weak, sum_, aside, left, again=False)
    while aside:
        aside.pop()
        sum_ = yield from _rounds(weak, sum_, aside, left, again=True)


def _rounds(
    weak: _Weak, sum_: _Sum, aside: list[int], left: Iterator[int], *, again: bool
) -> Generator[F64, None, _Sum]:
    """Rounds until the measure falls. One that is chosen twice in a row is put aside, or may be
    chosen in a row `again`, `_IN_VAIN` times if that changes nothing."""
    before, last, used, in_vain = sum_, -1, set[int](), 0
    for _ in left:
        k, mean = weak.best(sum_, {*aside, *used})
        if k < 0:
            break
        if k == last and not again:
            aside.append(k)
            sum_ = before
            continue
        found = weak.added(sum_, k, mean)
        w, negative = np.split(found.w, 2)
        yield w - negative
        if found.reached + _TOLERANCE <= sum_.reached:
            break
        if found.reached != sum_.reached or k != last:
            used, in_vain = set(), 0
        else:
            in_vain += 1
        if in_vain == _IN_VAIN:
            used, in_vain = used | {k}, 0
        before, last, sum_ = sum_, k, found
    return sum_


def _performances(part: Queries, columns: F64, metric: Metric) -> F64:
    """(n_columns, n_queries) the measure of each query by each column, of those that have it."""
    measured = [
        per_query(metric, part.grades[order_by(part, column)], part.offsets) for column in columns.T
    ]
    E: F64 = np.array(measured)
    return E[:, ~np.isnan(E[0])]


@dataclass(frozen=True)
class AdaRankSettings(LinearSettings):
    """Settings of AdaRank."""

    kind: ClassVar[str] = "adarank-ndcg"
    measure: str = setting("ndcg@10", "What weighs the queries, such as map.", TRAINING)
    rounds: int = setting(300, "Weak rankers, at most.", TRAINING, least=1)

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[F64, dict[str, Any]]:
        """AdaRank's weights in the round that is best by RankQuality on V.

        Raises:
            DataError: if the measure scores every ranking of T alike.

        Cost: a ranking of T for each column and direction, then one for each round.
        """
        metric = self.metric(self.measure)
        check_can_choose(metric, T)
        progress("measuring the weak rankers")
        best, kept, chosen = -np.inf, np.zeros(T.n_features), 0
        for k, w in enumerate(adarank(T, metric, self.rounds), 1):
            progress(f"boosting, round {k}/{self.rounds}")
            if (value := self.quality_of(V, order_by(V, V.features @ w))) > best:
                best, kept, chosen = value, w, k
        return kept, {"rounds": chosen}
