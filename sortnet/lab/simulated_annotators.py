"""Simulate annotators, and measure how a ranking improves with the questions of each strategy.

Annotators answer by true scores with noise (`simulate`), or by recorded votes on pairs
(`sortnet.lab.recorded_votes`). Everything else is the same for both: a strategy asks, the answers
are counted, and at each budget the answers so far become a ranking, which is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import spearmanr, zscore

from sortnet.core import F64, I64, Progress
from sortnet.errors import JudgementError
from sortnet.lab.asking_sorts import SORTS, next_items
from sortnet.lab.executor import in_parallel
from sortnet.preference.base import MOST_ITEMS, Judgement
from sortnet.preference.session import Session
from sortnet.preference.stopping import WRONG, Goal

if TYPE_CHECKING:
    import pandas as pd

# Standard deviation of the noise in the ASAP paper (see `ids_truth`): of two items that differ by 1
# the better one wins with probability 3/4, the value of the normal distribution at 1 / 1.4865.
NOISE = 1.4865
N_ANNOTATORS = 4
_BUDGETS = (25, 50, 100, 200, 400, 800, 1600, 3200)
_MOST_BY_DEFAULT = 400  # largest usual budget if the answers come from true scores
_ERRORS_OF_95_PERCENT = 1.96  # standard errors from the mean to a limit of its 95 % interval
ANNOTATOR = "person"  # all answers count as answers of this annotator when a ranking is made
SET_SIZES = {f"sets-{size}": size for size in range(3, MOST_ITEMS + 1)}
# Strategies that are sessions. `default` has hold-out questions and repeats, as `sortnet label`.
# `top` is the same with the top items as goal, and `sets-4` the same with questions about the best
# and the worst of four items. `informative` and `random` have neither hold-out nor repeats.
SESSIONS = ("default", "informative", "random", "top", *SET_SIZES)
# Strategies that can be simulated with true scores. A sort starts again, with shuffled items, when
# it has ended.
SAMPLERS = (*SESSIONS, *SORTS)


@dataclass(frozen=True, eq=False)
class Annotators:
    """Simulated annotators of n items, who answer questions, and can measure a ranking.

    Attributes:
        features: (n, d) features of the items; d may be 0.
        rng: the random generator of the answers.
        among: (n_pairs, 2) the pairs that questions may be about; None for all pairs.
    """

    features: F64
    rng: np.random.Generator
    _: KW_ONLY
    among: I64 | None = None

    def answer(self, items: tuple[int, ...]) -> Judgement:
        """Answer which of the items is the best; about more than two items, also the worst."""
        raise NotImplementedError

    def figures(self, scores: F64) -> dict[str, float]:
        """Measure a ranking of the items by scores (n,): {name of a measure: value}."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class NoisyAnnotators(Annotators):
    """Annotators who know the true scores (n,) of the items, and answer with noise.

    `top` is the number of the best items that the measure `top` is about; 0 for no such measure.
    """

    scores: F64
    top: int

    def answer(self, items: tuple[int, ...]) -> Judgement:
        """Answer with noise which of two items is better, or which of several is best and worst."""
        scores = self.scores[[*items]]
        if len(items) == 2:
            left_wins = self.rng.random() < ndtr((scores[0] - scores[1]) / NOISE)
            return Judgement(ANNOTATOR, items, "best", items[0 if left_wins else 1])
        # The noise of a utility is divided by sqrt(2), so that the noise of the difference between
        # two utilities has the standard deviation NOISE, as in an answer about a pair.
        utilities = scores + NOISE / np.sqrt(2) * self.rng.standard_normal(len(items))
        best = items[utilities.argmax()]
        worst = items[utilities.argmin()]
        return Judgement(ANNOTATOR, items, "best", best, worst)

    def figures(self, scores: F64) -> dict[str, float]:
        """Compare scores with the true scores: `spearman`, `rmse`, and `top` if it is asked for."""
        true_scores = self.scores
        figures = {"spearman": spearman(scores, true_scores), "rmse": rmse(scores, true_scores)}
        if self.top:
            best_items = np.argsort(-true_scores)[: self.top]
            first_items = np.argsort(-scores)[: self.top]
            figures["top"] = float(np.isin(best_items, first_items).mean())
        return figures


