"""The study of pair efficiency: quality on the test part against pairs and answers, by strategy.

Each strategy learns within budgets of answers that double from 250; the reference learns from all
pairs. Shares: of answers, of all pairs of documents of one query, as any of them could have been
asked about; of pairs, of those with a better document, as only they can be learned from. Scaling,
hidden units and weight decay are fixed, and the committee is the default one, so that nothing
but the pairs differs. The rows keep the curves, which `draw_pairs.py` draws.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from bench_mq2008 import DATA
from bench_tables import mean_spearman, smaller
from made_tables import table

from sortnet.config import PAIRS, Config
from sortnet.data import Fold, read_fold
from sortnet.data.digits import digits_fold
from sortnet.learning.state import Iteration
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import Model, fit
from sortnet.types import Queries

FIRST = 250  # answers
LAST = 0.5  # of all that could be asked: the largest budget is no more
REACHED = 0.99  # of the quality of all pairs
SEEDS = 3
BOOTSTRAPS = 2000
STRATEGIES = tuple(name for name in PAIRS if name != "all")
ACTIVE = "uncertain"  # the strategy with the bars: the best one would be chosen on test parts
BARS = {"MQ2008": (0.02, 0.04), "digits": (0.10, 1.0)}  # shares of pairs and of answers, at most

Quality = Callable[[Model, Queries], float]
Point = tuple[float, float, float]  # share of pairs, share of answers, quality


@dataclass(frozen=True)
class Study:
    """A data set of the study: draws or folds, the scaling, and the measure."""

    name: str
    load: Callable[[int], Fold]
    draws: int
    scaling: str
    measure: str = "ndcg@10"

    def quality(self, model: Model, test: Queries) -> float:
        if self.measure == "spearman":
            return mean_spearman(test, model.scores(test))
        order = model.order(test)
        return evaluate(test, order, self.measure, empty="skip")[self.measure]


def mq2008(draw: int) -> Fold:
    return read_fold(DATA / f"Fold{draw + 1}")


def friedman1(draw: int) -> Fold:
    return table("friedman1, 20 noise features", draw)


def heavy_tails(draw: int) -> Fold:
    return table("heavy tails", draw)


STUDIES = (
    Study("MQ2008", mq2008, 5, "query+rank"),
    Study("digits", digits_fold, 3, "quantile", "spearman"),
    Study("friedman1", friedman1, 3, "quantile"),
    Study("heavy tails", heavy_tails, 3, "quantile"),
)


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each data set and strategy."""
    studies = [study for study in STUDIES if study.name != "MQ2008" or DATA.exists()]
    jobs = [
        (study, draw, seed, quick)
        for study in studies
        for draw in range(1 if quick else study.draws)
        for seed in range(1 if quick else SEEDS)
    ]
    with ProcessPoolExecutor(min(2, os.cpu_count() or 1), get_context("spawn")) as pool:
        curves = list(pool.map(curves_of, *zip(*jobs, strict=True)))
    return [
        row
        for study in studies
        for row in rows_of(
            study, [found for job, found in zip(jobs, curves, strict=True) if job[0] is study]
        )
    ]


def curves_of(study: Study, draw: int, seed: int, quick: bool) -> dict[str, list[Point]]:
    """{strategy: a point for each budget} on one draw with one seed; `all` has one point."""
    torch.set_num_threads(1)
    fold = study.load(draw)
    fold = smaller(fold) if quick else fold
    points = {"all": [point(study, fold, seed, "all", None, quick)]}
    for strategy in STRATEGIES:
        budgets = [FIRST] if quick else budgets_of(fold.train)
        points[strategy] = [point(study, fold, seed, strategy, budget, quick) for budget in budgets]
    return points


def point(
    study: Study, fold: Fold, seed: int, strategy: str, budget: int | None, quick: bool
) -> Point:
    """What one run learned from, as shares, and how well it sorts the test part."""
    assert fold.test is not None
    # Five sorts: the rounds of a budget are four, whatever is found on the way.
    config = Config(
        pairs=strategy, judgements=budget, scaling=study.scaling, hidden=(32,), tune_budget=0,
        max_stale=None, max_iter=5, seed=seed, empty="skip" if study.name == "MQ2008" else "zero",
    )  # fmt: skip
    config = config.changed(epochs=2) if quick else config
    seen: list[Iteration] = []
    model = fit(fold.train, fold.vali, config, callbacks=[lambda record, _: seen.append(record)])
    answerable, learnable = countable(fold.train)
    learned = seen[-2] if len(seen) > 1 else seen[-1]  # nothing is learned after the last sort
    answers = learned.observed["train"]["answers"] / answerable
    return learned.tp / learnable, answers, study.quality(model, fold.test)


