"""Simulate annotators, and measure how a ranking improves with the questions of each strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
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
from sortnet.preference.answers import Answers
from sortnet.preference.base import MOST_ITEMS, Judgement
from sortnet.preference.design import design
from sortnet.preference.goal import WRONG, Goal
from sortnet.preference.hyperparameters import choose
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.model import Annotators, Columns, Prior, fit
from sortnet.preference.session import Session
from sortnet.threads import one_blas_thread

if TYPE_CHECKING:
    import pandas as pd

# Standard deviation of the noise in the ASAP paper (see `ids_truth`): of two items that differ by 1
# the better one wins with probability 3/4, the value of the normal distribution at 1 / 1.4865.
NOISE = 1.4865
N_ANNOTATORS = 4
_ERRORS_OF_95_PERCENT = 1.96  # standard errors from the mean to a limit of its 95 % interval
ANNOTATOR = "person"  # all answers count as answers of this annotator when a ranking is scored
SORTS: dict[str, Sort] = {
    "merge-sort": merge_sort, "quicksort": quicksort, "heapsort": heapsort, "bubble": bubble_passes,
}  # fmt: skip
SET_SIZES = {f"sets-{size}": size for size in range(3, MOST_ITEMS + 1)}
SETWISE = "setwise-heapsort"  # asks for the best of four items
# Strategies that can be simulated. `default` is a session with hold-out questions and repeats.
# `top` is the same with the top items as goal, and `sets-4` the same with questions about the best
# and the worst of four items. `informative` and `random` are sessions without hold-out and repeats.
# A sort starts again, with shuffled items, when it has ended.
SAMPLERS = ("default", "informative", "random", "top", *SET_SIZES, *SORTS, SETWISE)

Questions: TypeAlias = Generator[tuple[int, ...], Judgement, None]  # yields items; is sent answers
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Truth:
    """Items whose true order is known.

    Attributes:
        features: (n, d) features of the items; None for items without features.
        scores: (n,) true scores.
    """

    features: F64 | None
    scores: F64


@dataclass(frozen=True)
class Result:
    """Quality of the ranking after a number of questions.

    Attributes:
        strategy: name of the strategy, one of `SAMPLERS`.
        seed: number of the repetition.
        questions: number of questions answered so far.
        spearman: rank correlation with the true scores.
        rmse: root mean squared difference from the true scores, both as z-scores.
        ms: mean milliseconds to choose a question and to add its answer, refits included.
        top: share of the best items that are ranked among the first; NaN if not asked for.
    """

    strategy: str
    seed: int
    questions: int
    spearman: float
    rmse: float
    ms: float
    top: float = float("nan")


def ids_truth(n: int, rng: np.random.Generator) -> Truth:
    """Draw true scores from U[0, 5], shifted to minimum 0, which is the protocol of the ASAP paper.

    Mikhailiuk et al. 2020, *Active Sampling for Pairwise Comparisons via Approximate Message
    Passing and Information Gain Maximization*.
    """
    scores = rng.uniform(0, 5, n)
    return Truth(None, scores - scores.min())


def features_truth(n: int, d: int, outside: float, rng: np.random.Generator) -> Truth:
    """Draw n items with d features X and true scores Xw + residual.

    X and the weights w are drawn from N(0, 1). The residual is normal, and the share `outside` of
    the variance of the scores.
    """
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    linear = X @ w
    # With this standard deviation the residual has the share `outside` of the total variance.
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
    """Ask simulated annotators about n items with known true scores, drawn again for every seed.

    With the true scores q, item i is preferred to item j with probability
    Phi((q_i - q_j) / 1.4865), where Phi is the normal distribution function. In questions about
    more items, each item gets a utility, its score plus noise, and the items with the highest and
    the lowest utility are named. All strategies get the same true scores, and their rankings are
    made in the same way: one model is fitted to all answers as if by one annotator, hold-out
    answers included, with the features if there are any.

    Args:
        strategies: names from `SAMPLERS`.
        budgets: numbers of questions after which the ranking is measured.
        n: number of items.
        d: number of features. With 0, true scores are drawn by `ids_truth`, otherwise by
            `features_truth`.
        outside: share of the variance of the scores that the features do not explain.
        top: number of best items that are wanted, or 0 for all items in order. It is the goal of
            the strategies `top` and `sets-4`, it ends all sorts but `merge-sort`, and the figure
            `Result.top` is about these items.
        seeds: number of repetitions, each with other true scores.
        seed: seed of all repetitions.
        jobs: number of processes.
        progress: called with a line after each session.

    Raises:
        JudgementError: if a strategy is unknown, or more questions are wanted than can be asked.

    Cost: 1 ms per question of a session with 100 items, times strategies and seeds.

    >>> results = simulate(["default", "random"], [10, 40], n=6, seeds=2)
    >>> [(r.strategy, r.questions) for r in results[:3]]
    [('default', 10), ('default', 40), ('default', 10)]
    """
    _check(strategies, budgets, n, outside, seeds, top)
    run = partial(
        _run, budgets=tuple(sorted(set(budgets))), n=n, d=d, outside=outside, top=top, seed=seed
    )
    tasks = [partial(run, name, repetition) for name in strategies for repetition in range(seeds)]
    results_of_sessions = in_parallel(tasks, jobs, progress)
    return [result for results in results_of_sessions for result in results]


def summary(results: Sequence[Any], values: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Average results over the seeds, with standard errors and 95 % intervals.

    Args:
        results: dataclasses of results, such as `simulate` returns.
        values: names of the fields to average.
        by: names of the fields to group by.

    Returns:
        A row for each group, in order of appearance: the fields in `by`; `seeds`, the number of
        results; and for each field in `values` its mean, and with the endings `_se`, `_low` and
        `_high` the standard error and the limits of the interval, NaN for a single seed.
    """
    import pandas as pd

    frame = pd.DataFrame([vars(result) for result in results])
    groups = frame.groupby(list(by), sort=False)
    means = group_means(groups, values, ending="se")
    columns: dict[str, Any] = {"seeds": groups.size()}
    for name in values:
        mean = means[name]
        error = means[f"{name}_se"]
        columns[name] = mean
        columns[f"{name}_se"] = error
        columns[f"{name}_low"] = mean - _ERRORS_OF_95_PERCENT * error
        columns[f"{name}_high"] = mean + _ERRORS_OF_95_PERCENT * error
    return pd.DataFrame(columns).reset_index()


