"""Questions about four items beside pairs: quality by calls, intervals, and time for a question.

The judges have noisy utilities: an answer names the best, and perhaps the worst, of the items by
their grades with normal noise, drawn for each answer. The documents are BM25's first hundred of
queries of TREC DL 2019, and the feature of a session is BM25's score.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

sys.path.append(str(Path(__file__).resolve().parent))

from bench_llm_top import NDCG

from sortnet.lab.asking_sorts import setwise_heapsort
from sortnet.metrics import per_query
from sortnet.preference.base import Judgement, Question
from sortnet.preference.goal import Goal
from sortnet.preference.session import Session

CALLS = (50, 100, 200, 300)
TOP = 10
JUDGE = "judge"
Answering = Callable[[Question], Judgement]


def noise_of(grades: Any, accuracy: float) -> float:
    """The noise of a utility with which a pair of different grades is answered right so often."""
    gaps = np.abs(grades[:, None] - grades)[np.triu_indices(len(grades), 1)]
    gaps = gaps[gaps > 0]

    def excess(log_noise: float) -> float:
        return float(ndtr(gaps / (np.sqrt(2) * np.exp(log_noise))).mean()) - accuracy

    return float(np.exp(brentq(excess, -5, 5)))


def answering(utility: Any, noise: Callable[[int], Any], *, worst: bool = True) -> Answering:
    """A judge by utilities and the noise of so many places."""

    def answer(question: Question) -> Judgement:
        items = question.items
        seen = utility[list(items)] + noise(len(items))
        if len(items) == 2:
            return question.answered(JUDGE, "left" if seen[0] > seen[1] else "right")
        last = items[int(seen.argmin())] if worst else None
        return question.answered(JUDGE, "best", best=items[int(seen.argmax())], worst=last)

    return answer


def ndcg(grades: Any, order: Any) -> float:
    found = per_query(NDCG, grades[np.asarray(order)].astype(np.int64), [0, len(grades)])[0]
    return 0.0 if np.isnan(found) else float(found)


def naive_four(session: Session, rng: np.random.Generator, order: Any) -> Question | None:
    """The session's own pair, and two items drawn from its present top 25."""
    asked = session.ask(JUDGE, set_size=2)
    if not asked or asked[0].strategy == "random":
        return asked[0] if asked else None
    pair = asked[0].items
    more = rng.permutation([item for item in order[:25] if item not in pair])[:2].tolist()
    places = rng.permutation([*pair, *more]).tolist()
    return Question(places[0], places[1], "naive", 1.0, 0, tuple(places[2:]))


def of_query(number: int, query: Any, accuracy: float, way: str, seed: int = 0) -> list[float]:
    """NDCG@10 after each number of calls by one way to ask."""
    grades, bm25 = query
    rng = np.random.default_rng([seed, number, round(100 * accuracy)])
    sd = noise_of(grades, accuracy)
    answer = answering(grades, lambda k: sd * rng.standard_normal(k), worst=way != "best of four")
    if way == "setwise heapsort":
        return of_sort(grades, answer)
    size = 2 if way in ("pairs", "fours, naive") else 4
    session = Session(bm25[:, None], seed=seed, goal=Goal(top=TOP), set_size=size)
    quality = []
    for calls in CALLS:
        while session.events < calls:
            if way == "fours, naive":
                order = session.ranking(fresh=False).order
                asked = naive_four(session, rng, order)
            else:
                asked = session.ask(JUDGE)[0]
            session.tell(answer(asked))
        quality.append(ndcg(grades, session.ranking().order))
    return quality


def of_sort(grades: Any, answer: Answering) -> list[float]:
    order = list(range(len(grades)))
    sort = setwise_heapsort(order, TOP, 4)
    quality = []
    best: int | None = None
    for calls in range(CALLS[-1] + 1):
        if calls in CALLS:
            quality.append(ndcg(grades, order))
        try:
            items = next(sort) if best is None else sort.send(best)
        except StopIteration:
            break
        said = answer(Question(items[0], items[1], "given", 1.0, 0, tuple(items[2:])))
        best = said.comparisons()[0][0]
    last = ndcg(grades, order)
    return quality + [last] * (len(CALLS) - len(quality))
