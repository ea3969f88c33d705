"""The default comparator: a step of its training, and `predict` beside LightGBM's of 100 trees.

A step is compared with the same step by torch's operations alone. Each pair is measured in turn,
round after round, and the ratio is of the fastest rounds: other work on the machine hits both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from sortnet import SortNetRanker
from sortnet.comparators import NeuralComparator, SoftTrees
from sortnet.config import Training
from sortnet.core import ComparedPairs, Queries
from sortnet.learning.learner import learner_of
from sortnet.learning.mini_batches import QueryPairs
from sortnet.threads import one_thread_an_operation

COLUMNS, SIZE, IN_BATCH = 92, 20, 14  # of a query, and queries in a mini-batch: 280 documents
FEATURES = 46
TREES = 100  # of LightGBM


class PlainTrees(nn.Module):
    """The same trees by torch's operations and their derivatives."""

    def __init__(self) -> None:
        super().__init__()
        trees = SoftTrees(COLUMNS)
        self.sizes = trees.committee, trees.trees, trees.depth
        self.n_features = COLUMNS
        self.device = torch.device("cpu")
        for name, weight in trees.weights.items():
            self.register_parameter(name, nn.Parameter(torch.from_numpy(weight)))

    def embed(self, x: Tensor) -> Tensor:
        weights = dict(self.named_parameters())
        inputs = x @ torch.softmax(weights["choices"], dim=0)
        logits = weights["log_steepness"].exp() * (inputs - weights["thresholds"])
        p_right = torch.sigmoid(logits).view(len(x), *self.sizes)
        values = weights["leaves"].view(1, *self.sizes[:2], -1)
        for p in p_right.unbind(3):  # each level halves the leaves
            left, right = values.chunk(2, dim=3)
            values = left + p[..., None] * (right - left)
        return values[..., 0].sum(dim=2)

    def logistic_loss(
        self, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        return weight @ nn.functional.softplus(embedded[loser] - embedded[winner]).mean(dim=1)


def run(quick: bool) -> list[dict[str, Any]]:
    return [step(quick), *predictions(quick)]


def step(quick: bool) -> dict[str, Any]:
    """Milliseconds of a step on 280 documents, the mini-batch drawn and the weights renewed."""
    pairs = graded_pairs(random_queries(60, SIZE, COLUMNS))
    n = 5 if quick else 200
    size = len(pairs) * IN_BATCH // len(pairs.queries)
    batches = pairs.endless_batches(size, None, np.random.default_rng(0))

    def trained(net: Any) -> Callable[[], None]:
        learner = learner_of(cast(NeuralComparator, net), Training(), {})

        def make() -> None:
            for batch in islice(batches, n):
                learner.step(batch, 0.01, 0.0)

        return make

    with one_thread_an_operation():
        works = trained(SoftTrees(COLUMNS)), trained(PlainTrees())
        ours, peer = (1e3 * seconds / n for seconds in in_turn(*works, rounds=2 if quick else 20))
    return {
        "what": f"a step of the default comparator, 280 documents of {COLUMNS} columns, ms / torch",
        "ours": ours, "peer": peer, "ratio": ours / peer, "bar": "<= 0.4", "ok": ours <= 0.4 * peer,
        "note": f"8 heads of 8 trees, {size:,} pairs; one thread",
    }  # fmt: skip


def predictions(quick: bool) -> list[dict[str, Any]]:
    """Milliseconds of `predict` of many queries of 100 documents, and of one."""
    import lightgbm

    train = random_queries(20 if quick else 60, 50, FEATURES)
    X, y, qid = train.features, train.grades, train.query_of_docs()
    ranker = SortNetRanker(random_state=0, max_iter=1, epochs=5).fit(X, y, qid=qid)
    trees = lightgbm.LGBMRanker(n_estimators=TREES, random_state=0, verbose=-1)
    trees.fit(X, y, group=train.sizes)
    rows = []
    for queries, rounds in ((20 if quick else 2000, 6), (1, 500)):
        test = random_queries(queries, 100, FEATURES)
        places = test.query_of_docs()

        def ours_of(X: np.ndarray = test.features, qid: np.ndarray = places) -> None:
            ranker.predict(X, qid=qid)

        def peer_of(X: np.ndarray = test.features) -> None:
            trees.predict(X)

        ours, peer = (
            1e3 * each for each in in_turn(ours_of, peer_of, rounds=2 if quick else rounds)
        )
        what = f"predict, {100 * queries:,} documents of {FEATURES} features"
        row = {
            "what": f"{what}, ms / LightGBM's of {TREES} trees",
            "ours": ours, "peer": peer, "ratio": ours / peer,
            "bar": "<= 1.2", "ok": ours <= 1.2 * peer,
            "note": f"columns after scaling: {ranker.model_.scaler.n_columns}",
        }  # fmt: skip
        rows.append(row)
    return rows


def in_turn(*works: Callable[[], None], rounds: int) -> list[float]:
    """Seconds of the fastest call of each, called one after the other."""
    seconds = np.empty((rounds + 1, len(works)))  # the first round compiles
    for number in range(rounds + 1):
        for k, work in enumerate(works):
            started = time.perf_counter()
            work()
            seconds[number, k] = time.perf_counter() - started
    fastest: list[float] = seconds[1:].min(axis=0).tolist()
    return fastest


def random_queries(n_queries: int, size: int, features: int) -> Queries:
    X = np.random.default_rng(n_queries).standard_normal((n_queries * size, features), np.float32)
    grades = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3] / 2, [0.5, 1.5]).astype(np.int32)
    return Queries.from_arrays(X, grades, group=np.full(n_queries, size))


def graded_pairs(queries: Queries) -> QueryPairs:
    """All pairs of documents of one query and different grades."""
    above, below = np.triu_indices(SIZE, 1)
    i, j = (np.add.outer(queries.offsets[:-1], each).ravel() for each in (above, below))
    better = queries.grades[i] - queries.grades[j]
    i, j, better = (each[better != 0] for each in (i, j, better))
    pairs = ComparedPairs.of(i, j, answer=better > 0).in_order()
    return QueryPairs.of(queries, pairs)


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
