"""AdaRank by hand, and against a slow one that measures every weak ranker in every round."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from graded_queries import graded

from sortnet.errors import DataError
from sortnet.metrics import Metric, per_query
from sortnet.rankers.base import order_by
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.linear import AdaRankSettings, adarank


def measured(part, score, metric):
    values = per_query(metric, part.grades[order_by(part, score)], part.offsets)
    return values[~np.isnan(values)]


def slow(part, metric, rounds):
    """RankLib's learner with its queue, as one state that is changed in place."""
    columns = np.hstack((part.features, -part.features)).astype(float)
    weak = [(k, measured(part, columns[:, k], metric)) for k in range(columns.shape[1])]
    m, found, chosen, queue = len(weak[0][1]), [], [], []
    now = {"P": np.full(m, 1 / m), "score": -np.inf, "last": None}
    backup, left = dict(now), rounds

    def sum_of(chosen):
        w = np.zeros(columns.shape[1])
        for k, alpha in chosen:
            w[k] += alpha
        return w

    def learn(enqueue):
        nonlocal left, backup
        used, times = set(), 0
        if not enqueue:
            now["last"] = None
        while left:
            left -= 1
            known = [(E @ now["P"], -k) for k, E in weak if k not in queue and k not in used]
            if not known:
                return
            mean, k = max(known)
            k = -k
            if enqueue and k == now["last"]:
                queue.append(k)
                chosen.pop()
                now["P"], now["score"] = backup["P"], backup["score"]
                continue
            backup = dict(now)
            alpha = log((1 + mean) / max(1 - mean, 1e-12)) / 2
            chosen.append((k, alpha))
            E = measured(part, columns @ sum_of(chosen), metric)
            found.append(sum_of(chosen))
            if E.mean() <= now["score"] - 0.002:
                chosen.pop()
                return
            if not enqueue and E.mean() == now["score"] and k == now["last"]:
                times += 1
                if times == 5:
                    used.add(k)
                    times = 0
            else:
                used, times = set(), 0
            P = now["P"] * np.exp(-alpha * E)
            now.update(P=P / P.sum(), score=E.mean(), last=k)

    learn(True)
    while queue:
        queue.pop()
        learn(False)
    d = part.n_features
    return [w[:d] - w[d:] for w in found]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("metric", [Metric("map"), Metric("ndcg", 10)])
def test_its_rounds_are_those_of_a_slow_one(metric, seed):
    part = graded(seed, d=2 + seed % 4, noise=0.3 * seed)
    found, expected = list(adarank(part, metric, 40)), slow(part, metric, 40)
    assert len(found) == len(expected) > 1
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_training_queries_that_its_measure_cannot_tell_apart_are_refused():
    part = graded(0)
    with pytest.raises(DataError, match="map"):
        fit_ranker(part, part, AdaRankSettings(measure="map", quality="ndcg@10", relevant_from=5))
