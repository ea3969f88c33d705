"""One training, or the loop: which pairs are learned from, and what a pair weighs.

Every way has the same inputs, `query+rank` for MQ2008 and `normal` for made data. Test NDCG@10 with
gain 2^grade - 1, queries without a relevant document left out; the best iteration, or look, is
chosen on the validation part.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from made_tables import TABLES, table

from sortnet.config import Config
from sortnet.core import Queries
from sortnet.data import Fold, read_fold
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
MEASURE = "ndcg@10"
DRAWS = 2  # of made data, and seeds of MQ2008
FIRST_WAY = "random, once, none"
WAYS: dict[str, dict[str, Any]] = {
    FIRST_WAY: {"pairs": "random", "pair_weight": "none"},
    "random, once, quality": {"pairs": "random", "pair_weight": "quality"},
    "compared, ten iterations, none": {"pairs": "compared", "pair_weight": "none"},
    "compared, ten iterations, quality": {"pairs": "compared", "pair_weight": "quality"},
    "wrong, ten iterations, quality": {"pairs": "wrong", "pair_weight": "quality"},
}


@dataclass(frozen=True)
class Outcome:
    """What one training gives: figures of two parts, CPU seconds, answers that it asked for."""

    test: float
    vali: float
    seconds: float
    answers: int


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each way and kind of data."""
    torch.set_num_threads(1)
    found = []
    for data, scaling in (("tables", "normal"), ("digits", "normal"), ("MQ2008", "query+rank")):
        folds = list(_folds(data, quick))
        if folds:
            found += _rows(data, folds, scaling, quick)
        else:
            found.append({"what": f"loop, {data}", "note": "not measured: the data is not there"})
    return found


def _folds(data: str, quick: bool) -> Iterator[tuple[Fold, int]]:
    """The folds or draws of some data, with the seed of each training."""
    if data == "MQ2008":
        numbers = range(1, 2 if quick else 6)
        folds = [read_fold(DATA / f"Fold{k}") for k in numbers] if DATA.exists() else []
        yield from ((fold, seed) for fold in folds for seed in range(1 if quick else DRAWS))
        return
    names = ["digits"] if data == "digits" else [*TABLES][: 1 if quick else -1]
    for name in names:
        for seed in range(1 if quick else DRAWS):
            yield table(name, seed), seed


def _rows(
    data: str, folds: list[tuple[Fold, int]], scaling: str, quick: bool
) -> Iterator[dict[str, Any]]:
    first: list[Outcome] = []
    for way, settings in WAYS.items():
        outcomes = [_outcome(fold, seed, scaling, settings, quick) for fold, seed in folds]
        first = first or outcomes
        test, vali, seconds, answers = np.transpose(
            [[o.test, o.vali, o.seconds, o.answers] for o in outcomes]
        )
        gain = test - [outcome.test for outcome in first]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else 0.0
        asked = np.mean(answers / [outcome.answers for outcome in first])
        yield {
            "what": f"loop, {data}, {way}: {MEASURE}",
            "ours": test.mean(), "peer": np.mean([outcome.test for outcome in first]),
            "ratio": test.mean() / np.mean([outcome.test for outcome in first]),
            "note": f"{gain.mean():+.4f} ± {error:.4f} SE to {FIRST_WAY}, {len(folds)} trainings; "
            f"validation {vali.mean():.4f}; {seconds.mean():.1f} CPU seconds; "
            f"{asked:.2f} of its answers",
        }  # fmt: skip


def _outcome(fold: Fold, seed: int, scaling: str, settings: dict[str, Any], quick: bool) -> Outcome:
    config = Config(seed=seed, scaling=scaling, quality=MEASURE, empty="skip").changed(**settings)
    if quick:
        config = config.changed(epochs=2)
    started = time.process_time()
    model = fit(fold.train, fold.vali, config)
    seconds = time.process_time() - started
    assert fold.test is not None

    def quality(part: Queries) -> float:
        return evaluate(part, model.order(part), (MEASURE,), empty="skip")[MEASURE]

    return Outcome(quality(fold.test), quality(fold.vali), seconds, model.info["answers"])
