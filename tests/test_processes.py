"""One model of several processes: that of one process, but for the rounding of sums."""

from __future__ import annotations

import json
import os
import socket
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import forkserver, get_context
from multiprocessing.context import BaseContext
from pathlib import Path

import numpy as np
import pytest
import torch

from sortnet.config import Config
from sortnet.core import Queries
from sortnet.core.shard import ALONE
from sortnet.learning.judges import judge_by_grades
from sortnet.learning.loop import MemoryPairs
from sortnet.rankers.sortnet import fit
from store.training.training_run import joined

pytestmark = pytest.mark.slow


def made(n: int, size: int, seed: int, *, weights: bool = False) -> Queries:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 2 * size, n)
    X = rng.normal(size=(sizes.sum(), 5)).astype(np.float32)
    X[1] = X[0]
    grades = np.clip(np.round(X[:, 0] + X[:, 1] * X[:, 2] + 1), 0, 3)
    w = rng.uniform(0.5, 2, len(X)) if weights else None
    return Queries.from_arrays(X, grades, group=sizes, weights=w)


def learned(group, case: dict) -> dict:
    """What one process sees: the records, all pairs, the weights."""
    case = dict(case)
    n, weights = case.pop("queries", 12), case.pop("weights", False)
    T, V = made(n, 8, 0, weights=weights), made(max(n // 2, 3), 8, 1)
    if judge := case.pop("judge", None):
        T, V = replace(T, judge=judge), replace(V, judge=judge)
    records, sink = [], MemoryPairs()
    config = Config(quality="ndcg@10", scaling="query+rank").changed(**case)
    model = fit(
        T, V, config, sink=sink,
        callbacks=[lambda record, state: records.append(record)], group=group,
    )  # fmt: skip
    facts = [{**vars(r), "seconds_sort": 0, "seconds_train": 0} for r in records]
    pairs = {split: sink.pairs(split).key for split in ("train", "vali")}
    return {
        "records": facts,
        "pairs": pairs,
        "weights": model.tensors(),
    }


def in_process(rank: int, size: int, port: int, cases: list[dict]) -> list[dict]:
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    with joined() as group:
        return [learned(group, case) for case in cases]


def together(size: int, cases: list[dict]) -> list[tuple[dict, ...]]:
    """What each process of that many sees, case by case."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ProcessPoolExecutor(size, _loaded()) as pool:
        each = [pool.submit(in_process, rank, size, port, cases) for rank in range(size)]
        return list(zip(*(one.result() for one in each), strict=True))


@cache
def _loaded() -> BaseContext:
    """Where processes are forks of one that has loaded all that a fit needs."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["fitting_preload"])
    with pytest.MonkeyPatch.context() as patch:  # Python 3.11 looks for it where PYTHONPATH says
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
        forkserver.ensure_running()
    return context


TREES = {"hidden": None, "trees": 2, "depth": 3}
CASES = {
    "the default": {"batch_size": None, "epochs": 1, **TREES},
    "three queries": {"queries": 3},
    "uncertain, fresh, a committee": {
        "pairs": "uncertain", "judgements": 300, "start": "fresh", "committee": 2, "max_iter": 3,
    },
    "wrong, weights": {"pairs": "wrong", "start": "warm", "weights": True},
    "a judge, top": {
        "judge": judge_by_grades, "quality": "accuracy", "pairs": "top", "judgements": 150,
    },
}  # fmt: skip
SHORT = {"epochs": 2, "batch_size": 64, "max_iter": 2, "committee": 1, "hidden": (6,)}


def test_two_three_and_four_processes_learn_what_one_learns():
    cases = [SHORT | case for case in CASES.values()]
    alone = [learned(ALONE, case) for case in cases]
    # Three shares are uneven ones; that of other numbers differs in nothing but the group.
    for size, names in ((3, list(CASES)), (2, list(CASES)[:1]), (4, list(CASES)[:1])):
        shared = together(size, cases[: len(names)])
        for name, one, several in zip(names, alone, shared, strict=False):
            check(one, several, f"{name}, {size} processes")


def test_as_many_processes_learn_the_same_again_with_dropout():
    case = SHORT | {"dropout": 0.2, "weights": True}
    first, again = (together(2, [case])[0] for _ in range(2))
    for one in (*first, *again):
        for key, value in first[0]["weights"].items():
            np.testing.assert_array_equal(one["weights"][key], value)


def check(alone: dict, several: tuple[dict, ...], where: str) -> None:
    assert alone["records"][-1]["tp"] > 0, where
    for one in several:
        assert json.dumps(one["records"]) == json.dumps(several[0]["records"]), where
        assert one["weights"].keys() == alone["weights"].keys(), where
        for key, value in alone["weights"].items():
            np.testing.assert_array_equal(one["weights"][key], several[0]["weights"][key])
            np.testing.assert_allclose(
                one["weights"][key], value, rtol=1e-6, atol=1e-6, err_msg=where
            )
    for split, keys in alone["pairs"].items():
        for one in several:
            np.testing.assert_array_equal(one["pairs"][split], keys, err_msg=where)
