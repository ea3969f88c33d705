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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from sortnet.comparators import Committee, Learner, Make
from sortnet.config import Training
from sortnet.learning.judges import (
    check_can_be_learned,
    in_order,
    judge_by_data,
    sorted_to_check,
    wrong_pairs,
)
from sortnet.learning.memory_pairs import MemoryPairs
from sortnet.learning.own_pairs import keys_of_all, own_keys, own_pairs
from sortnet.learning.selection import Shown, answered_pairs, compares, learns, selected
from sortnet.learning.state import Iteration, Sorted, State
from sortnet.learning.training import Trained, best_trained, to_try
from sortnet.metrics import Empty, Metric, check_can_choose, evaluate
from sortnet.sorting.observe import Tally
from sortnet.sorting.sort import order_of
from sortnet.types import I64, Judge, Pairs, PairSink, Progress, Queries
from sortnet.types.shard import gathered, summed

Callback: TypeAlias = Callable[[Iteration, State], None]

_ROUNDS = 4  # that a budget of answers is spent in


def learn_to_sort(
    train: Queries,
    vali: Queries,
    make: Make,
    *,
    quality: Metric,
    metrics: Sequence[Metric] = (),
    empty: Empty = "zero",
    training: Training = Training(),  # noqa: B008  # it cannot be changed
    max_iter: int = 20,
    max_stale: int | None = None,
    pairs: str = "wrong",
    judgements: int | None = None,
    start: str = "warm",
    committee: int = 1,
    judge: Judge = judge_by_data,
    sink: PairSink | None = None,
    others: Mapping[str, Queries] | None = None,
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
        pairs: which pairs are learned from, a name of `selection.STRATEGIES`; `wrong` is the
            paper's.
        judgements: answers on training pairs that the judge may give, in all; None: any number.
            A strategy that `learns` spends them in rounds, another at once. Few pairs may want a
            stronger weight decay: of three the best one on V is taken.
        start: `fresh` trains C_{i+1} from random weights, `warm` from those of C_i; `add` trains
            one more comparator, whose margins are added to those of the ones before.
        committee: with `add`, the number of comparators at which to end.
        judge: says which of two documents is better; as the data say, when left out.
        sink: where the pairs go; in memory when left out.
        others: scaled queries that are measured in every iteration and decide nothing; their
            measures stand in its record by these names.
        callbacks: called after each iteration with what it did and the state to go on from.
        progress: called with progress messages.
        state: resume from here; the sink must have the pairs of the iterations before.
        seed: of all that is random; the iteration's number is mixed in, so a resumed run draws
            the same numbers as one that was never stopped.

    Returns:
        The last state, finished; its `best` is C*.

    Raises:
        DataError: if no training query has documents of two grades, or RankQuality scores every
            ranking of V alike.

    Cost: an iteration makes at most n ceil(log2 n) comparisons a query, and trains on TP.
    """
    check_can_be_learned(train)
    check_can_choose(quality, vali)
    sink = own_pairs(MemoryPairs() if sink is None else sink, train, vali)
    measured, add = list(dict.fromkeys((quality, *metrics))), start == "add"
    state = State(0, make(seed)) if state is None else state
    score, sort = partial(_quality, vali, quality, empty), partial(_sort, judge, measured, empty)
    teach = partial(best_trained, judge=judge, score=score)
    TP, VP = sink.pairs("train", state.iteration), sink.pairs("vali", state.iteration)

    for i in range(state.iteration, 0 if state.finished else max_iter):
        report, seed_i = _within(progress, i), _iteration_seed(seed, i + 1)
        report("sorting")
        T_i = sort(state.comparator, train, compared=compares(pairs, train))
        V_i = sort(state.comparator, vali, answered=pairs != "wrong")
        more = _measures(state.comparator, others or {}, measured, empty)

        state = state.scored(V_i.measures[quality.name], V_i.right, larger=add and i > 1)
        rounds = committee * (i < committee) if add else _ROUNDS  # when full it learns no more
        TP_i, asked = _taken(train, T_i, judge, pairs, state, judgements, rounds, seed_i)
        VP_i = V_i.wrong if pairs == "wrong" else V_i.answered
        new = sink.add("train", i, TP_i, T_i.wrong), sink.add("vali", i, VP_i, V_i.wrong)
        TP, VP = TP | TP_i, VP | VP_i
        sizes = int(summed(train, len(TP))), int(summed(vali, len(VP)))
        # The comparator that the last iteration would train is never sorted with.
        done = i == max_iter - 1 or i - state.best_iteration == max_stale
        finished = done or (i == committee if add else new == (0, 0))

        C_next, trained = state.comparator, Trained(0, 0, np.nan, np.nan)
        if not finished:
            C_next = copy.deepcopy(state.comparator) if start == "warm" else make(seed_i)
            hows = to_try(training, judgements, None if learns(pairs) else state.weight_decay)
            C_next, trained = teach(C_next, train, TP, vali, VP, hows, seed=seed_i, progress=report)
        if add and i > 0 and not finished:
            C_next = Committee([*state.comparator.members, *C_next.members])

        parts = T_i, V_i
        record = Iteration.of(state, quality.name, parts, more, new, sizes, len(asked), trained)
        state = state.then(C_next, finished, asked, trained.weight_decay)
        for callback in callbacks:
            callback(record, state)
        if finished:
            break
    return state


def _quality(part: Queries, quality: Metric, empty: Empty, net: Learner) -> float:
    return evaluate(part, order_of(net, part), quality, empty=empty)[quality.name]


def _sort(
    judge: Judge,
    metrics: Sequence[Metric],
    empty: Empty,
    comparator: Learner,
    part: Queries,
    *,
    compared: bool = False,
    answered: bool = False,
) -> Sorted:
    """Sort a part and judge its comparisons, run by run: what is not kept takes no memory."""
    started = time.perf_counter()
    order, tally, comparisons = np.empty(part.n_docs, np.int64), Tally(part), 0
    none = np.empty(0, np.int32)
    kept, known, wrong = [(none, none)], [Pairs.empty()], [Pairs.empty()]
    for docs, run in sorted_to_check(comparator, part):
        answers = judge(part, run.i, run.j)
        order[docs] = run.order
        tally.see(docs, run, answers)
        comparisons += len(run.i)
        wrong.append(wrong_pairs(run, answers))
        kept += [(run.i, run.j)] if compared else []
        known += [in_order(run.i, run.j, answers)] if answered else []
    seconds = time.perf_counter() - started
    # Documents are numbered query by query, so the keys of a run are above those before.
    of_known, all_wrong = (
        Pairs.of_keys(np.concatenate([run.key for run in runs])) for runs in (known, wrong)
    )
    i, j = (np.concatenate(each) for each in zip(*kept, strict=True))
    made, miscompared = summed(part, np.array([comparisons, len(all_wrong)]))
    return Sorted(
        int(made), int(miscompared), i, j, of_known, all_wrong,
        evaluate(part, order, metrics, empty=empty), tally.facts(comparator), seconds,
    )  # fmt: skip


def _measures(
    comparator: Learner, parts: Mapping[str, Queries], metrics: Sequence[Metric], empty: Empty
) -> dict[str, dict[str, float]]:
    return {
        name: evaluate(part, order_of(comparator, part), metrics, empty=empty)
        for name, part in parts.items()
    }


def _taken(
    part: Queries,
    found: Sorted,
    judge: Judge,
    strategy: str,
    state: State,
    judgements: int | None,
    rounds: int,
    seed: int,
) -> tuple[Pairs, I64]:
    """TP_i, the pairs to learn from as the strategy takes them, and all asked about so far."""
    if not rounds:
        return Pairs.empty(), state.asked
    rounds = rounds if learns(strategy) else 1
    wanted = None if judgements is None else _round(judgements, rounds, len(state.asked))
    rng = np.random.default_rng(seed)
    before = own_keys(part, state.asked)
    shown = Shown(part, state.comparator, wanted, rng, before, found.i, found.j, found.comparisons)
    chosen, asked = selected(strategy, shown)
    answered = answered_pairs(part, chosen, judge)
    asked = gathered(part, keys_of_all(part, asked))
    return (answered & found.wrong if strategy == "wrong" else answered), asked


def _round(judgements: int, rounds: int, asked: int) -> int:
    """Answers to ask for, of a budget that is spent in some rounds at least.

    They double: what was learned from the first answers chooses the next. The last comparator of a
    committee that grows learns from the whole budget.
    """
    first: int = -(-judgements >> (min(rounds, _ROUNDS) - 1))
    return min(max(asked, first), judgements - asked)


def _iteration_seed(seed: int, iteration: int) -> int:
    return int(np.random.SeedSequence([seed, iteration]).generate_state(1)[0])


def _within(progress: Progress, iteration: int) -> Progress:
    return lambda text: progress(f"iteration {iteration}: {text}")
