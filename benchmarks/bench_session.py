"""The small session beside today's, in one run: the same items, the same judges.

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

from sortnet.lab.simulated_annotators import in_parallel
from sortnet.preference import Judgement
from sortnet.preference.goal import Goal
from sortnet.preference.plain_session import PlainSession
from sortnet.preference.session import Session

N, TOP = 100, 10
LOOKS = (150, 400, 900)
DRAWS = 3
CHAINS = ((15, 1), (15, 5), (35, 1), (50, 1))  # items, answers about each link
SHARP = 3.0  # of the logistic judge: about 87 % of the answers are right
KINDS: dict[str, Any] = {"today": Session, "small": PlainSession}
FEATURES = {"no features": 0, "5 features, .8 of the variance": 5, "40 useless features": -40}


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """The rows of the table: `ours` is the small session, `peer` today's."""
    looks = LOOKS[:1] if quick else LOOKS
    draws = range(1 if quick else DRAWS)
    rows = []
    for name, d in FEATURES.items():
        runs = {
            kind: np.array(
                in_parallel([partial(study, kind, d, looks, k) for k in draws], jobs, print)
            )
            for kind in KINDS
        }
        rows += [row_of_look(name, look, runs, k) for k, look in enumerate(looks)]
    rows += [row_of_chain(n, times, range(1 if quick else DRAWS)) for n, times in CHAINS]
    return rows


def study(kind: str, d: int, looks: tuple[int, ...], seed: int) -> list[tuple[float, float, float]]:
    """Correlation of the scores, coverage and width of intervals, after each number of answers."""
    rng = np.random.default_rng([77, seed])
    X = rng.standard_normal((N, abs(d))) if d else None
    scores = rng.standard_normal(N)
    if X is not None and d > 0:
        linear = X @ rng.standard_normal(d)
        scores = np.sqrt(0.8) * linear / linear.std() + np.sqrt(0.2) * scores
    rank = np.empty(N, np.int64)
    rank[np.argsort(-scores)] = np.arange(1, N + 1)
    session = KINDS[kind](X, N, seed=seed, goal=Goal(top=TOP))
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


def row_of_look(name: str, look: int, runs: dict[str, Any], k: int) -> dict[str, Any]:
    """The row of one number of answers."""
    means = {kind: figures.mean(axis=0)[k] for kind, figures in runs.items()}
    coverage, width = means["small"][1:]
    theirs_coverage, theirs_width = means["today"][1:]
    return {
        "what": f"{N} items, {name}, {look} answers: correlation of the scores",
        "ours": float(means["small"][0]), "peer": float(means["today"][0]),
        "bar": "not below; coverage >= .85", "ok": None,
        "note": f"coverage {coverage:.2f}, width {width:.0f}; today {theirs_coverage:.2f}, "
        f"{theirs_width:.0f}; {len(runs['small'])} draws",
    }  # fmt: skip


def row_of_chain(n: int, times: int, seeds: range) -> dict[str, Any]:
    """The row of a chain: how many unanimous answers the ranking contradicts."""
    contradicted = {
        kind: [links_contradicted(kind, n, times, seed) for seed in seeds] for kind in KINDS
    }
    return {
        "what": f"chain of {n} items, {times} answers a link, 2 useless features: contradicted",
        "ours": float(np.mean(contradicted["small"])),
        "peer": float(np.mean(contradicted["today"])),
        "bar": "0", "ok": None, "note": f"of {n - 1} links; mean of {len(seeds)} draws",
    }  # fmt: skip


def links_contradicted(kind: str, n: int, times: int, seed: int) -> int:
    """The links of a chain that the ranking has in the wrong order."""
    rng = np.random.default_rng(seed)
    session = KINDS[kind](rng.standard_normal((n, 2)), n, holdout=0.0)
    for better in rng.permutation(np.repeat(np.arange(n - 1), times)).tolist():
        pair, answer = (better, better + 1), "left"
        if rng.random() < 0.5:
            pair, answer = (better + 1, better), "right"
        session.tell(Judgement("ann", *pair, answer))
    ranking = session.ranking()
    return int(np.sum(np.diff(ranking.rank) < 0))


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(row)
