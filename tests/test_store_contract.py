"""One contract for every keeper of pairs: in memory, in SQLite, in PostgreSQL.

Each action is done on the keeper and on a dictionary that says in plain Python what must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pair_tables import table

from sortnet.core import NEVER_ADDED, NEVER_WRONG, SPLITS, ComparedPairs, Queries, Split
from sortnet.errors import SortNetError
from sortnet.learning.loop import MemoryPairs
from store import Run, Store, open_store

SIZES = (4, 1, 5)  # documents 0-3, 4, 5-9
COUNTED = ["first_iteration", "first_wrong", "last_wrong", "times"]

Sink = MemoryPairs | Run
New = Callable[..., Sink]
Row = tuple[int, int]


def queries(sizes: tuple[int, ...] = SIZES) -> Queries:
    return Queries.from_arrays(np.zeros((sum(sizes), 2)), group=sizes)


def pairs_of(rows: list[Row], *, wrong: bool = True) -> ComparedPairs:
    winner, loser = np.array(rows, np.int64).reshape(-1, 2).T
    return table(winner, loser, wrong=wrong)


def rows_of(pairs: ComparedPairs) -> list[Row]:
    return list(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True))


def start(store: Store, part: Queries) -> Run:
    return store.start_run(command="test", config={}, seed=0, versions={}, train=part, vali=part)


STORES = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(params=["memory", *STORES])
def new_sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[New]:
    """A function that gives a new and empty keeper each time, for some queries."""
    if request.param == "memory":
        yield lambda part=None: MemoryPairs()
        return
    sqlite = request.param == "sqlite"
    url = tmp_path / "pairs.db" if sqlite else request.getfixturevalue("postgresql_url")
    with open_store(url) as store:
        yield lambda part=None: start(store, part or queries())


class Model:
    """The contract in plain Python: {pair: first iteration, first and last wrong, times wrong}."""

    def __init__(self) -> None:
        self.counts: dict[Split, dict[Row, list[int]]] = {split: {} for split in SPLITS}

    def add(self, split: Split, iteration: int, rows: list[Row], wrong: list[Row] | None) -> None:
        counts = self.counts[split]
        for row in rows + (wrong or []):
            counts.setdefault(row, [NEVER_ADDED, NEVER_WRONG, NEVER_WRONG, 0])
        for row in set(rows):
            counts[row][0] = min(counts[row][0], iteration)
        for row in set(rows if wrong is None else wrong):
            _, first_wrong, last_wrong, times = counts[row]
            if last_wrong < iteration:
                counts[row][1:] = [first_wrong if times else iteration, iteration, times + 1]

    def check(self, sink: Sink, before: int) -> None:
        for split, counts in self.counts.items():
            assert counted_of(sink, split) == sorted(counts.items())
            for most in (before, NEVER_ADDED):
                added = sorted(row for row, counted in counts.items() if counted[0] < most)
                pairs = sink.pairs(split) if most == NEVER_ADDED else sink.pairs(split, before=most)
                assert rows_of(pairs) == added


def counted_of(sink: Sink, split: Split) -> list[tuple[Row, list[int]]]:
    """Every pair that a keeper has, with what it counts of the pair."""
    if isinstance(sink, MemoryPairs):
        return ANY  # it counts nothing
    frame = sink.pairs_frame(split, min_times=0)
    assert set(frame["split"]) <= {split}
    first = frame["first_iteration"].fillna(NEVER_ADDED)
    table = frame[COUNTED].fillna(NEVER_WRONG).assign(first_iteration=first)
    rows = rows_of(ComparedPairs.of(frame["winner"], frame["loser"]))
    return list(zip(rows, table.to_numpy(int).tolist(), strict=True))


a_pair = st.one_of(
    st.permutations(range(4)).map(lambda p: (p[0], p[1])),
    st.permutations(range(5, 10)).map(lambda p: (p[0], p[1])),
)
some_pairs = st.lists(a_pair, max_size=12)
an_add = st.tuples(
    st.sampled_from(SPLITS), st.integers(0, 4), some_pairs, st.one_of(st.none(), some_pairs)
)


@pytest.mark.slow
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(adds=st.lists(an_add, max_size=8), before=st.integers(0, 5))
def test_any_adds_in_any_order_leave_what_the_model_says(
    new_sink: New, adds: list[tuple[Split, int, list[Row], list[Row] | None]], before: int
) -> None:
    sink, model = new_sink(), Model()
    for split, iteration, rows, wrong in adds:
        wrong_pairs = None if wrong is None else pairs_of(wrong)
        pairs = pairs_of(rows, wrong=wrong is None)
        sink.add(split, iteration, pairs, wrong_pairs)
        model.add(split, iteration, rows, wrong)
        model.check(sink, before)


@pytest.mark.parametrize("rows", [[(3, 3)], [(-1, 2)], [(0, 2**31)]])
def test_what_is_no_pair_is_refused_and_nothing_of_its_call_stored(
    new_sink: New, rows: list[Row]
) -> None:
    sink = new_sink()
    with pytest.raises(SortNetError, match=str(rows[0][0])):
        sink.add("train", 0, pairs_of([(0, 1), *rows]))
    assert len(sink.pairs("train")) == 0


def test_many_chunks_of_pairs_come_back_in_order(
    new_sink: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.runs.pair_rows.PAIRS_A_STATEMENT", 997)
    monkeypatch.setattr("store.runs.pair_rows.READ_AT_ONCE", 991)
    sink = new_sink(queries((700,)))
    rng = np.random.default_rng(0)
    winner = rng.integers(0, 700, 30_000)
    loser = (winner + rng.integers(1, 700, 30_000)) % 700
    expected = sorted(set(zip(winner.tolist(), loser.tolist(), strict=True)))
    sink.add("train", 3, table(winner, loser))
    sink.add("train", 4, table(winner, loser))
    assert rows_of(sink.pairs("train")) == expected


def test_a_wrong_pair_that_no_iteration_added_is_counted_and_not_learned_from(
    new_sink: New,
) -> None:
    sink = new_sink()
    right, wrong = pairs_of([(0, 1)], wrong=False), pairs_of([(5, 6), (2, 3)])
    sink.add("train", 0, right, wrong)
    assert rows_of(sink.pairs("train")) == [(0, 1)]
    sink.add("train", 1, pairs_of([(5, 6)], wrong=False), pairs_of([]))
    assert rows_of(sink.pairs("train")) == [(0, 1), (5, 6)]
    assert rows_of(sink.pairs("train", before=1)) == [(0, 1)]
    never = [NEVER_WRONG, NEVER_WRONG, 0]
    assert counted_of(sink, "train") == [
        ((0, 1), [0, *never]),
        ((2, 3), [NEVER_ADDED, 0, 0, 1]),
        ((5, 6), [1, 0, 0, 1]),
    ]
