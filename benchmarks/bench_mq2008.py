"""MQ2008, five folds, three seeds: test means of SortNet's defaults and of LightGBM, tuned.

Queries without a relevant document are left out, gain is 2^grade - 1 (LETOR's convention). The
settings of both come from training and validation parts only.
"""

from __future__ import annotations

import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sortnet.config import Config
from sortnet.core import I64, Queries
from sortnet.data import Fold, read_fold
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
BARS = {"ndcg@10": 0.710, "map": 0.675}
SECONDS = 8  # of CPU, a fold
SEEDS = 3


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each measure, and one for the CPU seconds of a fold."""
    if not DATA.exists():
        return [{"what": "MQ2008, defaults", "note": "not measured: the data is not there"}]
    torch.set_num_threads(1)
    folds = [read_fold(DATA / f"Fold{k}") for k in ((1,) if quick else range(1, 6))]
    ours, seconds = zip(
        *(learned(fold, seed, quick) for fold in folds for seed in range(1 if quick else SEEDS)),
        strict=True,
    )
    by_seed = np.reshape(ours, (len(folds), -1, len(BARS))).mean(axis=0)
    peers = np.mean([figures(fold.test, lightgbm_order(fold, quick)) for fold in folds], axis=0)
    note = f"{len(by_seed)} seeds, from {{}} to {{}}; peer: tuned on the validation parts"
    found = [
        {
            "what": f"MQ2008, {len(folds)} folds, defaults: test {metric} / LightGBM's",
            "ours": mine.mean(), "peer": peer, "ratio": mine.mean() / peer,
            "bar": f"ours >= {bar}", "ok": bool(mine.mean() >= bar),
            "note": note.format(*(f"{value:.4f}" for value in (mine.min(), mine.max()))),
        }
        for (metric, bar), mine, peer in zip(BARS.items(), by_seed.T, peers, strict=True)
    ]  # fmt: skip
    return [
        *found,
        {
            "what": "MQ2008, CPU seconds a fold with defaults, mean",
            "ours": np.mean(seconds), "bar": f"ours <= {SECONDS}",
            "ok": bool(np.mean(seconds) <= SECONDS),
            "note": f"{max(seconds):.0f} at most",
        },
    ]  # fmt: skip


def learned(fold: Fold, seed: int, quick: bool) -> tuple[list[float], float]:
    """Test figures of the defaults on a fold, and the CPU seconds it took."""
    started = time.process_time()
    config = Config(seed=seed).changed(epochs=2) if quick else Config(seed=seed)
    model = fit(fold.train, fold.vali, config)
    assert fold.test is not None
    return figures(fold.test, model.sort(fold.test).order), time.process_time() - started


def figures(queries: Queries | None, order: I64) -> list[float]:
    assert queries is not None
    found = evaluate(queries, order, tuple(BARS), empty="skip")
    return [found[metric] for metric in BARS]


def lightgbm_order(fold: Fold, quick: bool) -> I64:
    """LightGBM's lambdarank, tuned on validation NDCG@10 over 12 settings, early stopping."""
    import lightgbm

    # LightGBM's ranker hands on what it was given by the name that it calls deprecated.
    warnings.filterwarnings("ignore", message="The argument 'eval_set' is deprecated")
    train, vali, test = fold.train, fold.vali, fold.test
    assert test is not None
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
