"""One model of several processes: the same as of one, bit for bit, whatever their number."""

from __future__ import annotations

import json
import os
import socket
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
import torch

from sortnet.config import Config
from sortnet.learning.memory_pairs import MemoryPairs
from sortnet.learning.processes import joined
from sortnet.rankers.sortnet import fit
from sortnet.types import Queries
from sortnet.types.shard import Alone

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
    """What one process sees: the records, the pairs it added, the weights."""
    case = dict(case)
    n, weights = case.pop("queries", 40), case.pop("weights", False)
    records, sink = [], MemoryPairs()
    config = Config(quality="ndcg@10", tune_budget=0).changed(**case)
    model = fit(
        made(n, 8, 0, weights=weights), made(max(n // 2, 3), 8, 1), config, sink=sink,
        callbacks=[lambda record, state: records.append(record)], group=group,
    )  # fmt: skip
    facts = [{**vars(r), "seconds_sort": 0, "seconds_train": 0} for r in records]
    pairs = {split: sink.pairs(split).key for split in ("train", "vali")}
    return {
        "records": facts,
        "pairs": pairs,
        "weights": {name: t.numpy() for name, t in model.tensors().items()},
    }


def in_process(rank: int, size: int, port: int, case: dict) -> dict:
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    with joined() as group:
        return learned(group, case)


def together(size: int, case: dict) -> list[dict]:
    """What each of so many processes sees."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ProcessPoolExecutor(size, get_context("spawn")) as pool:
        each = [pool.submit(in_process, rank, size, port, case) for rank in range(size)]
        return [one.result() for one in each]


CASES = {
    "the default": {},
    "three queries": {"queries": 3, "blocks": 4},
    "wrong pairs, warm": {"pairs": "wrong", "start": "warm", "max_iter": 3},
    "uncertain, fresh, a committee": {
        "pairs": "uncertain", "judgements": 300, "start": "fresh", "committee": 2, "max_iter": 4,
    },
    "one block, dropout, weights": {"blocks": None, "dropout": 0.2, "weights": True},
    "random, dropout, weights": {"pairs": "random", "dropout": 0.2, "weights": True},
    "squared loss, by loss": {"loss": "squared", "keep": "loss", "query_pairs": None},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_two_three_and_four_processes_learn_what_one_learns(name):
    case = {"blocks": 6, "epochs": 4, "hidden": (6,), **CASES[name]}
    alone = learned(Alone(), case)
    assert alone["records"][-1]["tp"] > 0
    for size in (2, 3, 4):
        several = together(size, case)
        for one in several:
            assert json.dumps(one["records"]) == json.dumps(alone["records"])
            assert one["weights"].keys() == alone["weights"].keys()
            for key, value in alone["weights"].items():
                np.testing.assert_array_equal(one["weights"][key], value)
        for split, keys in alone["pairs"].items():
            each = [one["pairs"][split] for one in several]
            np.testing.assert_array_equal(np.concatenate(each), keys)
