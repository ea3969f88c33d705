"""Simulated annotators: quality of the ranking by number of questions, for every strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from scipy.special import ndtr

from sortnet.core import F64, Progress
from sortnet.errors import JudgementError
from sortnet.lab.asking_sorts import (
    Asking,
    Sort,
    bubble_passes,
    heapsort,
    merge_sort,
    quicksort,
    setwise_heapsort,
)
from sortnet.lab.summaries import group_means
from sortnet.preference.base import MOST_ITEMS, Judgement
from sortnet.preference.design import design
from sortnet.preference.goal import WRONG, Goal
from sortnet.preference.history import History
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.laplace import fit
from sortnet.preference.session import Session
from sortnet.preference.strategies import STRATEGIES
from sortnet.preference.vote_arrays import Votes
from sortnet.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

NOISE = 1.4865  # standard deviation of an answer's noise in the ASAP paper, Φ(1 / 1.4865) = ¾
N_ANNOTATORS = 4
ANNOTATOR = "person"  # who is taken to have given all answers when a ranking is scored
# Samplers: a session with one of its strategies, or a sort that restarts when it has ended.
# `default` is a session with its hold-out and repeats, `top` such a session whose goal is the top
# items, and `sets-4` such a session that asks for the best and the worst of four. All other
# sessions have no hold-out and no repeats.
SORTS: dict[str, Sort] = {
    "merge-sort": merge_sort, "quicksort": quicksort, "heapsort": heapsort, "bubble": bubble_passes,
}  # fmt: skip
SET_SIZES = {f"sets-{size}": size for size in range(3, MOST_ITEMS + 1)}
SETWISE = "setwise-heapsort"  # asks about four items, and does not use the worst
SAMPLERS = (*STRATEGIES, "top", *SET_SIZES, *SORTS, SETWISE)

Questions: TypeAlias = Generator[tuple[int, ...], Judgement, None]  # yields items, is sent answers
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Truth:
    """Items whose order is known. `features` is None for items known by name only."""

    features: F64 | None  # (n, d)
    scores: F64  # (n,)


@dataclass(frozen=True)
class Result:
    """Quality of the ranking after a number of questions."""

    strategy: str
    seed: int
    questions: int
    spearman: float
    rmse: float
    ms: float  # per question, to choose it and add its answer, refits included
    top: float = float("nan")  # share of the best items that are ranked as such, if asked for


def ids_truth(n: int, rng: np.random.Generator) -> Truth:
    """Scores from U[0, 5], shifted to minimum 0: the ASAP paper's protocol.

    Mikhailiuk and others, *Active Sampling for Pairwise Comparisons via Approximate Message
    Passing and Information Gain Maximization* (2020).
    """
    scores = rng.uniform(0, 5, n)
    return Truth(None, scores - scores.min())


def features_truth(n: int, d: int, outside: float, rng: np.random.Generator) -> Truth:
    """Scores Xw with X and w from N(0, 1); a share `outside` of their variance is not in X."""
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    linear = X @ w
    residual = np.sqrt(outside / (1 - outside)) * linear.std() * rng.standard_normal(n)
    return Truth(X, linear + residual)


def simulate(
    strategies: Sequence[str],
    budgets: Sequence[int],
    *,
    n: int = 20,
    d: int = 0,
    outside: float = 0.0,
    top: int = 0,
    seeds: int = 30,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda text: None,
) -> list[Result]:
    """Ask simulated annotators about n items of known order, new ones for every seed.

    "i before j" is answered with the probability Φ((q_i - q_j) / 1.4865); of more than two items
    the best and the worst are named by utilities with that noise. Every strategy gets the same
    truths and is scored alike: by `fit` on all votes, hold-out included, as one annotator's, with
    the features if there are any.

    Args:
        strategies: names of `SAMPLERS`.
        budgets: numbers of questions after which the ranking is scored.
        n: how many items.
        d: how many features; 0 is the protocol `ids`, else `features`.
        outside: share of the scores' variance that is not in the features.
        top: number of best items that are wanted: of the strategies `top` and `sets-4`, of the
            sorts other than `merge-sort`, and of the figure `top`; 0: all, in order.
        seeds: number of truths.
        seed: seed of all truths.
        jobs: processes.

    Raises:
        JudgementError: on an unknown strategy, or more questions than can be asked.

    Cost: 1 ms per question of a session at 100 items, times strategies and seeds.

    >>> results = simulate(["merge", "random"], [10, 40], n=6, seeds=2)
    >>> [(r.strategy, r.questions) for r in results[:3]]
    [('merge', 10), ('merge', 40), ('merge', 10)]
    """
    _check(strategies, budgets, n, outside, seeds, top)
    run = partial(
        _run, budgets=tuple(sorted(set(budgets))), n=n, d=d, outside=outside, top=top, seed=seed
    )
    tasks = [partial(run, name, k) for name in strategies for k in range(seeds)]
    return [row for rows in in_parallel(tasks, jobs, progress) for row in rows]


def summary(results: Sequence[Any], values: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Means over the seeds, with their standard errors and 95 % intervals.

    Args:
        results: as `simulate` returns them, any dataclass with a `seed`.
        values: the fields to average; each gives `v`, `v_se`, `v_low` and `v_high`.
        by: the fields to group by.

    Returns:
        One row per group, in order of appearance; NaN for the error of a single seed.
    """
    import pandas as pd

    frame = pd.DataFrame([vars(result) for result in results])
    groups = frame.groupby(list(by), sort=False)
    means = group_means(groups, values, ending="se")
    columns: dict[str, Any] = {"seeds": groups.size()}
    for value in values:
        mean, error = means[value], means[f"{value}_se"]
        columns |= {value: mean, f"{value}_se": error}
        columns |= {f"{value}_low": mean - 1.96 * error, f"{value}_high": mean + 1.96 * error}
    return pd.DataFrame(columns).reset_index()


