"""Questions about four items beside pairs: intervals, time for a question, and `bench_sets_*.py`.

The judges see utilities with noise: an answer names the best, and perhaps the worst, of the items.
"""

from __future__ import annotations

import importlib
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from utility_judges import answering, noises

from sortnet.lab.executor import in_parallel
from sortnet.preference.base import Question
from sortnet.preference.goal import Goal
from sortnet.preference.session import Session

FOLDER = Path(__file__).resolve().parent
COVERAGE = 0.88
SLOWEST = 20.0  # milliseconds
N_JUDGES = 20
TOP = 10


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """The rows of the table; those of the other files of this benchmark after its own."""
    rows = [*pace_rows(quick), *coverage_rows(quick, jobs)]
    for path in sorted(FOLDER.glob("bench_sets_*.py")):
        rows += importlib.import_module(path.stem).run(quick, jobs)
    return rows


def coverage_rows(quick: bool, jobs: int) -> list[dict[str, Any]]:
    """How often 90 % intervals of ranks hold the true ranks, by size and by noise."""
    rows = []
    for noise in ("normal", "a bias to the first place", "heavy tails"):
        for size in (2, 4, 6):
            seeds = range(2 if quick else 12)
            tasks = [partial(covered, size, noise, seed) for seed in seeds]
            shares = np.array(in_parallel(tasks, jobs, lambda text: None))
            mean, error = shares.mean(), shares.std(ddof=1) / np.sqrt(len(shares))
            rows.append(
                {
                    "what": f"30 items, questions about {size}, {noise}: "
                    "coverage of 90 % intervals of ranks",
                    "ours": float(mean), "bar": f">= {COVERAGE}",
                    "ok": None if quick or noise != "normal" else bool(mean >= COVERAGE),
                    "note": f"± {error:.3f}; 120 answers of two judges, {len(shares)} runs",
                }
            )  # fmt: skip
    return rows


def covered(size: int, noise: str, seed: int) -> float:
    """The share of the items whose true rank is in its interval after 120 answers."""
    rng = np.random.default_rng([3, seed])
    truth = 1.2 * rng.standard_normal(30)
    noise_of_places = noises(1 / np.sqrt(2), rng)[noise]
    session = Session(None, 30, seed=seed, set_size=size)
    for k in range(120):
        judge = f"judge-{k % 2}"
        question = session.ask(judge)[0]
        session.tell(answering(truth, noise_of_places, judge=judge)(question))
    ranking = session.ranking()
    rank = np.argsort(np.argsort(-truth)) + 1
    return float(np.mean((ranking.low <= rank) & (rank <= ranking.high)))


def pace_rows(quick: bool) -> list[dict[str, Any]]:
    """The 95th percentile of the time for a question, with many items and answers."""
    n_items, n_answers = (500, 2_000) if quick else (10_000, 100_000)
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(n_items)
    sets = [rng.choice(n_items, 4, replace=False).tolist() for _ in range(n_answers)]
    names = [f"judge-{k}" for k in range(N_JUDGES)]
    answers = [answering(truth, rng.standard_normal, judge=name) for name in names]
    rows = []
    for goal in (Goal(), Goal(top=TOP)):
        session = Session(None, n_items, seed=0, goal=goal, set_size=4)
        questions = [Question((a, b, c, d), "given", 1.0, 0) for a, b, c, d in sets]
        session.replay([answers[k % N_JUDGES](question) for k, question in enumerate(questions)])
        session.refit()
        for name in names:  # the first question of a judge reads all of their answers
            session.ask(name, wait=False)
        for size in (2, 4):
            milliseconds = []
            for k in range(300):
                judge = k % N_JUDGES
                start = time.perf_counter()
                (question,) = session.ask(names[judge], wait=False, set_size=size)
                milliseconds.append(1000 * (time.perf_counter() - start))
                session.tell(answers[judge](question))
            p95 = float(np.percentile(milliseconds, 95))
            rows.append(
                {
                    "what": f"a question about {size}, {n_items:,} items, {n_answers:,} answers "
                    f"about 4, {'top 10' if goal.top else 'whole order'}: p95, ms",
                    "ours": p95, "bar": f"<= {SLOWEST:g}" if size > 2 else "",
                    "ok": None if quick or size == 2 else p95 <= SLOWEST,
                    "note": f"median {np.median(milliseconds):.1f}",
                }
            )  # fmt: skip
    return rows


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(row)
