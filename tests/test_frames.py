"""Frames of a run in either database: filters, types, and what was observed of its sorts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pair_tables import table
from pandas.testing import assert_frame_equal

from sortnet.config import Config
from sortnet.core import SPLITS, Queries
from sortnet.errors import StoreError
from sortnet.rankers.sortnet import fit
from sortnet.sorting.diagnostics import MARGIN_EDGES, RANK_BINS
from store import Run, Store, open_store

SIZES = {"train": (6, 0, 5), "vali": (4, 7)}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    sqlite = request.param == "sqlite"
    with open_store(
        tmp_path / "s.db" if sqlite else request.getfixturevalue("postgresql_url")
    ) as opened:
        yield opened


def part(sizes: tuple[int, ...], names: list[str]) -> Queries:
    codes = np.repeat(np.arange(len(sizes)), sizes)
    zeros = np.zeros((len(codes), 1), np.float32)
    return Queries.from_codes(zeros, np.zeros(len(codes), np.int32), codes, np.array(names))


def start(store: Store, **config: Any) -> Run:
    train, vali = part(SIZES["train"], ["a", "b", "c"]), part(SIZES["vali"], ["d", "a"])
    return store.start_run(command="x", config=config, seed=0, versions={}, train=train, vali=vali)


def fill(run: Run) -> None:
    """Every pair of every query, each missed in the iterations from its winner's place on."""
    for split, sizes in SIZES.items():
        first = np.cumsum([0, *sizes])
        for iteration in range(4):
            rows = [
                (begin + w, begin + loser)
                for begin, size in zip(first, sizes, strict=False)
                for w in range(size)
                for loser in range(size)
                if w != loser and w <= iteration
            ]
            run.add(split, iteration, table(*np.array(rows, np.int64).T))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        {"split": "vali"},
        {"qid": "a"},
        {"qid": "b"},
        {"split": "vali", "qid": "c"},
        {"iteration": 2},
        {"min_times": 3},
        {"qid": "a", "iteration": 1, "min_times": 3},
        {"min_times": 9},
    ],
)
def test_the_database_filters_as_a_whole_frame_would(store: Store, given: dict[str, Any]) -> None:
    run = start(store)
    fill(run)
    whole = run.pairs_frame()
    assert len(whole) == 4 * (5 + 4 + 6) + 4 * 3
    keep = pd.Series(True, index=whole.index)
    for name, value in given.items():
        column = {"iteration": "first_iteration", "min_times": "times"}.get(name, name)
        keep &= whole[column] >= value if name == "min_times" else whole[column] == value
    expected = whole[keep].reset_index(drop=True)
    assert_frame_equal(run.pairs_frame(**given), expected)
    parts = list(run.iter_pairs(7, **given))
    assert all(0 < len(p) <= 7 for p in parts)
    if parts:
        assert_frame_equal(pd.concat(parts, ignore_index=True), expected)


def test_a_query_that_no_part_has_is_refused(store: Store) -> None:
    run = start(store)
    with pytest.raises(StoreError, match=f"run {run.id} has no query 'zz'"):
        run.pairs_frame(qid="zz")


def test_columns_have_the_types_that_they_are_said_to_have(store: Store) -> None:
    run = start(store)
    fill(run)
    kinds = {name: str(kind) for name, kind in run.pairs_frame().dtypes.items()}
    numbers = ["winner_place", "loser_place", "times"]
    may_be_missing = ["first_iteration", "first_wrong", "last_wrong"]
    expected = {"split": "category", "qid": "category", "winner": "int64", "loser": "int64"}
    expected |= dict.fromkeys(numbers, "int32")
    expected |= dict.fromkeys(may_be_missing, "Int32")
    assert kinds == expected


OBSERVED = {
    "margins": {"right": list(range(20)), "wrong": [0] * 19 + [7]},
    "ranks": {
        "compared": (np.triu(np.arange(100).reshape(10, 10))).tolist(),
        "wrong": np.eye(10, dtype=int).tolist(),
    },
    "cycles": {"share": 0.125, "sampled": 8},
}


