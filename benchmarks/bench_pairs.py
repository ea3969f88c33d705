"""The study of pair efficiency: quality on the test part against pairs and answers, by strategy.

The cells are those of `sortnet experiment study pair-efficiency`, on data sets of several kinds
(`sortnet.lab.pair_efficiency`). The rows keep the curves, which `draw_pairs.py` draws.
Hours of work: what a draw gave is kept in build/pairs, and not worked out again before that folder
is removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_mq2008 import DATA
from bench_tables import mean_spearman, smaller
from made_tables import table

from sortnet.core import I64, Queries
from sortnet.data import Fold, read_fold
from sortnet.data.digits import digits_fold
from sortnet.lab.cells import work_out
from sortnet.lab.pair_efficiency import (
    FIRST,
    REACHED,
    REFERENCE,
    STRATEGIES,
    budgets_of,
    cell_of,
    crossing,
)
from sortnet.lab.splits import Split
from sortnet.metrics import evaluate

BOOTSTRAPS = 2000
STEP = 4  # from one budget to the next
KEPT = Path(__file__).resolve().parents[1] / "build" / "pairs"
ACTIVE = "uncertain"  # the strategy with the bars: the best one would be chosen on test parts
BARS = {"MQ2008": (0.02, 0.04), "digits": (0.10, 1.0)}  # shares of pairs and of answers, at most

Point = tuple[float, float, float]  # share of pairs, share of answers, quality


@dataclass(frozen=True)
class Study:
    """A data set of the study: draws or folds and seeds for each, the scaling, the measure."""

    name: str
    load: Callable[[int], Fold]
    draws: int
    scaling: str
    measure: str = "ndcg@10"
    seeds: int = 1

    def quality(self, order: I64, test: Queries) -> float:
        if self.measure == "spearman":
            scores = np.empty(test.n_docs)
            scores[order] = -np.arange(test.n_docs)
            return mean_spearman(test, scores)
        return evaluate(test, order, self.measure, empty="skip")[self.measure]


@dataclass(frozen=True)
class Drawn(Split):
    """A draw of a data set, as a cell takes its data."""

    study: Study
    number: int
    quick: bool

    @property
    def name(self) -> str:
        return f"{self.study.name}, draw {self.number}"

    def load(self, cache: Path | None = None) -> Fold:
        fold = self.study.load(self.number)
        return smaller(fold) if self.quick else fold


def mq2008(draw: int) -> Fold:
    return read_fold(DATA / f"Fold{draw + 1}")


def friedman1(draw: int) -> Fold:
    return table("friedman1, 20 noise features", draw)


def heavy_tails(draw: int) -> Fold:
    return table("heavy tails", draw)


STUDIES = (
    Study("MQ2008", mq2008, 5, "query+rank", seeds=3),
    Study("digits", digits_fold, 5, "quantile", "spearman"),
    Study("friedman1", friedman1, 5, "quantile"),
    Study("heavy tails", heavy_tails, 5, "quantile"),
)


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each data set and strategy."""
    studies = [study for study in STUDIES if study.name != "MQ2008" or DATA.exists()]
    jobs = [
        (study, draw, seed, quick)
        for study in studies
        for draw in range(1 if quick else study.draws)
        for seed in range(1 if quick else study.seeds)
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
    """{strategy: a point for each budget} on one draw with one seed; `grades` has one point."""
    torch.set_num_threads(1)
    split = Drawn(study, draw, quick)
    kept = KEPT / f"{study.name}-{draw}-{seed}.json".replace(" ", "-")
    if not quick and kept.exists():
        found: dict[str, list[Point]] = json.loads(kept.read_text())
        return found
    budgets = [FIRST] if quick else budgets_of(split.load().train, STEP)
    points = {REFERENCE: [point(split, seed, "compared", None)]}
    for strategy in STRATEGIES:
        points[strategy] = [point(split, seed, strategy, budget) for budget in budgets]
    if not quick:
        KEPT.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(points))
    return points


def point(split: Drawn, seed: int, strategy: str, budget: int | None) -> Point:
    """What one run learned from, as shares, and how well it sorts the test part."""
    study = split.study
    found = work_out(
        cell_of(
            split, strategy, budget, scaling=study.scaling, seed=seed,
            empty="skip" if study.name == "MQ2008" else "zero", epochs=2 if split.quick else None,
        )
    )  # fmt: skip
    test, shares = split.load().test, found.about["observed"]
    assert test is not None
    return shares["pairs"], shares["answers"], study.quality(found.order, test)


def rows_of(study: Study, curves: list[dict[str, list[Point]]]) -> Iterator[dict[str, Any]]:
    """The rows of one data set, from the curves of its draws, of each the seeds in turn."""
    draws = len(curves) // (seeds := min(study.seeds, len(curves)))
    # Seeds of one draw share its data: the unit of an error or an interval is the draw.
    found = {
        name: np.array([each[name] for each in curves]).reshape(draws, seeds, -1, 3).mean(1)
        for name in (REFERENCE, *STRATEGIES)
    }  # (draws, budgets, 3)
    runs = f"{draws} draws" + (f" x {seeds} seeds" if seeds > 1 else "")
    reference = found[REFERENCE][:, 0, 2]
    yield {
        "what": f"pairs, {study.name}: {study.measure} of all grades", "ours": reference.mean(),
        "note": f"± {error(reference):.4f} SE, {runs}",
        "curve": curve_of(study, REFERENCE, found[REFERENCE]),
    }  # fmt: skip
    for strategy in STRATEGIES:
        yield row_of(study, strategy, found[strategy], reference, runs)


def row_of(
    study: Study, strategy: str, found: np.ndarray, reference: np.ndarray, runs: str
) -> dict[str, Any]:
    """The shares of pairs (ours) and of answers (peer) at which the strategy is good enough."""
    ours, peer = crossing(found.mean(0), reference.mean())
    rng = np.random.default_rng(0)
    again = rng.integers(len(found), size=(BOOTSTRAPS, len(found)))
    shares = np.array([crossing(found[k].mean(0), reference[k].mean()) for k in again])
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
        "note": f"{note}; {best:.1%} of all pairs' quality at best, {runs}",
        "curve": curve_of(study, strategy, found), **bar,
    }  # fmt: skip


def curve_of(study: Study, strategy: str, found: np.ndarray) -> dict[str, Any]:
    """The points of a curve, means over the draws, for the figure."""
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