def spearman(x: F64, y: F64) -> float:
    """Compute the rank correlation of x and y; 0 if one of the two is constant."""
    from scipy.stats import spearmanr

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(spearmanr(x, y).statistic)


def rmse(x: F64, y: F64) -> float:
    """Compute the root mean squared difference of two score vectors, both as z-scores."""
    return float(np.sqrt(np.mean((_z(x) - _z(y)) ** 2)))


def in_parallel(tasks: Sequence[Callable[[], T]], jobs: int, progress: Progress) -> list[T]:
    """Run tasks in `jobs` processes, and return their results in order.

    Each process has one thread for linear algebra. `progress` gets a line after each task.
    """
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
    """Raise JudgementError unless `simulate` can run with these arguments."""
    for name in strategies:
        if name not in SAMPLERS:
            raise JudgementError(f"unknown strategy {name!r}; known are {', '.join(SAMPLERS)}")
    if not strategies or not budgets or min(budgets) < 1 or seeds < 1 or n < 2:
        raise JudgementError("a simulation takes two items, a strategy, a question and a seed")
    if not 0 <= outside < 1:
        raise JudgementError(f"the share outside the features is below 1, not {outside:g}")
    lacks_top = top == 0 and "top" in strategies  # this strategy asks for the top items only
    if top >= n or lacks_top:
        raise JudgementError(f"the top items are from 1 to {n - 1} of {n}, not {top}")
    most = most_questions(strategies, n)
    if max(budgets) > most:
        raise JudgementError(
            f"{max(budgets)} questions about {n} items: "
            f"{N_ANNOTATORS} annotators can be asked {most}"
        )