def test_what_was_observed_comes_out_long(store: Store) -> None:
    run = start(store)
    run.record({"iteration": 0, "best": True})
    run.record({"iteration": 1, "best": True, "observed": {"vali": OBSERVED}})
    run.record({"iteration": 2, "best": False, "observed": {"train": OBSERVED, "vali": OBSERVED}})
    margins, mistakes, cycles = run.margins_frame(), run.mistakes_frame(), run.cycles_frame()
    order = [(1, "vali"), (2, "train"), (2, "vali")]
    for frame in (margins, mistakes, cycles):
        pairs = frame[["iteration", "split"]].drop_duplicates()
        assert list(pairs.itertuples(index=False, name=None)) == order
        assert frame.attrs == {"run": run.id, "kept": 1, "iterations": 3}
    one = margins[(margins["iteration"] == 2) & (margins["split"] == "train")]
    assert one[one["outcome"] == "right"]["pairs"].tolist() == list(range(20))
    assert one[one["pairs"] == 7]["low"].tolist() == [MARGIN_EDGES[6], MARGIN_EDGES[-1]]
    assert one["low"].tolist() == [0.0, *MARGIN_EDGES] * 2
    assert one["high"].tolist() == [*MARGIN_EDGES, np.inf] * 2
    one = mistakes[mistakes["iteration"] == 1]
    assert len(one) == 55
    for row in one.itertuples():
        upper, lower = RANK_BINS.index(row.upper), RANK_BINS.index(row.lower)
        assert (row.compared, row.wrong) == (10 * upper + lower, int(upper == lower))
    assert cycles["share"].tolist() == [0.125] * 3
    assert cycles["sampled"].tolist() == [8] * 3


def test_a_run_without_iterations_gives_empty_frames_of_the_same_types(store: Store) -> None:
    run = start(store)
    empty = [run.margins_frame(), run.mistakes_frame(), run.cycles_frame()]
    run.record({"iteration": 0, "observed": {"train": OBSERVED}})
    full = [run.margins_frame(), run.mistakes_frame(), run.cycles_frame()]
    for none, some in zip(empty, full, strict=True):
        assert none.empty
        assert none.dtypes.equals(some.dtypes)
        assert none.attrs["kept"] is None


def test_a_frame_of_iterations_says_what_its_measures_mean(store: Store) -> None:
    run = start(store, **Config(relevant_from=2, empty="skip").to_json())
    run.record({"iteration": 0, "measures": {"vali": {"map": 0.5, "p@5": 0.1}}})
    assert run.iterations_frame().attrs["conventions"] == (
        "P@5 divides by 5; relevant from grade 2; queries without a relevant document left out"
    )
    assert start(store).iterations_frame().attrs["conventions"] is None


def test_a_frame_of_iterations_says_which_pairs_are_kept(store: Store) -> None:
    settings = Config(pairs="random").to_json()
    assert start(store, **settings).iterations_frame().attrs["pairs"] == "random"
    assert start(store).iterations_frame().attrs["pairs"] == "wrong"


def test_what_a_run_observed_adds_up_to_what_it_compared_and_missed(store: Store) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3)).astype(np.float32)
    parts = [
        Queries.from_arrays(x, (x[:, 0] > 0).astype(int), group=[15] * (len(x) // 15))
        for x in (X[:60], X[60:])
    ]
    run = store.start_run(
        command="x", config={}, seed=0, versions={}, train=parts[0], vali=parts[1]
    )
    config = Config(committee=1, max_iter=2)
    fit(*parts, config, sink=run, callbacks=[lambda record, state: run.record(vars(record))])
    iterations = run.iterations_frame()
    margins, mistakes, cycles = run.margins_frame(), run.mistakes_frame(), run.cycles_frame()
    for row in iterations.to_dict("records"):
        for split in SPLITS:
            here = (margins["iteration"] == row["iteration"]) & (margins["split"] == split)
            there = (mistakes["iteration"] == row["iteration"]) & (mistakes["split"] == split)
            wrong = margins[here & (margins["outcome"] == "wrong")]["pairs"].sum()
            assert wrong == mistakes[there]["wrong"].sum() == row[f"miscompared_{split}"]
            assert margins[here]["pairs"].sum() == mistakes[there]["compared"].sum()
            assert 0 < margins[here]["pairs"].sum() <= row[f"comparisons_{split}"]
    assert len(cycles) == 2 * len(iterations)
