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

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from sortnet.comparators import Learner, Make
from sortnet.config import Config
from sortnet.learning.budget import Budget
from sortnet.learning.judges import (
    check_can_be_learned,
    in_order,
    judge_by_data,
    sorted_to_check,
)
from sortnet.learning.pair_sinks import MemoryPairs, keys_of_all, own_keys, own_pairs
from sortnet.learning.pair_weights import weights_by_quality
from sortnet.learning.selection import (
    Shown,
    answered,
    answered_pairs,
    answers_about_vali,
    ask,
    compares,
    is_kept,
    kept_share,
    selected,
    wanted,
)
from sortnet.learning.training import (
    NONE,
    OptimiserState,
    Trained,
    train_on_pairs,
    train_share,
)
from sortnet.metrics import Empty, Metric, check_can_choose, evaluate
from sortnet.sorting.diagnostics import Tally, mistakes, share_right
from sortnet.sorting.sort import order_of
from sortnet.types import I32, I64, Pairs, PairSink, Progress, Queries
from sortnet.types.shard import gathered, summed


@dataclass(frozen=True)
class Sorted:
    """What sorting one part with C_i showed; of a shard, counts and measures are of the whole."""

    comparisons: int  # how many were made
    miscompared: int  # how many of them were wrong
    i: I32  # (m,) documents of the comparisons, i and j; none where they were not kept
    j: I32
    answered: Pairs  # the compared pairs, as the judge orders them; none where they were not kept
    wrong: Pairs  # the pairs that were mis-compared
    order: I64  # (n_docs,) the ranking, document numbers query by query
    measures: dict[str, float]  # {metric name: mean over the queries}
    observed: dict[str, Any]  # what `Tally` says of the sort
    seconds: float  # of sorting and judging, by the clock


