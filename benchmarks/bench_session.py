"""A session that asks a judge with noise, and chains of unanimous answers.

100 items whose scores differ, asked by a judge with noise, with a top ten as the goal: without
features, with five features that explain four fifths of the scores, and with forty useless ones;
chains of unanimous answers.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from sortnet.core import F64
from sortnet.lab.simulated_annotators import in_parallel
from sortnet.preference import Judgement
from sortnet.preference.goal import Goal
from sortnet.preference.session import Session

N, TOP = 100, 10
LOOKS = (150, 400, 900)
BARS = (0.70, 0.85, 0.93)  # correlation without features
DRAWS = 3
CHAINS = ((15, 1), (15, 5), (35, 1), (50, 1))  # items, answers about each link
SHARP = 3.0  # of the logistic judge: about 87 % of the answers are right
FEATURES = {"no features": 0, "5 features, .8 of the variance": 5, "40 useless features": -40}


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """The rows of the table."""
    looks = LOOKS[:1] if quick else LOOKS
    draws = range(1 if quick else DRAWS)
    rows = []
    for name, d in FEATURES.items():
        studies = [partial(study, d, looks, k) for k in draws]
        figures = np.array(in_parallel(studies, jobs, print))
        rows += [row_of_look(name, look, figures[:, k]) for k, look in enumerate(looks)]
    rows += [row_of_chain(n, times, draws) for n, times in CHAINS]
    return rows


def study(d: int, looks: tuple[int, ...], seed: int) -> list[tuple[float, float, float]]:
    """Correlation of the scores, coverage and width of intervals, after each number of answers."""
    rng = np.random.default_rng([77, seed])
    X = rng.standard_normal((N, abs(d))) if d else None
    scores = rng.standard_normal(N)
    if X is not None and d > 0:
        linear = X @ rng.standard_normal(d)
        scores = np.sqrt(0.8) * linear / linear.std() + np.sqrt(0.2) * scores
    rank = np.empty(N, np.int64)
    rank[np.argsort(-scores)] = np.arange(1, N + 1)
    session = Session(X, N, seed=seed, goal=Goal(top=TOP))
    figures = []
    for look in looks:
        while session.events < look:
            question = session.ask("ann")[0]
            p = expit(SHARP * (scores[question.left] - scores[question.right]))
            session.tell(question.answered("ann", "left" if rng.random() < p else "right"))
        ranking = session.ranking()
        covered = np.mean((ranking.low <= rank) & (rank <= ranking.high))
        width = np.mean(ranking.high - ranking.low + 1)
        figures.append((np.corrcoef(ranking.score, scores)[0, 1], float(covered), float(width)))
    return figures


def row_of_look(name: str, look: int, figures: F64) -> dict[str, Any]:
    """The row of one number of answers."""
    correlation, coverage, width = figures.mean(axis=0).tolist()
    bar = BARS[LOOKS.index(look)] if not FEATURES[name] else None
    return {
        "what": f"{N} items, {name}, {look} answers: correlation of the scores",
        "ours": correlation, "peer": None, "bar": f"{bar or 'told'}; coverage .85",
        "ok": coverage >= 0.85 and (bar is None or correlation >= bar),
        "note": f"coverage {coverage:.2f}, width {width:.0f}; {len(figures)} draws",
    }  # fmt: skip


def row_of_chain(n: int, times: int, seeds: range) -> dict[str, Any]:
    """The row of a chain: how many unanimous answers the ranking contradicts."""
    contradicted = float(np.mean([links_contradicted(n, times, seed) for seed in seeds]))
    return {
        "what": f"chain of {n} items, {times} answers a link, 2 useless features: contradicted",
        "ours": contradicted, "peer": None, "bar": "0", "ok": contradicted == 0,
        "note": f"of {n - 1} links; mean of {len(seeds)} draws",
    }  # fmt: skip


def links_contradicted(n: int, times: int, seed: int) -> int:
    """The links of a chain that the ranking has in the wrong order."""
    rng = np.random.default_rng(seed)
    session = Session(rng.standard_normal((n, 2)), n, holdout=0.0)
    for better in rng.permutation(np.repeat(np.arange(n - 1), times)).tolist():
        pair, answer = (better, better + 1), "left"
        if rng.random() < 0.5:
            pair, answer = (better + 1, better), "right"
        session.tell(Judgement.of("ann", pair, answer))
    ranking = session.ranking()
    return int(np.sum(np.diff(ranking.rank) < 0))


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(row)