def ids_truth(n: int, rng: np.random.Generator) -> F64:
    """Draw true scores from U[0, 5], shifted to minimum 0, which is the protocol of the ASAP paper.

    Mikhailiuk et al. 2020, *Active Sampling for Pairwise Comparisons via Approximate Message
    Passing and Information Gain Maximization*.
    """
    scores: F64 = rng.uniform(0, 5, n)
    scores -= scores.min()
    return scores


def features_truth(n: int, d: int, outside: float, rng: np.random.Generator) -> tuple[F64, F64]:
    """Draw n items: their features X (n, d) and true scores Xw + residual (n,).

    X and the weights w are drawn from N(0, 1). The residual is normal, and the share `outside` of
    the variance of the scores.
    """
    X = rng.standard_normal((n, d))
    w = rng.standard_normal(d)
    linear = X @ w
    # With this standard deviation the residual has the share `outside` of the total variance.
    residual = np.sqrt(outside / (1 - outside)) * linear.std() * rng.standard_normal(n)
    return X, linear + residual


def simulate(
    strategies: Sequence[str],
    budgets: Sequence[int] = (),
    *,
    n: int = 20,
    d: int = 0,
    outside: float = 0.0,
    top: int = 0,
    seeds: int = 30,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = lambda text: None,
) -> pd.DataFrame:
    """Ask simulated annotators about n items with known true scores, drawn again for every seed.

    With the true scores q, item i is preferred to item j with probability
    Phi((q_i - q_j) / 1.4865), where Phi is the normal distribution function. In questions about
    more items, each item gets a utility, its score plus noise, and the items with the highest and
    the lowest utility are named. All strategies get the same true scores.

    Args:
        strategies: names from `SAMPLERS`.
        budgets: numbers of questions after which the ranking is measured; if there are none, the
            usual numbers up to 400.
        n: number of items.
        d: number of features. With 0, true scores are drawn by `ids_truth`, otherwise by
            `features_truth`.
        outside: share of the variance of the scores that the features do not explain.
        top: number of best items that are wanted, or 0 for all items in order. It is the goal of
            the strategies `top` and `sets-4`, and ends all sorts but `merge-sort`.
        seeds: number of repetitions, each with other true scores.
        seed: seed of all repetitions.
        jobs: number of processes.
        progress: called with a line after each session.

    Returns:
        The frame of `ask_all` with the measures `spearman`, the rank correlation with the true
        scores; `rmse`, the root mean squared difference of both as z-scores; and with `top` the
        share of the best items that are ranked among the first.

    Raises:
        JudgementError: if a strategy is unknown, or more questions are wanted than can be asked.

    Cost: 1 ms per question of a session with 100 items, times strategies and seeds.

    >>> frame = simulate(["default", "random"], [10, 40], n=6, seeds=2)
    >>> frame[["strategy", "questions"]].values.tolist()[:3]
    [['default', 10], ['default', 40], ['default', 10]]
    """
    lacks_top = top == 0 and "top" in strategies  # this strategy asks for the top items only
    if top >= n or lacks_top:
        raise JudgementError(f"the top items are from 1 to {n - 1} of {n}, not {top}")
    refuse_unknown(strategies, SAMPLERS)
    n_pairs = n * (n - 1) // 2
    most = N_ANNOTATORS * n_pairs // pairs_of_a_question(strategies)
    budgets = budgets or usual_budgets(min(most, _MOST_BY_DEFAULT))
    if max(budgets) > most:
        raise JudgementError(
            f"{max(budgets)} questions about {n} items: "
            f"{N_ANNOTATORS} annotators can be asked {most}"
        )
    make_annotators = partial(_noisy_annotators, n, d, outside, top)
    return ask_all(
        make_annotators, strategies, budgets,
        top=top, seeds=seeds, seed=seed, jobs=jobs, progress=progress,
    )  # fmt: skip


