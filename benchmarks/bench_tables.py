"""`SortNetRanker()` and `LGBMRanker()`, nothing set but the seed, on tables of many kinds.

Both get the rows of training and validation part together, and the test part is only measured.
NDCG@10 with gain 2^grade - 1, queries without a relevant document left out; the digits by
Spearman's rank correlation, the mean over the queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from made_tables import TABLES, friedman, parts, rows, table
from threadpoolctl import threadpool_limits

from sortnet import SortNetRanker
from sortnet.core import Queries
from sortnet.data import Fold
from sortnet.lab.simulated_annotators import spearman
from sortnet.metrics import evaluate
from sortnet.threads import set_threads

DRAWS = 5
AHEAD = {"a tree of depth 4": -0.005}  # of LightGBM's, at least; of the other tables:
_AHEAD = 0.003
DIGITS = {"digits": 0.955, "digits + 100": 0.95}  # Spearman, at least
SECONDS = 3  # of CPU, for 3,000 rows of 25 features
QUICK = 8  # queries of each part

Measure = Callable[[Queries, np.ndarray], float]


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each table: means over the draws."""
    torch.set_num_threads(1)
    set_threads(1)
    with threadpool_limits(1):
        both(smaller(table("counts", 0)), ndcg, 0)  # compiled and imported before it counts
        draws = range(1 if quick else DRAWS)
        found = [compared(name, ndcg, quick, draws) for name in TABLES]
        found += [compared(name, mean_spearman, quick, draws) for name in DIGITS]
        return [*found, of_seconds(quick)]


def compared(name: str, measure: Measure, quick: bool, draws: range) -> dict[str, Any]:
    """The row of one table."""
    folds = (table(name, seed) for seed in draws)
    found = [
        both(smaller(fold) if quick else fold, measure, seed)
        for seed, fold in zip(draws, folds, strict=True)
    ]
    values, seconds = (np.array(each) for each in zip(*found, strict=True))
    (ours, peer), difference = values.mean(0), values[:, 0] - values[:, 1]
    if name in DIGITS:
        bar, ok = f"ours >= {DIGITS[name]}", ours >= DIGITS[name]
    else:
        ahead = AHEAD.get(name, _AHEAD)
        bar = f"ours >= peer {'-' if ahead < 0 else '+'} {abs(ahead):g}"
        ok = ours >= peer + ahead
    error = "" if len(draws) < 2 else f" ± {difference.std(ddof=1) / np.sqrt(len(draws)):.4f} SE"
    cpu = seconds.mean(0)
    return {
        "what": f"{name}: {'Spearman' if name in DIGITS else 'NDCG@10'} / LightGBM's, defaults",
        "ours": ours, "peer": peer, "ratio": ours / peer, "bar": bar, "ok": bool(ok),
        "note": f"{difference.mean():+.4f}{error}, {len(draws)} draws; "
        f"CPU seconds {cpu[0]:.1f} and {cpu[1]:.1f}",
    }  # fmt: skip


def both(fold: Fold, measure: Measure, seed: int) -> tuple[tuple[float, float], list[float]]:
    """What ours and LightGBM's predictions are worth on the test part, and CPU seconds of both."""
    import lightgbm

    assert fold.test is not None
    X, y, qid = rows(fold.train, fold.vali)
    test, _, test_qid = rows(fold.test)
    started = time.process_time()
    ranker = SortNetRanker(random_state=seed).fit(X, y, qid=qid)
    ours = ranker.predict(test, qid=test_qid)
    between = time.process_time()
    # Its own threads, which no limit of OpenMP's holds; they change nothing but the seconds.
    trees = lightgbm.LGBMRanker(random_state=seed, n_jobs=1, verbose=-1)
    trees.fit(X, y, group=np.bincount(qid))
    peer = np.asarray(trees.predict(test))
    seconds = [between - started, time.process_time() - between]
    return (measure(fold.test, ours), measure(fold.test, peer)), seconds


def ndcg(queries: Queries, scores: np.ndarray) -> float:
    order = np.lexsort((-scores, queries.query_of_docs()))
    return evaluate(queries, order, "ndcg@10", empty="skip")["ndcg@10"]


def mean_spearman(queries: Queries, scores: np.ndarray) -> float:
    """Spearman's rank correlation of scores and grades, the mean over the queries."""
    cuts = queries.offsets[1:-1]
    parts = zip(np.split(scores, cuts), np.split(queries.grades, cuts), strict=True)
    return float(np.mean([spearman(mine, truth) for mine, truth in parts]))


def of_seconds(quick: bool) -> dict[str, Any]:
    """CPU seconds of a table of 3,000 rows."""
    fold = parts(friedman(0, queries=60, size=50))
    _, seconds = both(smaller(fold) if quick else fold, ndcg, 0)
    return {
        "what": "3,000 rows x 25: CPU seconds with defaults / LightGBM's",
        "ours": seconds[0], "peer": seconds[1], "ratio": seconds[0] / seconds[1],
        "bar": f"ours <= {SECONDS}", "ok": seconds[0] <= SECONDS,
        "note": "one thread; the shorter fit included",
    }  # fmt: skip


def smaller(fold: Fold) -> Fold:
    """The first queries of each part."""
    assert fold.test is not None
    few = [
        part.take(np.arange(min(QUICK, len(part)))) for part in (fold.train, fold.vali, fold.test)
    ]
    return Fold(*few)


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
