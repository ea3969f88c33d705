"""The sort beside the same comparisons as one flat torch batch, and beside Python's sorted."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sortnet.comparators import CmpNN, DirectRanker
from sortnet.core import Queries, Sorting
from sortnet.sorting import sort

FEATURES = 46


def made(n_queries: int, size: int) -> Queries:
    X = np.random.default_rng(0).standard_normal((n_queries * size, FEATURES), dtype=np.float32)
    return Queries.from_arrays(X, group=np.full(n_queries, size))


def side_by_side(*functions: Callable[[], Any], rounds: int) -> list[float]:
    """Seconds of each function: the least of several rounds, in which they take turns."""
    least = [np.inf] * len(functions)
    for _ in range(rounds):
        for k, function in enumerate(functions):
            start = time.perf_counter()
            function()
            least[k] = min(least[k], time.perf_counter() - start)
    return least


def flat(comparator: CmpNN, queries: Queries, made: Sorting) -> None:
    """The comparisons of a sort, known beforehand, as one batch of prepared documents."""
    comparator.prefer(comparator.prepare(queries.features), made.compared.i, made.compared.j)


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


def run(quick: bool) -> list[dict[str, Any]]:
    rounds = 2 if quick else 7
    queries = made(50 if quick else 1000, 120)
    net = CmpNN(FEATURES, hidden=20)
    comparisons = sort(net, queries)
    m = len(comparisons.compared)
    ours, batch = side_by_side(
        lambda: sort(net, queries), lambda: flat(net, queries, comparisons), rounds=rounds
    )
    calls = one_forward_pass_a_pair(net, queries.features[:120])
    (python,) = side_by_side(lambda: one_forward_pass_a_pair(net, queries.features[:120]), rounds=2)
    rows = [
        row("sort 1,000 x 120, CmpNN 20 / one flat torch batch", ours, batch, "<= 0.3"),
        row(
            "sorted(key=cmp_to_key), a forward pass a pair / sort, by comparison",
            python / calls, ours / m, ">= 150",
            f"{python / calls * 1e6:.0f} us and {ours / m * 1e6:.3f} us a comparison",
        ),
    ]  # fmt: skip
    rows.append(long_queries(net, rounds, quick))
    deep = CmpNN(FEATURES, hidden=(20, 20, 20))
    comparisons = sort(deep, queries)
    ours, batch = side_by_side(
        lambda: sort(deep, queries), lambda: flat(deep, queries, comparisons), rounds=min(rounds, 3)
    )
    rows.append(row("sort 1,000 x 120, CmpNN 20-20-20 / flat batch", ours, batch, "<= 2"))
    rows.append(by_score(rounds, quick))
    return rows


class Batched:
    """Hides that a comparator has a score, so that it is sorted level by level."""

    def __init__(self, comparator: DirectRanker) -> None:
        self.prepare, self.prefer = comparator.prepare, comparator.prefer


def by_score(rounds: int, quick: bool) -> dict[str, Any]:
    """Seconds of a sort of long queries by DirectRanker, compiled and level by level."""
    queries = made(6, 300 if quick else 3000)
    net = DirectRanker(FEATURES)
    ours, levels = side_by_side(
        lambda: sort(net, queries), lambda: sort(Batched(net), queries), rounds=min(rounds, 3)
    )
    return row("sort 6 x 3,000, DirectRanker / level by level", ours, levels, "<= 0.2")


def long_queries(net: CmpNN, rounds: int, quick: bool) -> dict[str, Any]:
    """Seconds a comparison at 1,000 documents a query and at 100, as many documents in all."""
    long, short = made(12 if quick else 120, 1000), made(120 if quick else 1200, 100)
    m_long, m_short = len(sort(net, long).compared), len(sort(net, short).compared)
    slow, fast = side_by_side(lambda: sort(net, long), lambda: sort(net, short), rounds=rounds)
    name = "a comparison at 1,000 documents a query / at 100"
    return row(name, slow / m_long, fast / m_short, "<= 1.5")


def row(what: str, ours: float, peer: float, bar: str, note: str = "") -> dict[str, Any]:
    ratio, (sign, limit) = ours / peer, bar.split()
    ok = ratio <= float(limit) if sign == "<=" else ratio >= float(limit)
    return {
        "what": what, "ours": ours, "peer": peer, "ratio": ratio, "bar": bar, "ok": ok, "note": note
    }  # fmt: skip


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