@dataclass(frozen=True)
class Iteration:
    """What one iteration did; the row of it that a store keeps.

    Attributes:
        iteration: i, from 0.
        comparisons_train, comparisons_vali: made by sorting with C_i.
        miscompared_train, miscompared_vali: those that were wrong, |TP_i| and |VP_i|.
        new_train, new_vali: pairs taken that were not in TP, in VP.
        tp, vp: sizes of TP and VP with the new pairs.
        quality: RankQuality of C_i on the validation part.
        best: whether C_i is the best so far; of equal RankQuality is the one that got more pairs
            of V right.
        measures: {"train" | "vali" | another part: {metric name: mean over queries}} of C_i.
        epochs, kept_epoch: of the training that made C_{i+1} (0 where there was none; means
            over the nets of a committee).
        train_loss, vali_loss: of that training, at its last and at its kept epoch.
        seconds_sort, seconds_train: wall-clock seconds.
        observed: {"train" | "vali": what `Tally` says of the sort}; empty in older histories.
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

    @classmethod
    def of(
        cls,
        state: State,
        quality: str,
        parts: tuple[Sorted, Sorted],
        others: Mapping[str, dict[str, float]],
        new: tuple[int, int],
        kept: tuple[int, int],
        answers: int,
        trained: Trained,
    ) -> Iteration:
        """The record of the iteration that `state` was scored in; parts, new and kept pairs are
        of (T, V), `others` measures of further queries, `answers` what the judge gave so far."""
        T, V = parts
        return cls(
            state.iteration, T.comparisons, V.comparisons, T.miscompared, V.miscompared,
            *new, *kept,
            V.measures[quality], state.best_iteration == state.iteration,
            {"train": T.measures, "vali": V.measures, **others},
            trained.epochs, trained.kept_epoch, trained.train_loss, trained.vali_loss,
            T.seconds + V.seconds, trained.seconds,
            {"train": T.observed | {"answers": answers}, "vali": V.observed},
        )  # fmt: skip


@dataclass(frozen=True)
class State:
    """All a run needs to go on, besides the pairs in its sink."""

    iteration: int  # the iteration to do next
    comparator: Learner  # C_i, to sort with in it
    best: Learner | None = None  # C*, the best comparator so far; None before the first iteration
    best_iteration: int = -1  # when it was found
    best_quality: float = -np.inf  # its RankQuality
    finished: bool = False  # whether the loop has ended
    best_right: float = 0.0  # the share of the comparisons it got right on V, 0 to 1
    # (k,) the training comparisons that the judge was asked about, packed, ascending
    asked: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    # where the next training of the budget continues
    optimiser: OptimiserState = field(default_factory=OptimiserState)
    is_trained: bool = False  # whether C0 has the weights of a model, not random ones

    def scored(self, quality: float, right: float) -> State:
        """C_i has been scored on V: it is C* if that is the best so far."""
        if not (quality, right) > (self.best_quality, self.best_right):  # NaN is never better
            return self
        return replace(
            self, best=self.comparator, best_iteration=self.iteration,
            best_quality=quality, best_right=right,
        )  # fmt: skip


Callback: TypeAlias = Callable[[Iteration, State], None]


def learn_to_sort(
    train: Queries,
    vali: Queries,
    make: Make,
    config: Config,
    *,
    metrics: Sequence[Metric] = (),
    sink: PairSink | None = None,
    others: Mapping[str, Queries] | None = None,
    callbacks: Sequence[Callback] = (),
    progress: Progress = lambda text: None,
    state: State | None = None,
) -> State:
    """Run Algorithm 3.1 on scaled queries.

    Args:
        train: T, the queries whose mis-compared pairs are learned; their grades, judged pairs or
            judge say which of two documents is better.
        vali: V, the queries that choose the epoch and the iteration.
        make: a comparator with random weights from a seed.
        config: settings, with a RankQuality. The iteration's number is mixed into the seed, so a
            resumed run draws the same numbers as one that was never stopped.
        metrics: more measures to take in every iteration, on both parts.
        sink: where the pairs go; in memory when left out.
        others: scaled queries that are measured in every iteration and decide nothing; their
            measures stand in its record by these names.
        callbacks: called after each iteration with what it did and the state to go on from.
        state: resume from here; the sink must have the pairs of the iterations before. A state of
            iteration 0 begins with its comparator as C0.

    Returns:
        The last state, finished; its `best` is C*.

    Raises:
        DataError: if no training query has documents of two grades, or RankQuality scores every
            ranking of V alike.

    Cost: an iteration makes at most n ceil(log2 n) comparisons a query, and trains on TP.
    """
    config = config.with_defaults
    quality, name, empty = config.rank_quality, config.rank_quality.name, config.empty
    if train.judge is None:  # else what it says is checked
        check_can_be_learned(train)
    budget = Budget.of(train, config)
    sink = own_pairs(MemoryPairs() if sink is None else sink, train, vali)
    measured = list(dict.fromkeys((quality, *metrics)))
    state = state or State(0, make(config.seed))
    train = answered(train, own_keys(train, state.asked))
    vali, config = _vali_answered(vali, config, state)
    check_can_choose(quality, vali)
    sort, of = partial(_sort, measured, empty), partial(evaluate, metrics=measured, empty=empty)
    n_sorts = budget.iterations + 1
    share_T, share_V = (kept_share(config.strategy, part, n_sorts) for part in (train, vali))
    train_next = partial(_train_next, make, config, budget)
    TP, VP = sink.pairs("train", state.iteration), sink.pairs("vali", state.iteration)

    for i in range(state.iteration, 0 if state.finished else budget.iterations + 1):
        report, seed_i = _within(progress, i), _iteration_seed(config.seed, i + 1)
        train, state = _asked(train, config, budget.iterations, state, seed_i)
        report("sorting")
        is_compared = compares(config.strategy, train)
        T_i = sort(state.comparator, train, compared=is_compared, share=share_T)
        V_i = sort(state.comparator, vali, answered=config.strategy != "wrong", share=share_V)
        more = {k: of(q, order_of(state.comparator, q)) for k, q in (others or {}).items()}

        state = state.scored(V_i.measures[name], share_right(V_i.observed))
        TP_i, asked = _taken(train, T_i, config, budget.iterations, state, seed_i)
        VP_i = V_i.wrong if config.strategy == "wrong" else V_i.answered
        new = sink.add("train", i, TP_i, T_i.wrong), sink.add("vali", i, VP_i, V_i.wrong)
        TP, VP = TP | TP_i, VP | VP_i
        is_stale = new == (0, 0) or i - state.best_iteration == config.max_stale
        finished = i == budget.iterations or (config.start == "fresh" and is_stale)

        trained = NONE
        next_state = replace(state, iteration=i + 1, finished=finished, asked=asked)
        if not finished:
            trained, next_state = train_next(
                next_state, (train, TP, T_i.order), (vali, VP), seed_i, report
            )

        sizes = int(summed(train, len(TP))), int(summed(vali, len(VP)))
        record = Iteration.of(state, name, (T_i, V_i), more, new, sizes, len(asked), trained)
        state = next_state
        for callback in callbacks:
            callback(record, state)
        if finished:
            break
    return state


def _train_next(
    make: Make,
    config: Config,
    budget: Budget,
    state: State,
    train: tuple[Queries, Pairs, I64],
    vali: tuple[Queries, Pairs],
    seed: int,
    progress: Progress,
) -> tuple[Trained, State]:
    """Train C_{i+1} on TP: by its share of the budget, or by a training of its own.

    `train` has T, TP and the ranking of T by C_i, `vali` V and VP; the state is that after the sort
    with C_i, of which the iteration counts already.
    """
    T, TP, order = train
    V, VP = vali
    training = config.training
    # The ranking of random weights says nothing of where the pairs matter.
    first = state.iteration == 1 and budget.iterations > 1 and not state.is_trained
    gain = None
    if training.pair_weight == "quality" and not first:
        gain = weights_by_quality(config.rank_quality, T, order, TP)
    comparator = make(seed) if config.start == "fresh" else copy.deepcopy(state.comparator)
    if config.start == "warm" and budget.iterations > 1:
        share = budget.share(state.iteration - 1)
        trained, optimiser = train_share(
            comparator, T, TP, V, VP, training, share,
            before=state.optimiser, gain=gain, seed=seed, progress=progress,
        )  # fmt: skip
        return trained, replace(state, comparator=comparator, optimiser=optimiser)
    trained = train_on_pairs(
        comparator, T, TP, V, VP, training,
        score=lambda net: config.quality_of(V, order_of(net, V)),
        gain=gain, seed=seed, progress=progress,
    )  # fmt: skip
    return trained, replace(state, comparator=comparator)


def _sort(
    metrics: Sequence[Metric],
    empty: Empty,
    comparator: Learner,
    part: Queries,
    *,
    compared: bool = False,
    answered: bool = False,
    share: float = 1.0,
) -> Sorted:
    """Sort a part and judge its comparisons, run by run: what is not kept takes no memory.

    Of the pairs a share is kept, see `is_kept`; counts and measures are of all comparisons.
    """
    started = time.perf_counter()
    order, tally = np.empty(part.n_docs, np.int64), Tally(part)
    comparisons = n_wrong = 0
    none = np.empty(0, np.int32)
    kept, known, wrong = [(none, none)], [Pairs.empty()], [Pairs.empty()]
    for docs, run in sorted_to_check(comparator, part):
        answers = judge_by_data(part, run.i, run.j)
        order[docs] = run.order
        tally.see(docs, run, answers)
        comparisons += len(run.i)
        is_wrong = mistakes(run, answers)
        n_wrong += int(is_wrong.sum())
        i, j = run.i, run.j
        if share < 1:
            rows = is_kept(part, i, j, share)
            i, j, answers, is_wrong = i[rows], j[rows], answers[rows], is_wrong[rows]
        wrong.append(in_order(i[is_wrong], j[is_wrong], answers[is_wrong]))
        kept += [(i, j)] if compared else []
        known += [in_order(i, j, answers)] if answered else []
    seconds = time.perf_counter() - started
    # Documents are numbered query by query, so the keys of a run are above those before.
    of_known, all_wrong = (
        Pairs.of_keys(np.concatenate([run.key for run in runs])) for runs in (known, wrong)
    )
    i, j = (np.concatenate(each) for each in zip(*kept, strict=True))
    made, miscompared = summed(part, np.array([comparisons, n_wrong]))
    return Sorted(
        int(made), int(miscompared), i, j, of_known, all_wrong, order,
        evaluate(part, order, metrics, empty=empty), tally.facts(comparator), seconds,
    )  # fmt: skip


def _vali_answered(vali: Queries, config: Config, state: State) -> tuple[Queries, Config]:
    """V with its judge's answers, and the settings with the answers that are left for T."""
    if vali.judge is None:
        return vali, config
    n_answers = answers_about_vali(config.judgements)
    rng = np.random.default_rng(config.seed)
    vali = ask("even", Shown(vali, state.comparator, n_answers, rng))[0]
    if config.judgements is None or n_answers is None:
        return vali, config
    return vali, replace(config, judgements=config.judgements - n_answers)


