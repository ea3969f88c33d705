"""The sort and the default comparator beside peers; on a GPU, the sort and the training in turns.

Each pair is measured in turn, round after round, and the ratio is of the fastest rounds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import lightgbm
import numpy as np
import torch
from made_tables import all_pairs, graded
from measuring import Row, fastest, ndcg, row
from torch import Tensor, nn

from sortnet import SortNetRanker
from sortnet.comparators import CmpNN, Committee, DirectRanker, SoftTrees, TrainableComparator
from sortnet.config import Training
from sortnet.core import ComparedPairs, Queries
from sortnet.learning.mini_batches import QueryPairs
from sortnet.learning.training import learner_of, train_on_pairs
from sortnet.sorting import sort
from sortnet.threads import one_thread_an_operation

FEATURES = 46
COLUMNS, SIZE, IN_BATCH = 92, 20, 14  # of a query, and queries in a mini-batch: 280 documents
TREES = 100  # of LightGBM


def run(quick: bool) -> list[Row]:
    """The rows of the sort, of the default comparator, and of a GPU where there is one."""
    rows = [*of_sorts(2 if quick else 7, quick), of_step(quick), *of_predictions(quick)]
    return [*rows, *of_gpu(torch.device("cuda"), quick)] if torch.cuda.is_available() else rows


def of_sorts(rounds: int, quick: bool) -> Iterator[Row]:
    """The sort beside the same comparisons as one flat torch batch, and Python's sorted."""
    queries = graded(50 if quick else 1000, 120, FEATURES)
    net = CmpNN(FEATURES, hidden=20)
    m = len(sort(net, queries).compared)
    for hidden, limit in ((20, 0.3), ((20, 20, 20), 2)):
        comparator = CmpNN(FEATURES, hidden=hidden)
        compared = sort(comparator, queries).compared
        ours, flat = fastest(
            functools.partial(sort, comparator, queries),
            functools.partial(compare_at_once, comparator, queries, compared),
            rounds=rounds,
        )
        name = "20 / one flat torch batch" if hidden == 20 else "20-20-20 / flat batch"
        yield row(f"sort 1,000 x 120, CmpNN {name}", ours, flat, bar=f"ratio <= {limit}")
        if hidden == 20:
            calls = one_forward_pass_a_pair(net, queries.features[:120])
            (python,) = fastest(
                lambda: one_forward_pass_a_pair(net, queries.features[:120]), rounds=2
            )
            yield row(
                "sorted(key=cmp_to_key), a forward pass a pair / sort, by comparison",
                python / calls,
                ours / m,
                bar="ratio >= 150",
                note=f"{python / calls * 1e6:.0f} us and {ours / m * 1e6:.3f} us a comparison",
            )
    long, short = (graded(n, size, FEATURES) for n, size in ((120, 1000), (1200, 100)))
    slow, fast = fastest(lambda: sort(net, long), lambda: sort(net, short), rounds=rounds)
    m_long, m_short = (len(sort(net, each).compared) for each in (long, short))
    name = "a comparison at 1,000 documents a query / at 100"
    yield row(name, slow / m_long, fast / m_short, bar="ratio <= 1.5")
    queries, by_score = graded(6, 300 if quick else 3000, FEATURES), DirectRanker(FEATURES)
    ours, levels = fastest(
        lambda: sort(by_score, queries), lambda: sort(Batched(by_score), queries), rounds=3
    )
    name = "sort 6 x 3,000, DirectRanker / level by level"
    yield row(name, ours, levels, bar="ratio <= 0.2")


def compare_at_once(comparator: CmpNN, queries: Queries, compared: ComparedPairs) -> None:
    """The comparisons of a sort, known beforehand, as one batch of prepared documents."""
    comparator.prefer(comparator.prepare(queries.features), compared.i, compared.j)


def one_forward_pass_a_pair(comparator: CmpNN, X: np.ndarray) -> int:
    """Python's sorted over one query; returns the comparisons made."""
    documents, calls = torch.from_numpy(X), 0

    @torch.no_grad()
    def compare(a: int, b: int) -> float:
        nonlocal calls
        calls += 1
        pair = comparator.embed(documents[[a, b]])
        return -float(comparator.margin(pair[:1], pair[1:]))

    sorted(range(len(X)), key=functools.cmp_to_key(compare))
    return calls


class Batched:
    """Hides that a comparator has a score, so that it is sorted level by level."""

    def __init__(self, comparator: DirectRanker) -> None:
        self.prepare, self.prefer = comparator.prepare, comparator.prefer


class PlainTrees(nn.Module):
    """The trees of the default comparator by torch's operations and their derivatives."""

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