def budgets_of(train: Queries) -> list[int]:
    """Doubling from the first."""
    largest = LAST * countable(train)[0]
    return [FIRST * 2**k for k in range(64) if FIRST * 2**k <= largest]


def countable(queries: Queries) -> tuple[int, int]:
    """All pairs of documents of one query, and those of different grades."""
    key = queries.query_of_docs().astype(np.int64) << 32 | queries.grades
    alike = np.unique(key, return_counts=True)[1]
    every = int((queries.sizes * (queries.sizes - 1) // 2).sum())
    return every, every - int((alike * (alike - 1) // 2).sum())


def rows_of(study: Study, curves: list[dict[str, list[Point]]]) -> Iterator[dict[str, Any]]:
    """The rows of one data set, over its draws and seeds."""
    reference = np.array([found["all"][0][2] for found in curves])
    yield {
        "what": f"pairs, {study.name}: {study.measure} of all pairs", "ours": reference.mean(),
        "note": f"± {error(reference):.4f} SE, {len(curves)} runs",
        "curve": curve_of(study, "all", curves),
    }  # fmt: skip
    for strategy in STRATEGIES:
        yield row_of(study, strategy, curves, reference)


def row_of(
    study: Study, strategy: str, curves: list[dict[str, list[Point]]], reference: np.ndarray
) -> dict[str, Any]:
    """The shares of pairs (ours) and of answers (peer) at which the strategy is good enough."""
    found = np.array([each[strategy] for each in curves])  # (runs, budgets, 3)
    ours, peer = crossing(found, reference)
    rng = np.random.default_rng(0)
    again = rng.integers(len(curves), size=(BOOTSTRAPS, len(curves)))
    shares = np.array([crossing(found[k], reference[k]) for k in again])
    # Where the curve never is good enough, all pairs are needed.
    low, high = np.quantile(np.nan_to_num(shares, nan=1.0), (0.025, 0.975), axis=0)
    best = found[:, :, 2].mean(0).max() / reference.mean()
    note = (
        f"pairs {low[0]:.2%} to {high[0]:.2%}, answers {low[1]:.2%} to {high[1]:.2%}"
        if np.isfinite(ours)
        else "not reached within the budgets"
    )
    bar: dict[str, Any] = {}
    if strategy == ACTIVE and study.name in BARS:
        pairs, answers = BARS[study.name]
        bar["bar"] = f"<= {pairs:g}" + (f", peer <= {answers:g}" if answers < 1 else "")
        bar["ok"] = bool(ours <= pairs and peer <= answers)
    return {
        "what": f"pairs, {study.name}, {strategy}: share of pairs / of answers for {REACHED:.0%}",
        "ours": ours if np.isfinite(ours) else None, "peer": peer if np.isfinite(peer) else None,
        "note": f"{note}; {best:.1%} of all pairs' quality at best, {len(curves)} runs",
        "curve": curve_of(study, strategy, curves), **bar,
    }  # fmt: skip


def crossing(found: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Shares of pairs and of answers where the mean curve first is good enough; NaN: nowhere.

    Between two budgets the quality is taken to grow with the logarithm of the share.
    """
    pairs, answers, quality = found.mean(0).T
    enough = REACHED * reference.mean()
    above = np.flatnonzero(quality >= enough)
    if not len(above):
        return np.nan, np.nan
    k = int(above[0])
    if k == 0:
        return float(pairs[0]), float(answers[0])
    part = (enough - quality[k - 1]) / (quality[k] - quality[k - 1])
    shares = (np.exp(np.log(s[k - 1]) + part * np.log(s[k] / s[k - 1])) for s in (pairs, answers))
    ours, peer = (float(share) for share in shares)
    return ours, peer


def curve_of(study: Study, strategy: str, curves: list[dict[str, list[Point]]]) -> dict[str, Any]:
    """The points of a curve, means over the runs, for the figure."""
    found = np.array([each[strategy] for each in curves])
    points = [
        {
            "pairs": float(pairs.mean()), "answers": float(answers.mean()),
            "quality": float(quality.mean()), "error": error(quality),
        }
        for pairs, answers, quality in found.transpose(1, 2, 0)
    ]  # fmt: skip
    return {"set": study.name, "measure": study.measure, "strategy": strategy, "points": points}


def error(values: np.ndarray) -> float:
    """Standard error of a mean; 0 of one value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
