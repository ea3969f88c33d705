"""MQ2008, five folds: test means of SortNet and LightGBM, settings chosen on validation only.

Queries without a relevant document are left out, gain is 2^grade - 1 (LETOR's convention).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.config import Config
from sortnet.data import Fold, read_fold
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit
from sortnet.types import I64, Queries

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
METRICS = ("ndcg@10", "map")
Settle = Callable[[Fold, Config], Config]
BARS = {"defaults": (0.700, 0.663), "--tune": (0.7035, 0.666)}


def run(quick: bool) -> list[dict[str, Any]]:
    """The defaults; bench_tune does the same with `--tune`, which takes ten times as long."""
    return measured("defaults", lambda fold, config: config, quick)


def measured(name: str, settle: Settle, quick: bool) -> list[dict[str, Any]]:
    """Test means over the folds with the settings that `settle` gives, beside LightGBM's."""
    if not DATA.exists():
        return [{"what": f"MQ2008, {name}", "note": "not measured: the data is not there"}]
    config = Config(committee=5, max_iter=2 if quick else Config().max_iter)
    ours, peers, seconds = [], [], []
    for k in (1,) if quick else range(1, 6):
        fold = read_fold(DATA / f"Fold{k}")
        assert fold.test is not None
        start = time.perf_counter()
        model = fit(fold.train, fold.vali, settle(fold, config))
        ours.append(figures(fold.test, model.sort(fold.test).order))
        seconds.append(time.perf_counter() - start)
        order = lightgbm_order(fold.train, fold.vali, fold.test, quick)
        peers.append(figures(fold.test, order))
    note = f"committee of 5, {max(seconds):.0f} s a fold at most"
    rows = [
        {
            "what": f"MQ2008, {len(ours)} folds, {name}: test {metric} / LightGBM's",
            "ours": mine, "peer": peer, "ratio": mine / peer,
            "bar": f"ours >= {bar}", "ok": bool(mine >= bar), "note": note,
        }
        for metric, bar, mine, peer in zip(
            METRICS, BARS[name], np.mean(ours, 0), np.mean(peers, 0), strict=True
        )
    ]  # fmt: skip
    if name == "defaults":
        rows.append(
            {
                "what": "MQ2008, seconds a fold with defaults, at most", "ours": max(seconds),
                "bar": "ours <= 120", "ok": max(seconds) <= 120, "note": "committee of 5",
            }
        )  # fmt: skip
    return rows


def figures(queries: Queries, order: I64) -> list[float]:
    found = evaluate(queries, order, METRICS, empty="skip")
    return [found[metric] for metric in METRICS]


def lightgbm_order(train: Queries, vali: Queries, test: Queries, quick: bool) -> I64:
    """LightGBM's lambdarank, tuned on validation NDCG@10 over 12 settings, early stopping."""
    import lightgbm

    # LightGBM's ranker hands on what it was given by the name that it calls deprecated.
    warnings.filterwarnings("ignore", message="The argument 'eval_set' is deprecated")
    best, best_score = None, -np.inf
    grid = list(product((7, 15, 31), (0.03, 0.1), (20, 60)))
    for leaves, rate, least in grid[:1] if quick else grid:
        model = lightgbm.LGBMRanker(
            n_estimators=500, num_leaves=leaves, learning_rate=rate, min_child_samples=least,
            random_state=0, n_jobs=2, verbose=-1,
        )  # fmt: skip
        model.fit(
            train.features, train.grades, group=train.sizes,
            eval_X=(vali.features,), eval_y=(vali.grades,), eval_group=[vali.sizes], eval_at=[10],
            callbacks=[lightgbm.early_stopping(50, verbose=False)],
        )  # fmt: skip
        score = evaluate(vali, order_of(model.predict(vali.features), vali), "ndcg@10")["ndcg@10"]
        if score > best_score:
            best, best_score = model, score
    assert best is not None
    return order_of(best.predict(test.features), test)


def order_of(scores: np.ndarray, queries: Queries) -> I64:
    return np.lexsort((-scores, queries.query_of_docs()))


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
