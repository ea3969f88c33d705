"""Pairs in the right order where training and validation part are asked from one budget.

A judge answers about 2 % or 5 % as many pairs as the training part has, a fifth of them about the
validation part, whose judged pairs choose the iteration by accuracy. Measured are all pairs of
different grades of the validation part, and NDCG@10 of its grades, which the run never sees. The
settings are the defaults, but for the strategy; no test part is read.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from bench_few_answers import SETS, SHARES, Data
from bench_tables import smaller

from sortnet.config import Config
from sortnet.core import F32, I32, I64, Queries
from sortnet.lab.pair_efficiency import countable
from sortnet.learning.judges import judge_by_grades
from sortnet.learning.pairs_to_ask import pairs_of_grades
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit

DATA = tuple(
    data for data in SETS if data.name in ("digits", "friedman1", "products", "an absolute band")
)
STRATEGIES = ("uncertain", "top", "random")
FIRST = "uncertain"  # compared with each of the others
SEEDS = 3


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each data set and strategy: ours by 2 % of the answers, peer by 5 %."""
    jobs = [
        (data, strategy, seed, quick)
        for data in DATA
        for strategy in STRATEGIES
        for seed in range(1 if quick else SEEDS)
    ]
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), get_context("spawn")) as pool:
        figures = dict(zip(jobs, pool.map(figures_of, *zip(*jobs, strict=True)), strict=True))
    return [
        row_of(
            data,
            strategy,
            np.array([figures[job] for job in jobs if job[:2] == (data, strategy)]),
            np.array([figures[job] for job in jobs if job[:2] == (data, FIRST)]),
        )
        for data in DATA
        for strategy in STRATEGIES
    ]


def figures_of(data: Data, strategy: str, seed: int, quick: bool) -> list[tuple[float, float]]:
    """Share of pairs in the right order and NDCG@10, for each share of the answers."""
    torch.set_num_threads(1)
    fold = data.load[0](seed)
    fold = smaller(fold) if quick else fold
    train, vali = fold.train, fold.vali
    figures = []
    for share in SHARES:
        config = Config(
            pairs=strategy, judgements=max(2, round(share * countable(train)[0])), seed=seed
        )
        config = config.changed(epochs=2) if quick else config
        model = fit(asked(train), asked(vali), config)
        order = model.order(vali)
        ndcg = evaluate(vali, order, "ndcg@10", empty="skip")["ndcg@10"]
        figures.append((share_right(vali, order), ndcg))
    return figures


def asked(part: Queries) -> Queries:
    """The part without grades, whose judge knows them."""
    return replace(part, grades=np.zeros_like(part.grades), judge=partial(_answers, part))


def _answers(graded: Queries, part: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    return judge_by_grades(graded, i, j)


def share_right(part: Queries, order: I64) -> float:
    """The share of all pairs of different grades whose better document stands first."""
    place = np.empty(part.n_docs, np.int64)
    place[order] = np.arange(part.n_docs)
    pairs = pairs_of_grades(part)
    return float(np.mean(place[pairs.i] < place[pairs.j]))


def row_of(data: Data, strategy: str, figures: np.ndarray, first: np.ndarray) -> dict[str, Any]:
    """The row of a strategy; of each seed and share of answers the pairs right and NDCG@10."""
    right, ndcg = figures.mean(axis=0).T
    text = f"ndcg@10 {ndcg[0]:.4f} / {ndcg[1]:.4f}, {len(figures)} seeds"
    if strategy != FIRST:
        gains = (figures - first)[:, :, 0]
        errors = gains.std(axis=0, ddof=min(1, len(gains) - 1)) / np.sqrt(len(gains))
        less = [
            f"{gain:+.4f} ± {error:.4f}"
            for gain, error in zip(gains.mean(axis=0), errors, strict=True)
        ]
        text = f"less {FIRST} {' / '.join(less)}; {text}"
    return {
        "what": f"asked, {data.name}, {strategy}: validation pairs right by 2 % / 5 % of answers",
        "ours": right[0],
        "peer": right[1],
        "note": text,
    }


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
