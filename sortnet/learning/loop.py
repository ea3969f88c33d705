"""Algorithm 3.1 of the SortNet paper: sort, keep the compared pairs, train on them, repeat.

    C0 = random, or a model's; TP = VP = {}
    for i in 0 .. n_trainings:
        TP_i, R_T = sort(C_i, T);  VP_i, R_V = sort(C_i, V)
        if RankQuality(R_V) is the best so far: C* = C_i   (ties: more pairs of V right)
        TP = TP | TP_i;  VP = VP | VP_i
        if i = n_trainings: return C*
        C_{i+1} = train C_i on TP, by its share of the budget
    return C*

This is `start="warm"`: one training budget is divided among the iterations; with
`pairs="compared"` TP_i are all pairs that the sort compared. With `pairs="wrong", start="fresh"` it
is the paper's: TP_i are the mis-compared pairs, C_{i+1} is trained from random weights, keeping the
epoch that is best on VP, and the loop ends when TP_i and VP_i bring nothing new.

`learn_to_sort` is this, line for line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sortnet.comparators import Make
from sortnet.config import Config
from sortnet.core import PairSink, Progress, Queries
from sortnet.learning.iteration_steps import IterationSteps, answered_parts
from sortnet.learning.iterations import Callback, State
from sortnet.learning.pair_sinks import MemoryPairs, own_pairs
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
    are_checked: bool = False,
) -> State:
    """Run Algorithm 3.1 on scaled queries.

    Args:
        train: T, the queries whose mis-compared pairs are learned; their grades, judged pairs or
            judge say which of two documents is better.
        vali: V, the queries that choose the epoch and the iteration.
        make: makes a comparator with random weights from a seed.
        config: settings, with a RankQuality. The iteration's number is mixed into the seed, so a
            resumed run draws the same numbers as one that was never stopped.
        metrics: more measures to take in every iteration, on both parts.
        sink: where the pairs go; in memory when left out.
        extra_parts: scaled queries that are measured in every iteration and decide nothing; their
            measures stand in its record by these names.
        callbacks: called after each iteration with its record and the state to continue from.
        state: the state to resume from; the sink must have the pairs of the iterations before. A
            state of iteration 0 begins with its comparator as C0.
        are_checked: whether the caller has made the checks that raise DataError; answers of a judge
            are checked when they are given.

    Returns:
        The last state, finished; its `best` is C*.

    Raises:
        DataError: if no training query has documents of two grades, or RankQuality scores every
            ranking of V alike.

    Cost: an iteration makes at most n ceil(log2 n) comparisons a query, and trains on TP.
    """
    config = config.with_defaults
    extra_parts = extra_parts or {}
    state = state or State(0, make(config.seed))
    T, V, config = answered_parts(train, vali, config, state, are_checked=are_checked)
    steps = IterationSteps.of(T, V, make, config, metrics)
    sink = own_pairs(MemoryPairs() if sink is None else sink, T, V)
    TP, VP = sink.pairs("train", state.iteration), sink.pairs("vali", state.iteration)

    for i in range(state.iteration, 0 if state.finished else steps.n_sorts):
        report = _within(progress, i)
        T, state = steps.ask(T, state)
        report("sorting")
        R_T = steps.sort_train(state.comparator, T)
        R_V = steps.sort_vali(state.comparator, V)
        state = steps.scored(state, R_V)

        TP_i, asked_keys = steps.pairs_of_train(T, R_T, state)
        VP_i = steps.pairs_of_vali(R_V)
        new = sink.add("train", i, TP_i, R_T.wrong), sink.add("vali", i, VP_i)
        TP, VP = TP | TP_i, VP | VP_i

        finished = steps.is_last(state, new)
        n_asked = len(asked_keys)
        record = steps.record(state, (R_T, R_V), new, (T, TP), (V, VP), n_asked, extra_parts)
        C_next, optimiser = state.comparator, state.optimiser
        if not finished:
            C_next, optimiser, trained = steps.train(state, (T, TP, R_T.order), (V, VP), report)
            record = record.with_training(trained)

        state = replace(
            state,
            iteration=i + 1,
            comparator=C_next,
            optimiser=optimiser,
            asked=asked_keys,
            finished=finished,
        )
        for callback in callbacks:
            callback(record, state)
        if finished:
            break
    return state


def _within(progress: Progress, iteration: int) -> Progress:
    """Make a progress function that puts the iteration's number before each message."""
    return lambda text: progress(f"iteration {iteration}: {text}")
