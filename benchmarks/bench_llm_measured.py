"""Probabilities as measurements: calls until a top ten is sure, and whether intervals are honest.

A judge of 100 jokes sees the difference of their scores with an error, and says how probable it is
that the left one is better: mildly, although 91 % of the words are right. Another judge has no
error, and gives the logistic function of the difference, as a served model might. The same in words
only. Then annotators of whom some give
probabilities that say nothing, or are of another scale.
"""

from __future__ import annotations

import csv
import sys
from functools import partial
from typing import Any

import numpy as np
from measuring import DATA
from scipy.special import expit, ndtr
from simulated_probabilities import MILD, PROBABILITIES, answered

from sortnet.lab.executor import in_parallel
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal
from sortnet.preference.study import Decision, study_of

JOKES = DATA / "humour" / "items.tsv"
N, TOP, SURE = 100, 10, 2.5
LOGISTIC = 1.6  # expit(1.6 x) is about Φ(x)
RUNS = 10
MOST = 1500
# (what p is, whether there is an error, bar of calls)
JUDGES = (
    ("measurement", True, 400),
    ("measurement", False, 400),
    ("words", False, 600),
    ("words", True, None),
)
DRAWS = 20
MODEL = "model"


def run(quick: bool, jobs: int = 1) -> list[dict[str, Any]]:
    """The rows of the table; those of the jokes only with the data."""
    rows = []
    for kind, errs, bar in JUDGES if JOKES.exists() else ():
        rows += top_rows(kind, errs, bar, quick, jobs)
    return [*rows, *coverage_rows(quick, jobs)]


def top_rows(
    kind: str, errs: bool, bar: int | None, quick: bool, jobs: int
) -> list[dict[str, Any]]:
    """Calls until the top ten of 100 jokes is sure, and how many of the ten are right."""
    most = 60 if quick else MOST
    tasks = [partial(until_sure, kind, errs, seed, most) for seed in range(1 if quick else RUNS)]
    runs_by_seed = np.array(in_parallel(tasks, jobs, lambda text: None))
    calls, right, coverage, stopped = runs_by_seed.T
    judge = f"100 jokes, goal top 10, a judge with{'' if errs else 'out'} errors, {kind}"
    return [
        {
            "what": f"{judge}: calls",
            "ours": float(calls.mean()), "bar": "" if bar is None else f"<= {bar}",
            "ok": None if quick or bar is None else bool(calls.mean() <= bar),
            "note": f"{', '.join(f'{one:.0f}' for one in calls)}; {stopped.sum():.0f} of "
            f"{len(calls)} runs stopped before {most}; {right.mean():.1f} of ten are right; "
            f"coverage of .90 intervals {coverage.mean():.2f}",
        }
    ]  # fmt: skip


def until_sure(kind: str, errs: bool, seed: int, most: int) -> tuple[float, ...]:
    """Calls, number of the chosen that are right, coverage, and whether the session stopped."""
    with JOKES.open(encoding="utf-8") as file:
        scores = np.array([float(row["bws_score"]) for row in csv.DictReader(file, delimiter="\t")])
    rng = np.random.default_rng([9, seed])
    scores = scores[rng.permutation(len(scores))[:N]]
    scores = (scores - scores.mean()) / scores.std()
    error = np.triu(rng.standard_normal((N, N)), 1)
    error -= error.T  # of a pair, however often it is asked about
    if not errs:
        error[:] = 0.0
    decisions = [Decision("p-measurement", MODEL)] if kind == "measurement" else []
    session = Session(None, N, seed=seed, goal=Goal(top=TOP), study=study_of(decisions))
    stopped = False
    while session.events < most and not stopped:
        (asked,) = session.ask(MODEL)
        u = SURE * (scores[asked.left] - scores[asked.right]) + error[asked.left, asked.right]
        p = float(ndtr(MILD * u) if errs else expit(LOGISTIC * MILD * u))
        word = "left" if u > 0 else "right" if u < 0 else "tie"
        session.tell(asked.answered(MODEL, word, p=None if kind == "words" else p))
        if session.events % 10 == 0:
            stopped = session.remaining().stop
    ranking = session.ranking()
    rank = np.empty(N, np.int64)
    rank[np.argsort(-scores)] = np.arange(1, N + 1)
    right = int(np.sum(rank[ranking.order[:TOP]] <= TOP))
    covered = np.mean((ranking.low <= rank) & (rank <= ranking.high))
    return session.events, right, float(covered), stopped


def coverage_rows(quick: bool, jobs: int) -> list[dict[str, Any]]:
    """Coverage of .90 intervals of ranks, by what an annotator's probabilities are."""
    rows = []
    for kind in PROBABILITIES:
        for n_of_people in (0, 200):
            seeds = range(2 if quick else DRAWS)
            tasks = [partial(covered, kind, n_of_people, seed) for seed in seeds]
            found = np.array(in_parallel(tasks, jobs, lambda text: None))
            (coverage, rho, _), (error, *_) = found.mean(axis=0), found.std(axis=0)
            words = int(np.sum(found[:, 2] == 0))
            beside = f", beside {n_of_people} answers of people" if n_of_people else ""
            rows.append(
                {
                    "what": f"p {kind}{beside}: coverage of .90 intervals of 50 items' ranks",
                    "ours": float(coverage), "bar": ".85 to .97",
                    "ok": None if quick else bool(0.85 <= coverage <= 0.97),
                    "note": f"± {error / np.sqrt(len(found)):.3f} of {len(found)} draws of 300 "
                    f"answers; correlation with the truth {rho:.3f}; counted as words in {words}",
                }
            )  # fmt: skip
    return rows


def covered(kind: str, n_of_people: int, seed: int) -> tuple[float, float, float]:
    """Coverage, correlation of scores with the truth, and the learned scale."""
    said = answered(kind, 50, 300, seed, n_of_people=n_of_people)
    decisions = [Decision("p-measurement", MODEL), Decision("model", MODEL)]
    session = Session(None, 50, study=study_of(decisions))
    session.replay(said.judgements)
    ranking = session.ranking()
    rho = np.corrcoef(ranking.score, said.scores)[0, 1]
    scale = session.posterior.annotators.scale[0]
    return said.coverage(ranking.low, ranking.high), float(rho), float(scale)


if __name__ == "__main__":
    for row in run("--quick" in sys.argv):
        print(row)
