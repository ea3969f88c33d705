"""Quality on the test part by few answers: 2 % and 5 % of all pairs of documents of one query.

The strategies that choose by what was learned spend the answers over the ten trainings of a run.
The validation part has its grades, which cost no answers here. Scaling and weight decay are fixed
and every pair weighs 1, so that nothing but the pairs differs, and only the answers are known.
NDCG@10 has the gain 2^r - 1; queries without a relevant document are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from bench_mq2008 import DATA
from bench_tables import smaller
from made_tables import table

from sortnet.config import DEFAULTS, Config
from sortnet.data import Fold, read_fold
from sortnet.data.digits import digits_fold
from sortnet.lab.pair_efficiency import countable
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit

SHARES = (0.02, 0.05)  # of all pairs
STRATEGIES = ("top", "uncertain", "compared", "random")
DEFAULT = str(DEFAULTS["trees of few answers"]["pairs"])
NEAR_BEST = 0.005  # how far the default may be below the best strategy on a made table
DRAWS = 4


@dataclass(frozen=True)
class Data:
    """A data set: its draws, the scaling, and the bars of the default by 2 % and 5 %."""

    name: str
    load: tuple[Callable[[int], Fold], ...]  # from a draw, each with its number
    scaling: str
    bars: tuple[float, float] | None = None
    is_made: bool = True


def fold_of_mq2008(number: int, draw: int) -> Fold:
    """A fold, whose draws differ by the seed of the training alone."""
    del draw
    return read_fold(DATA / f"Fold{number}")


SETS = (
    Data("digits", (digits_fold,), "normal", (0.955, 0.963)),
    Data("friedman1", (partial(table, "friedman1, 20 noise features"),), "normal", (0.962, 0.966)),
    Data("products", (partial(table, "products and exclusive-or"),), "normal"),
    Data("an absolute band", (partial(table, "an absolute band"),), "normal"),
    Data("counts", (partial(table, "counts"),), "normal"),
    Data(
        "MQ2008, folds 1 and 4", tuple(partial(fold_of_mq2008, n) for n in (1, 4)), "query+rank",
        (0.700, 0.706), is_made=False,
    ),
)  # fmt: skip


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each data set and strategy: ours by 2 % of the answers, peer by 5 %."""
    sets = [data for data in SETS if data.is_made or DATA.exists()]
    jobs = [
        (data, strategy, part, draw, quick)
        for data in sets
        for strategy in STRATEGIES
        for part in range(1 if quick else len(data.load))
        for draw in range(1 if quick else DRAWS)
    ]
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), get_context("spawn")) as pool:
        qualities = list(pool.map(quality_by_answers, *zip(*jobs, strict=True)))
    rows = []
    for data in sets:
        by_strategy = {
            strategy: np.array(
                [q for job, q in zip(jobs, qualities, strict=True) if job[:2] == (data, strategy)]
            )
            for strategy in STRATEGIES
        }
        rows += rows_of(data, by_strategy)
    return rows


def quality_by_answers(
    data: Data, strategy: str, part: int, draw: int, quick: bool
) -> tuple[list[float], list[float]]:
    """Test and validation NDCG@10 by each share of the answers."""
    torch.set_num_threads(1)
    fold = data.load[part](draw)
    fold = smaller(fold) if quick else fold
    assert fold.test is not None
    n_pairs = countable(fold.train)[0]
    test_figures: list[float] = []
    vali_figures: list[float] = []
    for share in SHARES:
        config = Config(
            quality="ndcg@10", empty="skip", scaling=data.scaling, pairs=strategy,
            judgements=max(1, round(share * n_pairs)), seed=draw,
        ).changed(
            weight_decay=DEFAULTS["trees"]["weight_decay"], pair_weight="none",
            epochs=2 if quick else None,
        )  # fmt: skip
        model = fit(fold.train, fold.vali, config)
        order = model.order(fold.test)
        test_figures.append(evaluate(fold.test, order, "ndcg@10", empty="skip")["ndcg@10"])
        vali_figures.append(float(model.info["quality"]))
    return test_figures, vali_figures


def rows_of(data: Data, by_strategy: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """The rows of a data set; of each strategy (runs, 2, shares), test and validation figures."""
    means = {strategy: figures.mean(axis=0) for strategy, figures in by_strategy.items()}
    rows = []
    for strategy, (test, vali) in means.items():
        row = {
            "what": f"few answers, {data.name}, {strategy}: test ndcg@10 by 2 % / 5 % of them",
            "ours": test[0], "peer": test[1],
            "note": f"validation {vali[0]:.4f} / {vali[1]:.4f}, {len(by_strategy[strategy])} runs",
        }  # fmt: skip
        if strategy == DEFAULT and data.bars is not None:
            row["bar"] = ">= {}, peer >= {}".format(*data.bars)
            row["ok"] = bool(np.all(test >= data.bars))
        rows.append(row)
    if data.is_made:
        behind = means[DEFAULT][0] - np.max([figures[0] for figures in means.values()], axis=0)
        rows.append(
            {
                "what": f"few answers, {data.name}: {DEFAULT} less the best strategy, 2 % / 5 %",
                "ours": behind[0], "peer": behind[1], "bar": f">= -{NEAR_BEST}, peer too",
                "ok": bool(np.all(behind >= -NEAR_BEST)),
            }
        )  # fmt: skip
    return rows


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
