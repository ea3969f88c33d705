"""What the defaults were chosen by: RankQuality on the validation parts of MQ2008's five folds.

No test fold is read. Every row changes one thing of the first; a committee of 5, means over the
folds, empty queries left out. `python benchmarks/choose_defaults.py` writes choose_defaults.json.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from bench_mq2008 import DATA

from sortnet.config import Config
from sortnet.data import read_fold
from sortnet.learning.state import Iteration, State
from sortnet.rankers.sortnet import fit

RESULTS = Path(__file__).with_name("choose_defaults.json")
VARIANTS: tuple[dict[str, Any], ...] = (
    {},
    {"warm_start": False},
    {"seed": 1},
    {"seed": 2},
    {"hidden": (5,)},
    {"hidden": (20,)},
    {"weight_decay": 0.001},
    {"weight_decay": 0.01},
    {"weight_decay": 0.03},
    {"scaling": "quantile"},
    {"patience": 2},
    {"lr": 0.002},
    {"lr": 0.01},
    {"dropout": 0.2},
    {"units": "sigmoid"},
    {"committee": 1},
    {"comparator": "directranker", "hidden": (10, 5)},
)


def validated(settings: dict[str, Any]) -> dict[str, Any]:
    """Validation MAP and NDCG@10 of the kept iterations, means over five folds."""
    start = time.perf_counter()
    config = Config(committee=5, empty="skip").changed(**settings)
    found = []
    for k in range(1, 6):
        fold = read_fold(DATA / f"Fold{k}")
        best: dict[str, float] = {}

        def keep(record: Iteration, state: State, best: dict[str, float] = best) -> None:
            if record.best:
                best.update(record.measures["vali"], iteration=record.iteration)

        fit(fold.train, fold.vali, config, callbacks=[keep])
        found.append((best["map"], best["ndcg@10"], best["iteration"]))
    means = np.mean(found, axis=0).round(4).tolist()
    names = ("vali_map", "vali_ndcg@10", "best_iteration")
    seconds = round((time.perf_counter() - start) / 5, 1)
    return {"settings": settings, **dict(zip(names, means, strict=True)), "seconds_a_fold": seconds}


def main() -> None:
    rows = []
    for settings in VARIANTS:
        rows.append(validated(settings))
        print(json.dumps(rows[-1]), flush=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
