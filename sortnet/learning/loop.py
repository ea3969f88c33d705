"""Algorithm 3.1 of the SortNet paper: sort, keep the mis-compared pairs, train on them, repeat.

    C0 = random; TP = VP = {}
    for i in 0 .. max_iter - 1:
        TP_i, R_T = sort(C_i, T);  VP_i, R_V = sort(C_i, V)
        if RankQuality(R_V) is the best so far: C* = C_i   (ties: more pairs of V right)
        if TP_i within TP and VP_i within VP: return C*
        TP = TP | TP_i;  VP = VP | VP_i
        C_{i+1} = train on TP, keeping the epoch that is best on VP
    return C*

`learn_to_sort` is this, line for line.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sortnet.comparators import Learner, Make
from sortnet.config import Training
from sortnet.errors import DataError
from sortnet.learning.judges import can_be_learned, judge_by_grades
from sortnet.learning.memory_pairs import MemoryPairs
from sortnet.learning.training import Trained, train_on_pairs
from sortnet.metrics import Empty, Metric, check_can_choose, evaluate
from sortnet.sorting import sort
from sortnet.sorting.observe import observe, share_right
from sortnet.types import Judge, Pairs, PairSink, Progress, Queries, Sorting


@dataclass(frozen=True)
class Iteration:
    """What one iteration did; the row of it that a store keeps.

    Attributes:
        iteration: i, from 0.
        comparisons_train, comparisons_vali: made by sorting with C_i.
        miscompared_train, miscompared_vali: those that were wrong, |TP_i| and |VP_i|.
        new_train, new_vali: wrong pairs that were not in TP, in VP.
        tp, vp: sizes of TP and VP with the new pairs.
        quality: RankQuality of C_i on the validation part.
        best: whether C_i is the best so far; of equal RankQuality is the one that got more pairs
            of V right.
        measures: {"train" | "vali": {metric name: mean over queries}} of C_i.
        epochs, kept_epoch: of the training that made C_{i+1} (0 where there was none; means
            over the members of a committee).
        train_loss, vali_loss: of that training, at its last and at its kept epoch.
        seconds_sort, seconds_train: wall-clock seconds.
        observed: {"train" | "vali": what `observe` says of the sort}; empty in older histories.
    """

    iteration: int
    comparisons_train: int
    comparisons_vali: int
    miscompared_train: int
    miscompared_vali: int
    new_train: int
    new_vali: int
    tp: int
    vp: int
    quality: float
    best: bool
    measures: dict[str, dict[str, float]]
    epochs: float
    kept_epoch: float
    train_loss: float
    vali_loss: float
    seconds_sort: float
    seconds_train: float
    observed: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """All a run needs to go on, besides the pairs in its sink.

    Attributes:
        iteration: the iteration to do next.
        comparator: C_i, to sort with in it.
        best: C*, the best comparator so far; None before the first iteration.
        best_iteration, best_quality: when it was found and its RankQuality.
        best_right: the share of the comparisons it got right on V, 0 to 1.
        finished: whether the loop has ended.
    """

    iteration: int
    comparator: Learner
    best: Learner | None = None
    best_iteration: int = -1
    best_quality: float = -np.inf
    finished: bool = False
    best_right: float = 0.0


Callback: TypeAlias = Callable[[Iteration, State], None]


def learn_to_sort(
    train: Queries,
    vali: Queries,
    make: Make,
    *,
    quality: Metric,
    metrics: Sequence[Metric] = (),
    empty: Empty = "zero",
    training: Training | None = None,
    max_iter: int = 20,
    max_stale: int | None = None,
    warm_start: bool = True,
    judge: Judge = judge_by_grades,
    sink: PairSink | None = None,
    callbacks: Sequence[Callback] = (),
    progress: Progress = lambda text: None,
    state: State | None = None,
    seed: int = 0,
) -> State:
    """Run Algorithm 3.1 on scaled queries.

    Args:
        train: T, the queries whose mis-compared pairs are learned.
        vali: V, the queries that choose the epoch and the iteration.
        make: a comparator with random weights from a seed.
        quality: RankQuality.
        metrics: more measures to take in every iteration, on both parts.
        empty: what a query without a relevant document counts for.
        training: settings of the training on pairs.
        max_iter: sorts of T and V, at most.
        max_stale: iterations in a row without a better RankQuality after which to stop, which
            the paper does not do; None: never.
        warm_start: train C_{i+1} from the weights of C_i, not from new random ones.
        judge: says which comparisons were wrong.
        sink: where the pairs go; in memory when left out.
        callbacks: called after each iteration with what it did and the state to go on from.
        progress: told what is going on, as text.
        state: go on from here; the sink must have the pairs of the iterations before.
        seed: of all that is random; the iteration's number is mixed in, so a resumed run draws
            the same numbers as one that was never stopped.

    Returns:
        The last state, finished; its `best` is C*.

    Raises:
        DataError: if no training query has documents of two grades, or RankQuality scores every
            ranking of V alike.

    Cost: an iteration makes at most n ceil(log2 n) comparisons a query, and trains on TP.
    """
    if not can_be_learned(train):
        raise DataError(
            f"{train.source}: no query has documents of two different grades: nothing to learn"
        )
    check_can_choose(quality, vali)
    sink = MemoryPairs() if sink is None else sink
    training = Training() if training is None else training
    measured = list(dict.fromkeys((quality, *metrics)))
    state = State(0, make(seed)) if state is None else state
    TP, VP = sink.pairs("train", state.iteration), sink.pairs("vali", state.iteration)

    for i in range(state.iteration, 0 if state.finished else max_iter):
        started = time.perf_counter()
        progress(f"iteration {i}: sorting")
        TP_i, R_T = _sort(state.comparator, train, judge)
        VP_i, R_V = _sort(state.comparator, vali, judge)
        seconds_sort = time.perf_counter() - started

        scores = {
            "train": evaluate(train, R_T.order, measured, empty=empty),
            "vali": evaluate(vali, R_V.order, measured, empty=empty),
        }
        observed = {
            "train": observe(train, R_T, TP_i, comparator=state.comparator),
            "vali": observe(vali, R_V, VP_i, comparator=state.comparator),
        }
        score = scores["vali"][quality.name]
        right = share_right(observed["vali"])
        is_best = (score, right) > (state.best_quality, state.best_right)

        new_T, new_V = sink.add("train", i, TP_i), sink.add("vali", i, VP_i)
        TP, VP = TP | TP_i, VP | VP_i
        # The comparator that the last iteration would train is never sorted with.
        stale = 0 if is_best else i - state.best_iteration
        finished = new_T == new_V == 0 or i == max_iter - 1 or stale == max_stale

        started = time.perf_counter()
        following, trained = state.comparator, Trained(0, 0, np.nan, np.nan)
        if not finished:
            seed_i = _iteration_seed(seed, i + 1)
            following = copy.deepcopy(state.comparator) if warm_start else make(seed_i)
            trained = train_on_pairs(
                following, train, TP, vali, VP, training,
                seed=seed_i, progress=_within(progress, i),
            )  # fmt: skip

        record = Iteration(
            i, len(R_T.i), len(R_V.i), len(TP_i), len(VP_i), new_T, new_V, len(TP), len(VP),
            score, is_best, scores, trained.epochs, trained.kept_epoch,
            trained.train_loss, trained.vali_loss, seconds_sort, time.perf_counter() - started,
            observed,
        )  # fmt: skip
        state = State(
            i + 1,
            following,
            state.comparator if is_best else state.best,
            i if is_best else state.best_iteration,
            score if is_best else state.best_quality,
            finished,
            right if is_best else state.best_right,
        )
        for callback in callbacks:
            callback(record, state)
        if finished:
            break
    return state


def _sort(comparator: Learner, queries: Queries, judge: Judge) -> tuple[Pairs, Sorting]:
    sorting = sort(comparator, queries)
    return judge(queries, sorting), sorting


def _iteration_seed(seed: int, iteration: int) -> int:
    return int(np.random.SeedSequence([seed, iteration]).generate_state(1)[0])


def _within(progress: Progress, iteration: int) -> Progress:
    return lambda text: progress(f"iteration {iteration}: {text}")