def spearman(x: F64, y: F64) -> float:
    """Rank correlation; 0 if one of the two is constant."""
    from scipy.stats import spearmanr

    return 0.0 if np.ptp(x) == 0 or np.ptp(y) == 0 else float(spearmanr(x, y).statistic)


def rmse(x: F64, y: F64) -> float:
    """Root mean squared difference of two score vectors, each z-scored."""
    return float(np.sqrt(np.mean((_z(x) - _z(y)) ** 2)))


def in_parallel(tasks: Sequence[Callable[[], T]], jobs: int, progress: Progress) -> list[T]:
    """The results of tasks, in order; each process has one thread for linear algebra."""
    from joblib import Parallel, delayed

    results: list[T] = []
    # joblib gives one thread to its processes, but runs a single job in this process.
    with one_blas_thread():
        for result in Parallel(jobs, return_as="generator")(delayed(task)() for task in tasks):
            results.append(result)
            progress(f"simulated {len(results)} of {len(tasks)} sessions")
    return results


def _check(
    strategies: Sequence[str], budgets: Sequence[int], n: int, outside: float, seeds: int, top: int
) -> None:
    for name in strategies:
        if name not in SAMPLERS:
            raise JudgementError(f"unknown strategy {name!r}; known are {', '.join(SAMPLERS)}")
    if not strategies or not budgets or min(budgets) < 1 or seeds < 1 or n < 2:
        raise JudgementError("a simulation takes two items, a strategy, a question and a seed")
    if not 0 <= outside < 1:
        raise JudgementError(f"the share outside the features is below 1, not {outside:g}")
    if top >= n or (not top and "top" in strategies):
        raise JudgementError(f"the top items are from 1 to {n - 1} of {n}, not {top}")
    most = most_questions(strategies, n)
    if max(budgets) > most:
        raise JudgementError(
            f"{max(budgets)} questions about {n} items: "
            f"{N_ANNOTATORS} annotators can be asked {most}"
        )