def _shown(part: Queries, config: Config, trainings: int, state: State, seed: int) -> Shown:
    n_answers = wanted(
        config.strategy, config.judgements, len(state.asked), state.iteration, trainings
    )
    rng = np.random.default_rng(seed)
    done = min(1.0, state.iteration / max(trainings - 1, 1))
    return Shown(part, state.comparator, n_answers, rng, own_keys(part, state.asked), done)


def _asked(
    part: Queries, config: Config, trainings: int, state: State, seed: int
) -> tuple[Queries, State]:
    """T with the answers of its judge, if it has one, to what the strategy asks about now."""
    if part.judge is None or state.iteration == trainings:
        return part, state
    part, asked = ask(config.strategy, _shown(part, config, trainings, state, seed))
    check_can_be_learned(part)
    return part, replace(state, asked=gathered(part, keys_of_all(part, asked)))


def _taken(
    part: Queries, found: Sorted, config: Config, trainings: int, state: State, seed: int
) -> tuple[Pairs, I64]:
    """TP_i, the pairs to learn from as the strategy takes them, and all asked about so far."""
    shown = _shown(part, config, trainings, state, seed)
    shown = replace(shown, order=found.order, i=found.i, j=found.j, comparisons=found.comparisons)
    chosen, asked = selected(config.strategy, shown)
    answered = answered_pairs(part, chosen)
    asked = gathered(part, keys_of_all(part, asked))
    return (answered & found.wrong if config.strategy == "wrong" else answered), asked


def _iteration_seed(seed: int, iteration: int) -> int:
    return int(np.random.SeedSequence([seed, iteration]).generate_state(1)[0])


def _within(progress: Progress, iteration: int) -> Progress:
    return lambda text: progress(f"iteration {iteration}: {text}")
