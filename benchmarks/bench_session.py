"""A session that asks a judge with noise, and chains of unanimous answers.

100 items whose scores differ, asked by a judge with noise, with a top ten as the goal: without
features, with five features that explain four fifths of the scores, and with forty useless ones;
chains of unanimous answers. Studies to the goal: how often the range of the answers left, from a
third of the way on, has the number that was needed.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from sortnet.core import F64
from sortnet.lab.executor import in_parallel
from sortnet.preference import Answer, Judgement, Question
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal, Remaining
from sortnet.preference.study import Decision, study_of

N, TOP = 100, 10
LOOKS = (150, 400, 900)
BARS = (0.70, 0.85, 0.93)  # correlation without features
DRAWS = 3
CHAINS = ((15, 1), (15, 5), (35, 1), (50, 1))  # items, answers about each link
SHARP = 3.0  # of the logistic judge: about 87 % of the answers are right
FEATURES = {"no features": 0, "5 features, .8 of the variance": 5, "40 useless features": -40}

MOST_ANSWERS = 1800  # of a study to the goal; a study that takes longer counts in no row
STUDIES = {  # items, goal, items of a question, whether answers are probabilities
    "40 items, whole order": (40, Goal(0.1), 2, False),
    "100 items, top 10, words": (N, Goal(top=TOP), 2, False),
    "100 items, top 10, probabilities": (N, Goal(top=TOP), 2, True),
    "100 items, top 10, fours": (N, Goal(top=TOP), 4, False),
}


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
    for name in [*STUDIES][:1] if quick else STUDIES:
        to_the_goal = [partial(ranges_that_hold, name, k) for k in range(2 if quick else 10)]
        rows.append(row_of_ranges(name, in_parallel(to_the_goal, jobs, print)))
    return rows


def ranges_that_hold(name: str, seed: int) -> list[bool]:
    """Tell for each look, from a third of the way on, whether the range has the number needed.

    A look that finds near-ties is right if the goal then costs as many answers again, or is never
    reached. At each fit it is seen whether the goal is reached.
    """
    n, goal, set_size, has_p = STUDIES[name]
    rng = np.random.default_rng([177, seed])
    scores = rng.standard_normal(n)
    decisions = [Decision("model", "ann"), Decision("p-measurement", "ann")] if has_p else []
    session = Session(None, n, seed=seed, goal=goal, set_size=set_size, study=study_of(decisions))
    looks: list[tuple[int, Remaining]] = []
    next_look, next_fit = n // set_size, 10
    while session.n_votes < MOST_ANSWERS and (questions := session.ask("ann")):
        session.tell(answer_of(questions[0], scores, has_p, rng))
        n_votes = session.n_votes
        if n_votes >= next_fit:
            next_fit = n_votes + max(2, n_votes // 20)
            remaining = session.remaining()
            if remaining.stop:
                break
            if n_votes >= next_look and not remaining.reached:
                next_look = int(n_votes * 1.15)
                looks.append((n_votes, remaining))
    is_ended = session.n_votes < MOST_ANSWERS
    return [
        is_right(remaining, session.n_votes - look, is_ended=is_ended, look=look)
        for look, remaining in looks
        if 3 * look >= session.n_votes and (is_ended or remaining.near_ties)
    ]


def is_right(remaining: Remaining, needed: int, *, is_ended: bool, look: int) -> bool:
    """Tell whether the range has the number needed, or near-ties were told rightly."""
    if remaining.near_ties is not None:
        return not is_ended or needed >= look
    assert remaining.fewest is not None and remaining.most is not None
    return remaining.fewest <= needed <= remaining.most


def answer_of(question: Question, scores: F64, has_p: bool, rng: np.random.Generator) -> Judgement:
    """The answer of a judge with noise: a word, a probability with errors, or best and worst."""
    of_items = SHARP * scores[[*question.items]]
    if has_p:
        p = round(float(ndtr(1.2 * ((of_items[0] - of_items[1]) / 2 + rng.normal()))), 2)
        answer: Answer = "left" if p > 0.5 else "right" if p < 0.5 else "tie"
        return question.answered("ann", answer, p=min(max(p, 0.01), 0.99))
    best = int(np.argmax(of_items + rng.gumbel(size=len(of_items))))
    if len(of_items) == 2:
        return question.answered("ann", ("left", "right")[best])
    against = rng.gumbel(size=len(of_items)) - of_items
    against[best] = -np.inf
    return question.answered_by_place("ann", best, int(np.argmax(against)))


def row_of_ranges(name: str, studies: list[list[bool]]) -> dict[str, Any]:
    """The row of one kind of study: the share of ranges that had the number needed."""
    ended = [held for held in studies if held]
    share = float(np.mean(np.concatenate(ended))) if ended else None
    return {
        "what": f"{name}: ranges of what is left that had what was needed",
        "ours": share, "peer": None, "bar": ".7; at most a factor 3 wide",
        "ok": share is not None and share >= 0.7,
        "note": f"{len(ended)} of {len(studies)} studies ended",
    }  # fmt: skip


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
