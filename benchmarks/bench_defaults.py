"""What the defaults of a training gain: its pairs and weights, its inputs, its epochs after --from.

NDCG@10 of the test part, or of the validation part where a default is chosen on it; the best
iteration is chosen on the validation part. `loop`: every way has the same inputs, `query+rank` for
MQ2008 and `normal` for made data. `inputs`: two kinds of data are comparable within their query
only, but not scaled so: each feature of each query is shifted, or multiplied and shifted, at
random. `from`: a model of half of the training queries is trained further on all, beside random
weights with the settings of that model.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from made_tables import EQUAL, TABLES, table
from measuring import NDCG, Row, difference, mq2008, ndcg, row, smaller, spread, test_part

from sortnet.config import Config
from sortnet.core import Queries
from sortnet.data import Fold
from sortnet.rankers.sortnet import complete_settings, fit, settings_from_model, with_epochs

DRAWS = 2  # of made data, and seeds of a fold of MQ2008
FIRST_WAY = "random, once, none"
WAYS: dict[str, dict[str, Any]] = {
    FIRST_WAY: {"pairs": "random", "pair_weight": "none"},
    "random, once, quality": {"pairs": "random", "pair_weight": "quality"},
    "compared, ten iterations, none": {"pairs": "compared", "pair_weight": "none"},
    "compared, ten iterations, quality": {"pairs": "compared", "pair_weight": "quality"},
    "wrong, ten iterations, quality": {"pairs": "wrong", "pair_weight": "quality"},
}
SCALINGS = ("query+rank", "query+rank+normal", "normal")
LONG = "3,000-document queries"  # takes as long as all other tables together
RANDOM = "random weights"
# Shares of the epochs of a training from random weights, and of its learning rate.
SHARES = {
    "from the model, all epochs": (1, 1),
    "from the model, half of the epochs (default)": (1 / 2, 1),
    "from the model, a quarter of the epochs, lr / 10": (1 / 4, 1 / 10),
}


class Outcome(NamedTuple):
    """What one training gives: figures of two parts, CPU seconds, answers that it asked for."""

    test: float
    vali: float
    seconds: float
    answers: int


def run(quick: bool) -> list[Row]:
    """The rows of the pairs, of the inputs, and of training further."""
    draws = range(1 if quick else DRAWS)
    made = [(table(name, seed), seed) for name in TABLES if name != LONG for seed in draws]
    digits = [(table("digits", seed), seed) for seed in draws]
    folds = mq2008([1] if quick else range(1, 6))
    seeded_folds = [(fold, seed) for fold in folds for seed in draws]
    data = {"tables": made, "digits": digits, "MQ2008": seeded_folds}
    inputs = {
        "made tables": [fold for fold, _ in made],
        "shifted queries": [shifted(seed) for seed in range(3)],
        "MQ2008": folds,
        "MQ2008, unscaled": [unscaled(fold, k) for k, fold in enumerate(folds)],
    }
    to_train_further = {
        "MQ2008": [case for case in seeded_folds if case[0] in folds[::2]],
        "friedman1, 20 noise features": made[: len(draws)],
        "products and exclusive-or": [(table("products and exclusive-or", s), s) for s in draws],
    }
    if quick:
        data = {name: [(smaller(fold), 0) for fold, _ in d[:1]] for name, d in data.items()}
        inputs = {name: [smaller(fold) for fold in d[:1]] for name, d in inputs.items()}
        to_train_further = {"tables": data["tables"]}
    rows: list[Row] = []
    for name, cases in data.items():
        rows += of_loop(name, cases, quick) if cases else []
    for name, folds_of_kind in inputs.items():
        rows += [of_inputs(name, folds_of_kind, quick)] if folds_of_kind else []
    for name, cases in to_train_further.items():
        rows += of_from(name, cases, quick) if cases else []
    return rows


def outcome(fold: Fold, seed: int, quick: bool, settings: dict[str, Any]) -> Outcome:
    """The outcome of one training with some settings."""
    config = Config(seed=seed, quality=NDCG, empty="skip").changed(**settings)
    return trained(fold, config.changed(epochs=2) if quick else config)


def trained(fold: Fold, config: Config, **options: Any) -> Outcome:
    started = time.process_time()
    model = fit(fold.train, fold.vali, config, **options)
    seconds = time.process_time() - started
    test, vali = (ndcg(part, model.order(part)) for part in (test_part(fold), fold.vali))
    return Outcome(test, vali, seconds, model.info["answers"])


def of_loop(data: str, cases: list[tuple[Fold, int]], quick: bool) -> Iterator[Row]:
    """A row for each way to choose and to weigh pairs."""
    scaling = "query+rank" if data == "MQ2008" else "normal"
    first: Any = None
    for way, settings in WAYS.items():
        changes = {"scaling": scaling, **settings}
        outcomes = spread(outcome, [(fold, seed, quick, changes) for fold, seed in cases])
        test, vali, seconds, answers = np.transpose(outcomes)
        first = (test, answers) if first is None else first
        yield row(
            f"loop, {data}, {way}: {NDCG}",
            test.mean(),
            first[0].mean(),
            note=f"{difference(test, first[0])} SE to {FIRST_WAY}, {len(cases)} trainings; "
            f"validation {vali.mean():.4f}; {seconds.mean():.1f} CPU seconds; "
            f"{np.mean(answers / first[1]):.2f} of its answers",
        )


def of_inputs(kind: str, folds: list[Fold], quick: bool) -> Row:
    """The scaling that is taken by default, beside the best of the candidates."""
    figures = {}
    for scaling in SCALINGS:
        cases = [(fold, k, quick, with_missing(scaling, fold)) for k, fold in enumerate(folds)]
        figures[scaling] = np.mean([each.test for each in spread(outcome, cases)])
    taken = {
        str(complete_settings(Config(), fold.train).scaling).removesuffix("+missing")
        for fold in folds
    }
    by_scaling = ", ".join(f"{scaling} {value:.4f}" for scaling, value in figures.items())
    return row(
        f"inputs, {kind}: NDCG@10 of {' and '.join(sorted(taken))} / best of 3",
        min(figures[scaling] for scaling in taken),
        max(figures.values()),
        bar="ours >= peer - 0.006",
        note=f"{by_scaling}; {len(folds)} data sets",
    )


def with_missing(scaling: str, fold: Fold) -> dict[str, str]:
    """The setting of a scaling for a fold, whose values may be missing."""
    is_missing = np.isnan(fold.train.features).any()
    return {"scaling": f"{scaling}+missing" if is_missing else scaling}


def shifted(draw: int) -> Fold:
    """Queries of 20 documents with five features, each with a shift of its own."""
    rng = np.random.default_rng(draw)
    return Fold(*(shifted_queries(rng, n) for n in (60, 20, 60)))


def shifted_queries(rng: np.random.Generator, n: int) -> Queries:
    """The documents differ within [0, 1], their queries within [-10, 10]."""
    x = rng.uniform(0, 1, (n * 20, 5))
    truth = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(0, 0.2, n * 20)
    grades = np.digitize(truth, np.quantile(truth, EQUAL))
    shift = rng.uniform(-10, 10, (n, 5)).repeat(20, axis=0)
    return Queries.from_arrays((shift + x).astype(np.float32), grades, group=[20] * n)


def unscaled(fold: Fold, seed: int) -> Fold:
    """Multiply and shift each feature of each query."""
    rng = np.random.default_rng([1, seed])
    parts = []
    for part in (fold.train, fold.vali, test_part(fold)):
        shape, query = (len(part), part.n_features), part.query_of_docs()
        factor, shift = np.exp(rng.normal(0, 1, shape))[query], rng.normal(0, 1, shape)[query]
        parts.append(part.with_features((part.features * factor + shift).astype(np.float32)))
    return Fold(*parts)


def of_from(data: str, cases: Iterable[tuple[Fold, int]], quick: bool) -> Iterator[Row]:
    """A row for each way to train a model of half of the queries further on all."""
    trainings = spread(further, [(fold, seed, quick) for fold, seed in cases])
    for way in trainings[0]:
        test, vali, seconds, _ = np.mean([outcomes[way] for outcomes in trainings], axis=0)
        yield row(
            f"{data}, {way}: validation {NDCG} / from random weights",
            vali,
            np.mean([outcomes[RANDOM].vali for outcomes in trainings]),
            note=f"{seconds:.1f} CPU seconds, test {test:.4f}, means of {len(trainings)}",
        )


def further(fold: Fold, seed: int, quick: bool) -> dict[str, Outcome]:
    """The outcome of every way to train further."""
    order = np.random.default_rng(seed).permutation(len(fold.train))
    half = fold.train.take(np.sort(order[: len(order) // 2]))
    config = Config(seed=seed, quality=NDCG)
    model = fit(half, fold.vali, config.changed(epochs=2) if quick else config)
    start = settings_from_model(model.config, quality=NDCG)
    half_of_epochs = with_epochs(fold.train, start).training.epochs
    assert half_of_epochs is not None
    outcomes = {RANDOM: trained(fold, model.config)}
    for way, (epochs, rate) in SHARES.items():
        changes = {
            "epochs": max(1, round(2 * epochs * half_of_epochs)),
            "lr": start.training.lr * rate,
        }
        outcomes[way] = trained(fold, start.changed(**changes), from_model=model)
    return outcomes
