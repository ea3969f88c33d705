"""In which iterations a pair was wrong, as the store counts."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from sortnet.comparators import CmpNN, TrainableComparator
from sortnet.config import Config, Training
from sortnet.core import SPLITS, ComparedPairs, Queries, Split
from sortnet.core.pairs import unpacked
from sortnet.learning.iterations import Iteration, State
from sortnet.learning.loop import learn_to_sort
from sortnet.learning.pair_sinks import MemoryPairs
from store import Store

ITERATIONS = 4


class Added(NamedTuple):
    """A call of `PairSink.add`."""

    split: Split
    iteration: int
    pairs: ComparedPairs
    wrong: ComparedPairs | None


class RecordingPairs(MemoryPairs):
    """Pairs in memory, and every call that added some."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Added] = []

    def add(
        self,
        split: Split,
        iteration: int,
        pairs: ComparedPairs,
        wrong: ComparedPairs | None = None,
    ) -> None:
        self.calls.append(Added(split, iteration, pairs, wrong))
        super().add(split, iteration, pairs, wrong)


class Learned(NamedTuple):
    """A run of the loop in memory."""

    sink: RecordingPairs
    records: list[Iteration]
    states: list[State]
    train: Queries
    vali: Queries


def queries(sizes: list[int], seed: int) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sum(sizes), 3)).astype(np.float32)
    grades = np.clip(np.round(X[:, 0] + X[:, 1] * X[:, 2] + 0.8), 0, 2).astype(int)
    return Queries.from_arrays(X, grades, group=sizes)


def make(seed: int) -> TrainableComparator:
    return CmpNN(3, hidden=2, seed=seed)


@cache
def learned(strategy: str) -> Learned:
    """A run that learns from the pairs of a strategy, which compares more than it learns from.

    Of the query of 50 documents `even` draws 1,000 of the 1,225 pairs.
    """
    train, vali = queries([50, 9, 1], 0), queries([12, 7], 1)
    sink = RecordingPairs()
    records: list[Iteration] = []
    states: list[State] = []

    def keep(record: Iteration, state: State) -> None:
        records.append(record)
        states.append(state)

    learn_to_sort(train, vali, make, config_of(strategy), sink=sink, callbacks=[keep])
    return Learned(sink, records, states, train, vali)


def config_of(strategy: str) -> Config:
    """Settings with which every iteration makes other mistakes: its net is a new one."""
    training = Training(epochs=2, batch_size=16, weight_decay=1e-4)
    return Config(
        quality="ndcg@10",
        pairs=strategy,
        start="fresh",
        max_iter=ITERATIONS,
        max_stale=9,
        training=training,
    )


def wrong_rows(table: ComparedPairs) -> set[tuple[int, int]]:
    rows = zip(table.i.tolist(), table.j.tolist(), table.margin.tolist(), strict=True)
    return {(i, j) for i, j, margin in rows if margin <= 0}


def iterations_wrong(calls: list[Added], split: Split) -> dict[tuple[int, int], list[int]]:
    """{(winner, loser): the iterations in which the pair was wrong}, by plain Python."""
    iterations: dict[tuple[int, int], list[int]] = {}
    for call in calls:
        if call.split == split:
            tables = [call.pairs] if call.wrong is None else [call.pairs, call.wrong]
            for pair in set().union(*(wrong_rows(table) for table in tables)):
                iterations.setdefault(pair, []).append(call.iteration)
    return iterations


@pytest.mark.parametrize("strategy", ["wrong", "random"])
def test_the_counts_of_pairs_are_those_of_every_iteration(store: Store, strategy: str) -> None:
    run_in_memory = learned(strategy)
    run = store.start_run(
        command="test", config={"pairs": strategy, "quality": "ndcg@10"}, seed=0, versions={},
        train=run_in_memory.train, vali=run_in_memory.vali,
    )  # fmt: skip
    for call in run_in_memory.sink.calls:
        run.add(*call)
    for split in SPLITS:
        frame = run.pairs_frame(split)
        expected = iterations_wrong(run_in_memory.sink.calls, split)
        assert counts_of(frame) == {
            pair: (min(wrong_in), max(wrong_in), len(wrong_in))
            for pair, wrong_in in expected.items()
        }


def counts_of(frame: pd.DataFrame) -> dict[tuple[int, int], tuple[int, int, int]]:
    columns = ["winner", "loser", "first_wrong", "last_wrong", "times"]
    rows = frame[columns].to_numpy(int).tolist()
    return {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}


def test_a_resumed_run_learns_from_no_pair_that_was_only_wrong(store: Store) -> None:
    strategy = "random"
    unstopped = learned(strategy)
    wrong_pairs = iterations_wrong(unstopped.sink.calls, "train")
    i, j = unpacked(unstopped.sink.pairs("train").key)
    assert set(wrong_pairs) - set(zip(i.tolist(), j.tolist(), strict=True))
    run = store.start_run(
        command="test", config={}, seed=0, versions={}, train=unstopped.train, vali=unstopped.vali
    )
    n_iterations = 2
    for call in unstopped.sink.calls:
        if call.iteration < n_iterations:
            run.add(*call)
    records: list[Iteration] = []
    end = learn_to_sort(
        unstopped.train,
        unstopped.vali,
        make,
        config_of(strategy),
        sink=run,
        state=unstopped.states[n_iterations - 1],
        callbacks=[lambda record, state: records.append(record)],
    )
    sizes = [(record.tp, record.vp) for record in unstopped.records]
    assert [(record.tp, record.vp) for record in records] == sizes[n_iterations:]
    assert torch.equal(end.comparator.v, unstopped.states[-1].comparator.v)
    assert run.pairs("train").key.tolist() == unstopped.sink.pairs("train").key.tolist()
