"""The inputs: test NDCG@10 with each candidate of the scaling, and the scaling that is taken.

All other settings are the defaults, and the best iteration is chosen on the validation part. Gain
2^grade - 1, queries without a relevant document left out. Two kinds of data are comparable within
their query only, but not scaled so: each feature of each query is shifted, or multiplied and
shifted, at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from bench_mq2008 import DATA
from bench_tables import smaller
from made_tables import EQUAL, TABLES, table

from sortnet.config import Config
from sortnet.core import Queries
from sortnet.data import Fold, read_fold
from sortnet.metrics import evaluate
from sortnet.rankers.complete_settings import complete_settings
from sortnet.rankers.sortnet import fit
from sortnet.threads import set_threads

SCALINGS = ("query+rank", "query+rank+normal", "normal")
DRAWS = 3
NEAR_BEST = 0.006  # how far the scaling that is taken may be below the best of the three
LONG = "3,000-document queries"  # takes as long as all others together


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each kind of data: the scaling that is taken, beside the best of the three."""
    set_threads(1)
    kinds = {
        "made tables": _made(1 if quick else DRAWS),
        "shifted queries": _shifted(1 if quick else DRAWS),
    }
    if DATA.exists():
        kinds["MQ2008"] = _of_mq2008(np.random.default_rng(0), changed=False)
        kinds["MQ2008, unscaled"] = _of_mq2008(np.random.default_rng(1), changed=True)
    return [_row(kind, list(folds)[: 1 if quick else None], quick) for kind, folds in kinds.items()]


def _row(kind: str, folds: list[Fold], quick: bool) -> dict[str, Any]:
    """The figures of all scalings on one kind of data."""
    if quick:
        folds = [smaller(fold) for fold in folds]
    figures = {
        scaling: np.mean([_ndcg(fold, scaling, seed) for seed, fold in enumerate(folds)])
        for scaling in SCALINGS
    }
    taken = {
        str(complete_settings(Config(), fold.train).scaling).removesuffix("+missing")
        for fold in folds
    }
    ours, peer = min(figures[scaling] for scaling in taken), max(figures.values())
    each = ", ".join(f"{scaling} {value:.4f}" for scaling, value in figures.items())
    return {
        "what": f"inputs, {kind}: NDCG@10 of {' and '.join(sorted(taken))} / best of 3",
        "ours": ours, "peer": peer, "ratio": ours / peer, "bar": f"ours >= peer - {NEAR_BEST}",
        "ok": bool(ours >= peer - NEAR_BEST), "note": f"{each}; {len(folds)} data sets",
    }  # fmt: skip


def _ndcg(fold: Fold, scaling: str, seed: int) -> float:
    """NDCG@10 on the test part of a model that learned from the inputs of a scaling."""
    suffix = "+missing" if np.isnan(fold.train.features).any() else ""
    config = Config(scaling=f"{scaling}{suffix}", seed=seed, quality="ndcg@10")
    model = fit(fold.train, fold.vali, config)
    assert fold.test is not None
    return evaluate(fold.test, model.order(fold.test), "ndcg@10", empty="skip")["ndcg@10"]


def _made(draws: int) -> Iterator[Fold]:
    """All made tables but the longest."""
    for name in TABLES:
        if name != LONG:
            yield from (table(name, seed) for seed in range(draws))


def _shifted(draws: int) -> Iterator[Fold]:
    """Queries of 20 documents with five features, each with a shift of its own."""
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        yield Fold(*(_shifted_queries(rng, n) for n in (60, 20, 60)))


def _shifted_queries(rng: np.random.Generator, n: int) -> Queries:
    """The documents differ within [0, 1], their queries within [-10, 10]."""
    x = rng.uniform(0, 1, (n * 20, 5))
    truth = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(0, 0.2, n * 20)
    grades = np.digitize(truth, np.quantile(truth, EQUAL))
    shift = rng.uniform(-10, 10, (n, 5)).repeat(20, axis=0)
    return Queries.from_arrays((shift + x).astype(np.float32), grades, group=[20] * n)


def _of_mq2008(rng: np.random.Generator, *, changed: bool) -> Iterator[Fold]:
    """The five folds, with features as they are, or as if nothing had scaled them."""
    for number in range(1, 6):
        fold = read_fold(DATA / f"Fold{number}")
        assert fold.test is not None
        parts = (fold.train, fold.vali, fold.test)
        yield Fold(*(_unscaled(part, rng) for part in parts)) if changed else fold


def _unscaled(queries: Queries, rng: np.random.Generator) -> Queries:
    """Multiply and shift each feature of each query."""
    shape = (len(queries), queries.n_features)
    query = queries.query_of_docs()
    factor, shift = np.exp(rng.normal(0, 1, shape))[query], rng.normal(0, 1, shape)[query]
    return queries.with_features((queries.features * factor + shift).astype(np.float32))


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
