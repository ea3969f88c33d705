"""A model of half of the training queries, trained further on all: by how much of the budget.

MQ2008 (folds 1, 3 and 5) and two draws of two made tables, two seeds. A run that begins with the
model's weights is compared with one from random weights on all queries, both with the settings of
the model of half of the queries. The validation parts choose the default; it is half of the epochs.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from made_tables import table

from sortnet.config import Config
from sortnet.core import Queries
from sortnet.data import Fold, read_fold
from sortnet.metrics import evaluate
from sortnet.rankers.from_model import settings_from_model, with_epochs
from sortnet.rankers.sortnet import Model, fit

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
FOLDS = (1, 3, 5)
MADE = ("friedman1, 20 noise features", "products and exclusive-or")
SEEDS = 2
METRIC = "ndcg@10"
HALF_ALONE, RANDOM = "half of the queries alone", "random weights"
# Shares of the epochs of a run from random weights, and of its learning rate.
SHARES = {
    "from the model, all epochs": (1, 1),
    "from the model, half of the epochs (default)": (1 / 2, 1),
    "from the model, half of the epochs, lr / 3": (1 / 2, 1 / 3),
    "from the model, a quarter of the epochs, lr / 10": (1 / 4, 1 / 10),
}


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each data set and way of training: validation NDCG@10, CPU seconds, the test."""
    torch.set_num_threads(1)
    found: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    for name, seed, fold in _data(quick):
        for how, figures in _measured(fold, seed, quick):
            found[name, how].append(figures)
    rows = []
    for (name, how), runs in found.items():
        vali, test, seconds = np.mean(runs, axis=0)
        peer = np.mean([of_random[0] for of_random in found[name, RANDOM]])
        rows.append(
            {
                "what": f"{name}, {how}: validation {METRIC} / from random weights",
                "ours": vali,
                "peer": peer,
                "ratio": vali / peer,
                "note": f"{seconds:.1f} CPU seconds, test {test:.4f}, means of {len(runs)}",
            }
        )
    return rows


def _data(quick: bool) -> Iterator[tuple[str, int, Fold]]:
    for seed in range(1 if quick else SEEDS):
        for name in MADE[:1] if quick else MADE:
            yield name, seed, table(name, seed)
        if DATA.exists() and not quick:
            for number in FOLDS:
                yield "MQ2008", seed, read_fold(DATA / f"Fold{number}")


def _measured(
    fold: Fold, seed: int, quick: bool
) -> Iterator[tuple[str, tuple[float, float, float]]]:
    """Every way of training: its RankQuality on validation and test part, and its CPU seconds."""
    order = np.random.default_rng(seed).permutation(len(fold.train))
    half = fold.train.take(np.sort(order[: len(order) // 2]))
    config = Config(seed=seed, quality=METRIC)
    if quick:
        config = config.changed(epochs=2, committee=2, scaling="query")
    model = fit(half, fold.vali, config)
    yield HALF_ALONE, _figures(model, fold, 0.0)
    started = time.process_time()
    whole = fit(fold.train, fold.vali, model.config)
    yield RANDOM, _figures(whole, fold, time.process_time() - started)
    start = settings_from_model(model.config, quality=METRIC)
    half_of_epochs = with_epochs(fold.train, start).training.epochs
    assert half_of_epochs is not None
    for how, (epochs, rate) in SHARES.items():
        settings = start.changed(
            epochs=1 if quick else max(1, round(2 * epochs * half_of_epochs)),
            lr=start.training.lr * rate,
        )
        started = time.process_time()
        further = fit(fold.train, fold.vali, settings, from_model=model)
        yield how, _figures(further, fold, time.process_time() - started)


def _figures(model: Model, fold: Fold, seconds: float) -> tuple[float, float, float]:
    return _quality(model, fold.vali), _quality(model, fold.test), seconds


def _quality(model: Model, queries: Queries | None) -> float:
    assert queries is not None
    return evaluate(queries, model.order(queries), METRIC, empty="skip")[METRIC]