def _noisy_annotators(
    n: int, d: int, outside: float, top: int, repetition: int, rng: np.random.Generator
) -> NoisyAnnotators:
    """Draw the true scores of one repetition of `simulate`."""
    if not d:
        return NoisyAnnotators(np.empty((n, 0)), rng, ids_truth(n, rng), top)
    X, scores = features_truth(n, d, outside, rng)
    return NoisyAnnotators(X, rng, scores, top)


def ask_all(
    make_annotators: Callable[[int, np.random.Generator], Annotators],
    strategies: Sequence[str],
    budgets: Iterable[int],
    *,
    top: int = 0,
    seeds: int,
    seed: int,
    jobs: int,
    progress: Progress,
) -> pd.DataFrame:
    """Ask simulated annotators the questions of each strategy, in each repetition.

    Args:
        make_annotators: function (number of the repetition, random generator) -> the annotators.
        strategies: names from `SAMPLERS`.
        budgets: numbers of questions after which the ranking is measured.
        top: number of best items that the strategies want; 0 for all items in order.
        seeds: number of repetitions.
        seed: seed of all repetitions.
        jobs: number of processes.
        progress: called with a line after each session.

    Returns:
        A row for each strategy, repetition and budget, with the columns `strategy`, `seed` (the
        number of the repetition), `questions` (the number answered), the measures, and `ms`, the
        mean milliseconds to choose a question and to add its answer, refits included.
    """
    import pandas as pd

    ask = partial(_ask, make_annotators, budgets=tuple(sorted(set(budgets))), top=top, seed=seed)
    tasks = [partial(ask, name, repetition) for name in strategies for repetition in range(seeds)]
    rows_of_sessions = in_parallel(tasks, jobs, progress)
    return pd.DataFrame([row for rows in rows_of_sessions for row in rows])


def _ask(
    make_annotators: Callable[[int, np.random.Generator], Annotators],
    strategy: str,
    repetition: int,
    *,
    budgets: tuple[int, ...],
    top: int,
    seed: int,
) -> list[dict[str, Any]]:
    """Ask the questions of one strategy in one repetition; measure the ranking at each budget.

    The arguments are those of `ask_all`; `budgets` are ascending.
    """
    rng = np.random.default_rng([seed, repetition])
    annotators = make_annotators(repetition, rng)
    n = len(annotators.features)
    judgements: list[Judgement] = []
    rows: list[dict[str, Any]] = []
    seconds = 0.0  # without the time of measuring

    def measure() -> None:
        """Add a row with the measures of the ranking by the answers so far.

        For a fair comparison, the answers to the questions of each strategy are scored by a session
        that gets all of them, as if they were by one annotator.
        """
        session = Session(annotators.features, n, seed=0)
        session.replay(judgements)
        row = {"strategy": strategy, "seed": repetition, "questions": len(judgements)}
        row |= annotators.figures(session.ranking().score)
        rows.append(row | {"ms": 1000 * seconds / len(judgements)})

    if strategy in SORTS:
        answers = _asked_by_sort(strategy, annotators, top or n)
    else:
        answers = _asked_by_session(_session(strategy, annotators, top, repetition), annotators)
    began = time.perf_counter()
    for judgement in islice(answers, budgets[-1]):
        seconds += time.perf_counter() - began
        judgements.append(judgement)
        if len(judgements) in budgets:
            measure()
        began = time.perf_counter()
    if judgements and len(judgements) not in budgets:  # there was no further question
        measure()
    return rows


def _session(strategy: str, annotators: Annotators, top: int, seed: int) -> Session:
    """Make the session of a strategy, one of `SESSIONS`.

    Args:
        strategy: name of the strategy.
        annotators: the annotators, who know about the items.
        top: number of best items that are wanted; 0 for all items in order.
        seed: seed of the session.
    """
    has_controls = strategy not in {"informative", "random"}
    wants_top = strategy == "top" or strategy in SET_SIZES
    return Session(
        annotators.features,
        seed=seed,
        strategy="random" if strategy == "random" else "default",
        goal=Goal(WRONG, top if wants_top else 0),
        among=annotators.among,
        holdout=0.1 if has_controls else 0.0,
        repeats=0.05 if has_controls else 0.0,
        set_size=SET_SIZES.get(strategy, 2),
    )


