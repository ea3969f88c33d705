"""Sorting and training on the CPU and on the GPU, in turns; one row that says so without a GPU.

The CPU has all its threads. The first round, which compiles and allocates, counts only if it is
the fastest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from bench_scale import FEATURES, SIZE
from bench_scale import made as graded
from bench_sort import made, side_by_side

from sortnet.comparators import (
    CmpNN,
    Committee,
    DirectRanker,
    NeuralComparator,
    TrainableComparator,
)
from sortnet.config import Training
from sortnet.core import ComparedPairs, Queries
from sortnet.learning.pairs_to_ask import SortedPart, answered_pairs, select_pairs
from sortnet.learning.training import train_on_pairs
from sortnet.metrics import evaluate
from sortnet.sorting import sort

NETS: dict[str, Callable[[int], TrainableComparator]] = {
    "CmpNN 32": lambda d: CmpNN(d, hidden=32),
    "4 CmpNN 32": lambda d: Committee([CmpNN(d, hidden=32, seed=seed) for seed in range(4)]),
    "CmpNN 64-64": lambda d: CmpNN(d, hidden=(64, 64)),
    "DirectRanker 64-20": lambda d: DirectRanker(d, hidden=(64, 20)),
}
TRAINED: dict[str, Callable[[], NeuralComparator]] = {
    "CmpNN 32": lambda: CmpNN(FEATURES, hidden=32),
    "CmpNN 512": lambda: CmpNN(FEATURES, hidden=512),
    "DirectRanker 1024-1024": lambda: DirectRanker(FEATURES, hidden=(1024, 1024)),
}


def run(quick: bool) -> list[dict[str, Any]]:
    if not torch.cuda.is_available():
        return [{"what": "sort and train, CPU : GPU", "note": "no GPU here, so not measured"}]
    return compared(torch.device("cuda"), quick)


def compared(device: torch.device, quick: bool) -> list[dict[str, Any]]:
    """CPU : that device."""
    shapes = [(50, 120)] if quick else [(4000, 120), (160, 3000)]
    rows = [sorting(name, made(*shape), device) for shape in shapes for name in NETS]
    queries = graded(20 if quick else 2000)
    part = SortedPart(queries, CmpNN(FEATURES), None, np.random.default_rng(0))
    pairs = answered_pairs(queries, select_pairs("random", part)[0])
    return rows + [
        training(name, queries, pairs, device, precision)
        for name in TRAINED
        for precision in ("float32", "bf16")
    ]


def sorting(name: str, queries: Queries, device: torch.device) -> dict[str, Any]:
    here, there = (on(each, NETS[name](queries.n_features)) for each in ("cpu", device))
    cpu, gpu = side_by_side(lambda: sort(here, queries), lambda: sort(there, queries), rounds=3)
    same = (sort(here, queries).order == sort(there, queries).order).mean()
    shape = f"{len(queries):,} x {queries.sizes[0]:,}"
    return row(f"sort {shape}, {name}", cpu, gpu, f"{same:.4%} of the places are the same")


def training(
    name: str, queries: Queries, pairs: ComparedPairs, device: torch.device, precision: str
) -> dict[str, Any]:
    """Two epochs in float32 on the CPU, and in a precision on the device."""

    def trained(where: torch.device, numbers: str) -> NeuralComparator:
        net = TRAINED[name]().to(where)
        how = Training(epochs=2, precision=numbers, weight_decay=0.03)
        train_on_pairs(net, queries, pairs, queries, ComparedPairs.empty(), how)
        return net

    def here() -> NeuralComparator:
        return trained(torch.device("cpu"), "float32")

    def there() -> NeuralComparator:
        return trained(device, precision)

    cpu, gpu = side_by_side(here, there, rounds=2)
    values = [
        evaluate(queries, sort(net, queries).order, "ndcg@10")["ndcg@10"]
        for net in (here(), there())
    ]
    what = f"train {len(queries):,} x {SIZE}, {len(pairs):,} pairs, {name}, {precision}"
    return row(what, cpu, gpu, f"ndcg@10 {values[0]:.4f} : {values[1]:.4f}")


def on(device: torch.device | str, comparator: TrainableComparator) -> TrainableComparator:
    for member in comparator.members:
        member.to(device)
    return comparator


def row(what: str, cpu: float, gpu: float, note: str) -> dict[str, Any]:
    what = f"{what}: seconds, CPU : GPU"
    return {"what": what, "ours": gpu, "peer": cpu, "ratio": cpu / gpu, "note": note}


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
