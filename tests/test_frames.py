"""Frames of a run in either database: filters and types."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pair_tables import table
from pandas.testing import assert_frame_equal

from sortnet.core import Queries
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