def _asked_by_session(session: Session, annotators: Annotators) -> Iterator[Judgement]:
    """Yield the answers to a session's questions, until no annotator has a question left.

    Four annotators are asked in turn. The answer "can't say" is not yielded.
    """
    n_without_question = 0  # annotators in a row who got no question
    for annotator in cycle(f"person-{k}" for k in range(N_ANNOTATORS)):
        questions = session.ask(annotator)
        n_without_question = 0 if questions else n_without_question + 1
        if n_without_question == N_ANNOTATORS:
            return
        for question in questions[:1]:
            answer = annotators.answer(question.items)
            session.tell(
                question.answered(annotator, answer.answer, best=answer.best, worst=answer.worst)
            )
            if answer.answer != "cant-say":
                yield answer


def _asked_by_sort(name: str, annotators: Annotators, top: int) -> Iterator[Judgement]:
    """Yield the answers to a sort of shuffled items, which starts again when it has ended."""
    while True:
        order = annotators.rng.permutation(len(annotators.features)).tolist()
        sort = SORTS[name](order, top)
        items = next(sort, None)
        while items is not None:
            answer = annotators.answer(items)
            yield answer
            assert answer.best is not None  # annotators with noise always name it
            items = next_items(sort, answer.best)


def summary(results: pd.DataFrame, values: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Average results over the seeds, with standard errors and 95 % intervals.

    Args:
        results: a frame that `simulate` or `simulate_votes` returned.
        values: names of the columns to average.
        by: names of the columns to group by.

    Returns:
        A row for each group, in order of appearance: the columns in `by`; `seeds`, the number of
        results; and for each column in `values` its mean, and with the endings `_se`, `_low` and
        `_high` the standard error and the limits of the interval, NaN for a single seed.
    """
    groups = results.groupby(list(by), sort=False)
    means = groups[list(values)].mean()
    errors = groups[list(values)].sem()
    margins = _ERRORS_OF_95_PERCENT * errors
    columns: list[pd.DataFrame | pd.Series[Any]] = [
        means,
        errors.add_suffix("_se"),
        (means - margins).add_suffix("_low"),
        (means + margins).add_suffix("_high"),
    ]
    return groups.size().rename("seeds").to_frame().join(columns).reset_index()


def spearman(x: F64, y: F64) -> float:
    """Compute the rank correlation of x and y; 0 if one of the two is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(spearmanr(x, y).statistic)


def rmse(x: F64, y: F64) -> float:
    """Compute the root mean squared difference of two score vectors, both as z-scores."""
    z_scores = [zscore(scores) if np.ptp(scores) else np.zeros(len(scores)) for scores in (x, y)]
    return float(np.sqrt(np.mean((z_scores[0] - z_scores[1]) ** 2)))


def refuse_unknown(strategies: Sequence[str], known_strategies: Sequence[str]) -> None:
    """Raise JudgementError for a strategy that is not known."""
    for name in strategies:
        if name not in known_strategies:
            raise JudgementError(
                f"unknown strategy {name!r}; known are {', '.join(known_strategies)}"
            )


def usual_budgets(most: int) -> tuple[int, ...]:
    """List the usual budgets that are at most `most`; if there is none, `most` is the only budget.

    >>> usual_budgets(120), usual_budgets(6)
    ((25, 50, 100), (6,))
    """
    return tuple(budget for budget in _BUDGETS if budget <= most) or (max(most, 1),)


def pairs_of_a_question(strategies: Sequence[str]) -> int:
    """Count the pairs of items in the largest question that one of the strategies asks.

    >>> pairs_of_a_question(["random"]), pairs_of_a_question(["default", "sets-4"])
    (1, 6)
    """
    largest = max(SET_SIZES.get(name, 2) for name in strategies)
    return largest * (largest - 1) // 2
