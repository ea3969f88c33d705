"""Algorithm 3.1 of the SortNet paper: sort, keep the compared pairs, train on them, repeat.

    C_0 = random weights, or the weights of a model; TP = VP = {}
    for i in 0 .. n_trainings:
        TP_i, R_T = sort(C_i, T);  VP_i, R_V = sort(C_i, V)
        if RankQuality(R_V) is the best so far: C* = C_i   (ties: more pairs of V right)
        TP = TP | TP_i;  VP = VP | VP_i
        if i = n_trainings: return C*
        C_{i+1} = train C_i on TP, by its share of the budget
    return C*

T and V are the training and the validation queries, R_T and R_V their rankings by the comparator
C_i, TP and VP their compared pairs.

With `start="warm"` one training budget is divided among the iterations, and with `pairs="compared"`
TP_i are all pairs that the sort compared. With `start="fresh"` and `pairs="wrong"` the algorithm is
the paper's: TP_i are the mis-compared pairs, C_{i+1} is trained from random weights, keeping the
epoch that is best on VP, and the loop ends when TP_i and VP_i bring no new pairs.

`learn_to_sort` follows these lines one by one. The steps that it calls are in
`iteration_steps.py`, their results in `iterations.py`, and the training on pairs in `training.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sortnet.comparators import Make
from sortnet.config import Config
from sortnet.core import I32, I64, SPLITS, ComparedPairs, PairSink, Progress, Queries, Split
from sortnet.core.pairs import is_in
from sortnet.core.shard import ALONE, Group
from sortnet.learning.iteration_steps import IterationSteps, answered_parts, stored_pairs
from sortnet.learning.iterations import Callback, Iteration, State
from sortnet.learning.step_budget import Budget
from sortnet.learning.training import NOT_TRAINED
from sortnet.metrics import Metric


def learn_to_sort(
    train: Queries,
    vali: Queries,
    make: Make,
    config: Config,
    *,
    metrics: Sequence[Metric] = (),
    sink: PairSink | None = None,
    extra_parts: Mapping[str, Queries] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: Progress = lambda text: None,
    state: State | None = None,
    group: Group = ALONE,
    are_checked: bool = False,
    keep_last: bool = False,
) -> State:
    """Run Algorithm 3.1 on scaled queries: sort, keep the compared pairs, train on them, repeat.

    The names are those of the paper: T and V are the training and the validation queries, C_i is
    the comparator of iteration i, R_T and R_V are its rankings, TP_i and VP_i the pairs of T and V
    that this iteration adds, TP and VP all pairs so far, and C* is the best comparator.

    Args:
        train: the training queries T, whose pairs are learned. Their grades, judged pairs or judge
            tell which of two documents is better.
        vali: the validation queries V, which choose the epoch and the iteration.
        make: a function that makes a comparator with random weights from a seed.
        config: the settings, in which `quality` is not None. The number of an iteration is mixed
            into the seed, so a resumed run draws the same numbers as a run that was never stopped.
        metrics: further measures to compute in every iteration, on T and on V.
        sink: the store of TP and VP; by default they are kept in memory.
        extra_parts: scaled queries by name, which decide nothing. C_i is measured on them in every
            iteration, and the iteration's record has the measures by these names.
        callbacks: functions that are called after each iteration, with its record and the state to
            continue from.
        progress: a function that is called with progress messages.
        state: the state to resume from; the sink must have the pairs of the iterations before. A
            state of iteration 0 begins with its comparator as C_0.
        group: the processes that share the sorts and the trainings; all have the same queries.
        are_checked: whether the caller has made the checks that raise DataError. Answers of a judge
            are checked when they arrive.
        keep_last: whether C* is the last comparator, not the best: for validation queries that are
            training queries, too.

    Returns:
        The state after the last iteration; its `best` is C*.

    Raises:
        DataError: if no training query has documents of two grades, or RankQuality is the same for
            every ranking of V.

    Cost: an iteration makes at most n ceil(log2 n) comparisons a query, and trains on TP.
    """
    config = config.with_defaults
    if state is None:
        state = State(0, make(config.seed))
    T, V, config = answered_parts(train, vali, config, state, are_checked=are_checked)
    measured = list(dict.fromkeys((config.rank_quality, *metrics)))
    steps = IterationSteps(make, config, Budget.of(T, config), measured, group)
    if sink is None:
        sink = MemoryPairs()
    TP = stored_pairs(sink, "train", T, state)
    VP = stored_pairs(sink, "vali", V, state)

    n_iterations = 0 if state.finished else steps.budget.iterations + 1
    for i in range(state.iteration, n_iterations):
        report = _with_iteration(progress, i)
        T, state = steps.ask(T, state)
        report("sorting")
        R_T = steps.sort_train(state.comparator, T)
        R_V = steps.sort_vali(state.comparator, V)
        state = state.scored(steps.quality(R_V), R_V.right, keep_last=keep_last)
        measures = {"train": R_T.measures, "vali": R_V.measures}
        for name, part in (extra_parts or {}).items():
            measures[name] = steps.measure(state.comparator, part)

        TP_i, asked_keys = steps.pairs_of_train(T, R_T, state)
        VP_i = R_V.compared.in_order()
        sink.add("train", i, TP_i, R_T.wrong)
        sink.add("vali", i, VP_i)
        n_tp, n_vp = len(TP), len(VP)
        TP = TP | TP_i
        VP = VP | VP_i
        new_train, new_vali = len(TP) - n_tp, len(VP) - n_vp

        finished = steps.is_last(state, new_train + new_vali)
        C_next, trained = state.comparator, replace(NOT_TRAINED, moments=state.moments)
        if not finished:
            C_next, trained = steps.train(state, T, TP, R_T.order, V, VP, report)
        record = Iteration(
            iteration=i,
            comparisons_train=R_T.comparisons,
            comparisons_vali=R_V.comparisons,
            miscompared_train=R_T.miscompared,
            miscompared_vali=R_V.miscompared,
            new_train=new_train,
            new_vali=new_vali,
            tp=len(TP),
            vp=len(VP),
            quality=steps.quality(R_V),
            best=state.best_iteration == i,
            measures=measures,
            epochs=trained.epochs,
            kept_epoch=trained.kept_epoch,
            train_loss=trained.train_loss,
            vali_loss=trained.vali_loss,
            seconds_sort=R_T.seconds + R_V.seconds,
            seconds_train=trained.seconds,
            observed={"train": {"answers": len(asked_keys)}},
        )
        state = replace(
            state,
            iteration=i + 1,
            comparator=C_next,
            moments=trained.moments,
            asked=asked_keys,
            finished=finished,
        )
        for callback in callbacks:
            callback(record, state)
        if finished:
            break
    return state


def _with_iteration(progress: Progress, iteration: int) -> Progress:
    """Return a progress function that puts the number of the iteration before each message."""
    return lambda text: progress(f"iteration {iteration}: {text}")


class MemoryPairs:
    """A `PairSink` in memory: 12 bytes a pair. It does not count wrong pairs.

    >>> sink = MemoryPairs()
    >>> sink.add("train", 0, ComparedPairs.of([0, 4], [2, 5], margin=[-1, 1], answer=1))
    >>> sink.add("train", 1, ComparedPairs.of([4, 4], [5, 6], margin=-1, answer=1))
    >>> sink.pairs("train").j.tolist(), sink.pairs("train", before=1).j.tolist()
    ([2, 5, 6], [2, 5])
    """

    def __init__(self) -> None:
        # For each split the ascending keys of the pairs, and the iteration that added each pair.
        nothing = np.empty(0, np.int64), np.empty(0, np.int32)
        self._pairs: dict[Split, tuple[I64, I32]] = dict.fromkeys(SPLITS, nothing)

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        """Add the pairs; a pair that is there already keeps the earlier of the two iterations.

        Cost: a copy of all pairs.
        """
        keys, added_in = self._pairs[split]
        new_keys = pairs.key[~is_in(pairs.key, keys)]
        rows = np.searchsorted(keys, new_keys)
        keys = np.insert(keys, rows, new_keys)
        added_in = np.insert(added_in, rows, iteration)
        rows_of_pairs = np.searchsorted(keys, pairs.key)
        added_in[rows_of_pairs] = np.minimum(added_in[rows_of_pairs], iteration)
        self._pairs[split] = keys, added_in

    def pairs(self, split: Split, before: int | None = None) -> ComparedPairs:
        """Return the pairs that were added before the iteration `before`, or all added pairs."""
        keys, added_in = self._pairs[split]
        return ComparedPairs.of_keys(keys if before is None else keys[added_in < before])