def of_step(quick: bool) -> Row:
    """Milliseconds of a step on 280 documents, the mini-batch drawn and the weights renewed."""
    queries = graded(60, SIZE, COLUMNS)
    pairs = QueryPairs.of(queries, all_pairs(queries))
    n = 5 if quick else 200
    size = len(pairs) * IN_BATCH // len(queries)
    batches = pairs.endless_batches(size, None, np.random.default_rng(0))

    def trained(net: Any) -> Callable[[], None]:
        learner = learner_of(net, Training(), {})

        def steps() -> None:
            for batch in islice(batches, n):
                learner.step(batch, 0.01, 0.0)

        return steps

    with one_thread_an_operation():
        works = trained(SoftTrees(COLUMNS)), trained(PlainTrees())
        ours, peer = fastest(*works, rounds=2 if quick else 20)
    return row(
        f"a step of the default comparator, 280 documents of {COLUMNS} columns, ms / torch",
        1e3 * ours / n,
        1e3 * peer / n,
        bar="ratio <= 0.4",
        note=f"8 heads of 8 trees, {size:,} pairs; one thread",
    )


def of_predictions(quick: bool) -> Iterator[Row]:
    """Milliseconds of `predict` of many queries of 100 documents, and of one."""
    train = graded(20 if quick else 60, 50, FEATURES)
    X, y, qid = train.features, train.grades, train.query_of_docs()
    ranker = SortNetRanker(random_state=0, max_iter=1, epochs=5).fit(X, y, qid=qid)
    trees = lightgbm.LGBMRanker(n_estimators=TREES, random_state=0, verbose=-1)
    trees.fit(X, y, group=train.sizes)
    for n_queries, rounds in ((20 if quick else 2000, 6), (1, 500)):
        test = graded(n_queries, 100, FEATURES)
        ours, peer = fastest(
            functools.partial(ranker.predict, test.features, qid=test.query_of_docs()),
            functools.partial(trees.predict, test.features),
            rounds=2 if quick else rounds,
        )
        yield row(
            f"predict, {100 * n_queries:,} documents of {FEATURES} features, ms / LightGBM's of "
            f"{TREES} trees",
            1e3 * ours,
            1e3 * peer,
            bar="ratio <= 1.2",
            note=f"columns after scaling: {ranker.model_.scaler.n_columns}",
        )


def of_gpu(device: torch.device, quick: bool) -> Iterator[Row]:
    """Seconds of sorts and of two epochs on a device beside the CPU with all its threads."""
    nets: dict[str, Callable[[], TrainableComparator]] = {
        "CmpNN 32": lambda: CmpNN(FEATURES, hidden=32),
        "4 CmpNN 32": lambda: Committee([CmpNN(FEATURES, hidden=32, seed=k) for k in range(4)]),
        "DirectRanker 64-20": lambda: DirectRanker(FEATURES, hidden=(64, 20)),
    }
    for n, size in [(50, 120)] if quick else [(4000, 120), (160, 3000)]:
        queries = graded(n, size, FEATURES)
        for name, make in nets.items():
            here, there = make(), make()
            for member in there.members:
                member.to(device)
            cpu, gpu = fastest(
                *(functools.partial(sort, net, queries) for net in (here, there)), rounds=3
            )
            same = (sort(here, queries).order == sort(there, queries).order).mean()
            note = f"{same:.4%} of the places are the same"
            yield row(f"sort {n:,} x {size:,}, {name}: seconds, CPU : GPU", gpu, cpu, note=note)
    queries = graded(20 if quick else 2000, 120, FEATURES)
    for precision in ("float32", "bf16"):
        here, there = (
            functools.partial(trained_on, *where, queries)
            for where in ((torch.device("cpu"), "float32"), (device, precision))
        )
        cpu, gpu = fastest(here, there, rounds=2)
        values = [ndcg(queries, sort(work(), queries).order) for work in (here, there)]
        note = f"ndcg@10 {values[0]:.4f} : {values[1]:.4f}"
        what = f"train {len(queries):,} x 120, CmpNN 512, {precision}: seconds, CPU : GPU"
        yield row(what, gpu, cpu, note=note)


def trained_on(device: torch.device, precision: str, queries: Queries) -> TrainableComparator:
    """A net after two epochs on a device."""
    net = CmpNN(FEATURES, hidden=512).to(device)
    how = Training(epochs=2, precision=precision, weight_decay=0.03)
    nothing = ComparedPairs.empty()
    train_on_pairs(net, queries, all_pairs(queries), queries, nothing, how)
    return net