def most_questions(strategies: Sequence[str], n: int) -> int:
    """Compute the number of questions about n items that each of the strategies can ask."""
    n_pairs = n * (n - 1) // 2
    return N_ANNOTATORS * n_pairs // pairs_of_a_question(strategies)


def pairs_of_a_question(strategies: Sequence[str]) -> int:
    """Count the pairs of items in the largest question that one of the strategies asks.

    >>> pairs_of_a_question(["random"]), pairs_of_a_question(["default", "sets-4"])
    (1, 6)
    """
    largest = max(SET_SIZES.get(name, 2) for name in strategies)
    return largest * (largest - 1) // 2


def _run(
    strategy: str,
    repetition: int,
    *,
    budgets: tuple[int, ...],
    n: int,
    d: int,
    outside: float,
    top: int,
    seed: int,
) -> list[Result]:
    """Ask the questions of one strategy about one draw of true scores; measure at each budget.

    Args:
        strategy: name of the strategy.
        repetition: number of the draw.
        budgets: numbers of questions after which the scores are measured, ascending.
        n: number of items.
        d: number of features; 0 for scores without features.
        outside: share of the scores' variance that is not linear in the features.
        top: number of the best items that `Result.top` measures; 0 for no such measure.
        seed: seed of all draws.
    """
    rng = np.random.default_rng([seed, repetition])
    truth = features_truth(n, d, outside, rng) if d else ids_truth(n, rng)
    features = design(truth.features) if d else np.empty((n, 0))
    questions = _questions(strategy, truth, top, repetition, rng)
    judgements: list[Judgement] = []
    results: list[Result] = []
    for judgement, seconds in _timed_answers(questions, truth.scores, budgets[-1], rng):
        judgements.append(judgement)
        if len(judgements) not in budgets:
            continue
        # For a fair comparison the same model is fitted to the answers of each strategy.
        scores = _scores(judgements, features)
        result = Result(
            strategy,
            repetition,
            questions=len(judgements),
            spearman=spearman(scores, truth.scores),
            rmse=rmse(scores, truth.scores),
            ms=1000 * seconds / len(judgements),
            top=_share_of_top(scores, truth.scores, top),
        )
        results.append(result)
    return results


def _timed_answers(
    questions: Questions, scores: F64, most: int, rng: np.random.Generator
) -> Iterator[tuple[Judgement, float]]:
    """Answer the questions of a strategy with noise, until none is left or `most` are answered.

    Args:
        questions: the questions.
        scores: (n,) true scores of the items.
        most: number of questions that are answered, at most.
        rng: the random generator of the noise.

    Yields:
        An answer, and the seconds that the strategy has taken so far to choose questions and to
        take answers. The time of the caller between two answers is not counted.
    """
    n_answers = 0
    seconds = 0.0
    start = time.perf_counter()
    items: tuple[int, ...] | None = next(questions)
    while items is not None and n_answers < most:
        judgement = _answer(items, scores, rng)
        items = _next_items(questions, judgement)
        n_answers += 1
        seconds += time.perf_counter() - start
        yield judgement, seconds
        start = time.perf_counter()


def _share_of_top(scores: F64, true_scores: F64, top: int) -> float:
    """Compute the share of the best `top` items that are ranked among the first `top`."""
    if not top:
        return float("nan")
    best_items = np.argsort(-true_scores)[:top]
    first_items = np.argsort(-scores)[:top]
    return float(np.isin(best_items, first_items).mean())


def _answer(items: tuple[int, ...], scores: F64, rng: np.random.Generator) -> Judgement:
    """Answer with noise which of two items is better, or which of several is best and worst."""
    if len(items) == 2:
        left, right = items
        left_wins = rng.random() < ndtr((scores[left] - scores[right]) / NOISE)
        return Judgement(ANNOTATOR, items, "best", left if left_wins else right)
    # The noise of a utility is divided by sqrt(2), so that the noise of the difference between two
    # utilities has the standard deviation NOISE, as in an answer about a pair.
    utilities = scores[[*items]] + NOISE / np.sqrt(2) * rng.standard_normal(len(items))
    best = items[int(utilities.argmax())]
    worst = items[int(utilities.argmin())]
    return Judgement(ANNOTATOR, items, "best", best, worst)