def most_questions(strategies: Sequence[str], n: int) -> int:
    """The number of questions that every strategy can ask about n items."""
    return N_ANNOTATORS * (n * (n - 1) // 2) // pairs_of_a_question(strategies)


def pairs_of_a_question(strategies: Sequence[str]) -> int:
    """The number of pairs of the largest question that one of the strategies asks.

    >>> pairs_of_a_question(["random"]), pairs_of_a_question(["default", "sets-4"])
    (1, 6)
    """
    largest = max(SET_SIZES.get(name, 2) for name in strategies)
    return largest * (largest - 1) // 2


def _run(
    strategy: str, k: int, *, budgets: tuple[int, ...], n: int, d: int, outside: float, top: int,
    seed: int,
) -> list[Result]:  # fmt: skip
    """The results of one strategy on one truth."""
    rng = np.random.default_rng([seed, k])
    truth = features_truth(n, d, outside, rng) if d else ids_truth(n, rng)
    features = np.empty((n, 0)) if d == 0 else design(truth.features)
    questions = _questions(strategy, truth, top, k, rng)
    best = np.argsort(-truth.scores)[:top]
    judgements: list[Judgement] = []
    results: list[Result] = []
    seconds = 0.0
    start = time.perf_counter()
    items: tuple[int, ...] | None = next(questions)
    while items is not None and len(judgements) < budgets[-1]:
        judgements.append(_answer(items, truth.scores, rng))
        items = _next_items(questions, judgements[-1])
        seconds += time.perf_counter() - start
        if len(judgements) in budgets:
            # The same model scores the answers of all samplers.
            scores = fit(features, _votes(judgements, n), 1).posterior.scores
            share_of_top = float("nan")
            if top:
                share_of_top = float(np.isin(best, np.argsort(-scores)[:top]).mean())
            results.append(
                Result(
                    strategy,
                    k,
                    questions=len(judgements),
                    spearman=spearman(scores, truth.scores),
                    rmse=rmse(scores, truth.scores),
                    ms=1000 * seconds / len(judgements),
                    top=share_of_top,
                )
            )
        start = time.perf_counter()
    return results


def _answer(items: tuple[int, ...], scores: F64, rng: np.random.Generator) -> Judgement:
    """An answer about two items, or the best and the worst of more."""
    left, right, *further = items
    if not further:
        left_wins = rng.random() < ndtr((scores[left] - scores[right]) / NOISE)
        return Judgement(ANNOTATOR, left, right, "left" if left_wins else "right")
    utilities = scores[[*items]] + NOISE / np.sqrt(2) * rng.standard_normal(len(items))
    best = items[int(utilities.argmax())]
    worst = items[int(utilities.argmin())]
    return Judgement(ANNOTATOR, left, right, "best", further=tuple(further), best=best, worst=worst)


def _votes(judgements: Sequence[Judgement], n: int) -> Votes:
    """The answers as if of one annotator."""
    history = History(n)
    history.add(Judgements.of(judgements))
    return history.votes(len(judgements))


def _next_items(questions: Questions, judgement: Judgement) -> tuple[int, ...] | None:
    """The items of the next question, or None if there is none."""
    try:
        return questions.send(judgement)
    except StopIteration:
        return None


def _questions(
    strategy: str, truth: Truth, top: int, k: int, rng: np.random.Generator
) -> Questions:
    """The questions of a sampler about the items of a truth."""
    n = len(truth.scores)
    if strategy in SORTS:
        return _about_pairs(repeated(SORTS[strategy], n, top or n, rng))
    if strategy == SETWISE:
        return _repeated_setwise(n, top or n, rng)
    if strategy in SET_SIZES:
        goal = Goal(WRONG, top)
        session = Session(truth.features, n, seed=k, goal=goal, set_size=SET_SIZES[strategy])
    elif strategy in {"default", "top"}:
        goal = Goal(WRONG, top if strategy == "top" else 0)
        session = Session(truth.features, n, seed=k, goal=goal)
    else:
        session = Session(truth.features, n, seed=k, strategy=strategy, holdout=0.0, repeats=0.0)
    return asked_by(session)


def _about_pairs(asking: Asking) -> Questions:
    """The comparisons of a sort without an end, as questions."""
    pair = next(asking)
    while True:
        judgement = yield pair
        pair = asking.send(judgement.answer == "left")


def _repeated_setwise(n: int, top: int, rng: np.random.Generator) -> Questions:
    """The questions of one setwise heapsort after another, each of a new shuffle."""
    while True:
        sort = setwise_heapsort(rng.permutation(n).tolist(), top, 4)
        best: int | None = None
        while True:
            try:
                items = next(sort) if best is None else sort.send(best)
            except StopIteration:
                break
            judgement = yield items
            best, _ = judgement.comparisons()[0]


def asked_by(session: Session) -> Questions:
    """A session's questions to each of four annotators in turn, until none is left."""
    names = [f"person-{k}" for k in range(N_ANNOTATORS)]
    turn = 0
    while questions := session.ask(names[turn % N_ANNOTATORS]):
        question = questions[0]
        reply = yield question.items
        name = names[turn % N_ANNOTATORS]
        answer = question.answered(name, reply.answer, best=reply.best, worst=reply.worst)
        session.tell(answer)
        turn += 1


def repeated(sort: Sort, n: int, top: int, rng: np.random.Generator) -> Asking:
    """The comparisons of one sort after another, each of a new shuffle."""
    while True:
        yield from sort(rng.permutation(n).tolist(), top)


def _z(x: F64) -> F64:
    """A vector shifted to mean 0 and scaled to standard deviation 1; zeros if it is constant."""
    deviation: F64 = x - x.mean()
    spread = deviation.std()
    return deviation / spread if spread else deviation