def _scores(judgements: Sequence[Judgement], features: F64) -> F64:
    """Fit the scores of items to all answers, as if by one annotator."""
    table = Judgements.of(judgements)
    answers = Answers.of_table(table, np.arange(len(table)))
    annotators = Annotators.average(1)
    prior, annotators, _ = choose(answers, Prior(Columns(features)), None, annotators, seed=0)
    return fit(answers, prior, annotators, seed=0).scores


def _next_items(
    questions: Generator[tuple[int, ...], T, None], answer: T
) -> tuple[int, ...] | None:
    """Send an answer, and return the items of the next question; None if there is no question."""
    try:
        return questions.send(answer)
    except StopIteration:
        return None


def _questions(
    strategy: str, truth: Truth, top: int, seed: int, rng: np.random.Generator
) -> Questions:
    """Ask the questions of a strategy, one of `SAMPLERS`, about the items of `truth`."""
    n = len(truth.scores)
    n_to_sort = top or n  # `top` is 0 if all items are wanted in order
    if strategy in SORTS:
        return _about_pairs(repeated(SORTS[strategy], n, n_to_sort, rng))
    if strategy == SETWISE:
        return _repeated_setwise(n, n_to_sort, rng)
    return asked_by(_session(strategy, truth, top, seed))


def _session(strategy: str, truth: Truth, top: int, seed: int) -> Session:
    """Make the session for a strategy that is not a sorting algorithm.

    Args:
        strategy: `default`, `top`, a name in `SET_SIZES`, `informative` or `random`. The last two
            have neither hold-out questions nor repeats.
        truth: the items.
        top: number of best items that are wanted; 0 for all items in order.
        seed: seed of the session.
    """
    n = len(truth.scores)
    if strategy in SET_SIZES:
        goal = Goal(WRONG, top)
        return Session(truth.features, n, seed=seed, goal=goal, set_size=SET_SIZES[strategy])
    if strategy in {"default", "top"}:
        goal = Goal(WRONG, top if strategy == "top" else 0)
        return Session(truth.features, n, seed=seed, goal=goal)
    chosen_by = "random" if strategy == "random" else "default"
    return Session(truth.features, n, seed=seed, strategy=chosen_by, holdout=0.0, repeats=0.0)


def _about_pairs(asking: Asking) -> Questions:
    """Turn the comparisons of an endless sort into questions."""
    pair = next(asking)
    while True:
        judgement = yield pair
        pair = asking.send(judgement.best == judgement.left)


def _repeated_setwise(n: int, top: int, rng: np.random.Generator) -> Questions:
    """Ask which of four items is best, as a setwise heapsort of n shuffled items, without end."""
    while True:
        sort = setwise_heapsort(rng.permutation(n).tolist(), top, size=4)
        items = next(sort, None)
        while items is not None:
            judgement = yield items
            assert judgement.best is not None  # the simulated annotator always names it
            items = _next_items(sort, judgement.best)


def asked_by(session: Session) -> Questions:
    """Ask the questions of a session, to each of four annotators in turn, until none is left."""
    annotators = [f"person-{k}" for k in range(N_ANNOTATORS)]
    for annotator in cycle(annotators):
        questions = session.ask(annotator)
        if not questions:
            return
        question = questions[0]
        reply = yield question.items
        answer = question.answered(annotator, reply.answer, best=reply.best, worst=reply.worst)
        session.tell(answer)


def repeated(sort: Sort, n: int, top: int, rng: np.random.Generator) -> Asking:
    """Ask the comparisons of a sort of n shuffled items, and start again whenever it has ended."""
    while True:
        yield from sort(rng.permutation(n).tolist(), top)


def _z(x: F64) -> F64:
    """Shift a vector to mean 0 and scale it to standard deviation 1; zeros if it is constant."""
    centred: F64 = x - x.mean()
    deviation = centred.std()
    return centred / deviation if deviation else centred
