"""Sorts in several threads and processes at once, by either of numba's threading layers.

In processes of their own: what goes wrong here ends the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sortnet.threads import cores, kernel_threads, limit_threads, set_threads, side_by_side

SCRIPT = """
import multiprocessing, sys, threading
import numpy as np
from joblib import Parallel, delayed
from sortnet.comparators import CmpNN, DirectRanker
from sortnet.sorting import sort
from sortnet.core import Queries

X = np.random.default_rng(0).normal(size=(2000, 8)).astype(np.float32)
queries = Queries.from_arrays(X, group=[100] * 20)
comparators = [CmpNN(8, hidden=(10,), seed=0), DirectRanker(8, hidden=(64,), seed=0)]

def sorted_by_each(_):
    found = [sort(comparator, queries) for comparator in comparators]
    return [(one.order.tolist(), one.compared.i.tolist()) for one in found]

expected = sorted_by_each(0)
for way in sys.argv[1:]:
    if way == "fork":
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map_async(sorted_by_each, range(3)).get(120)
    else:  # a process of loky's loads torch: two of them, and many threads
        n, backend = {"threads": (4, "threading"), "loky": (2, "loky")}[way]
        found = Parallel(n, backend=backend)(delayed(sorted_by_each)(k) for k in range(3 * n))
    assert all(one == expected for one in found), way
    print(way, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_sorts_side_by_side_are_those_of_one_thread(layer):
    if layer == "omp":
        pytest.importorskip("numba.np.ufunc.omppool", exc_type=ImportError)
    # What forks comes first: from a process whose threads have not yet been at work.
    ways = [*(["fork"] if hasattr(os, "fork") else []), "threads"]
    if layer == "omp":  # a process that loky starts has threads of its own: by one layer
        ways.append("loky")
    root = str(Path(__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *ways],
        env={**os.environ, "NUMBA_THREADING_LAYER": layer, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout.split()) == (0, ways), done.stderr


@pytest.mark.parametrize("threads", [1, 2])
def test_each_part_is_worked_on_and_an_error_is_raised(threads):
    results = set()

    def work(part):
        if part == 7:
            raise ValueError("seven")
        results.add(part)

    with limit_threads(threads):
        side_by_side(work, range(7))
        assert results == set(range(7))
        with pytest.raises(ValueError, match="seven"):
            side_by_side(work, [7])
        with pytest.raises(ValueError, match="seven"):
            side_by_side(work, range(6, 9))


def test_there_are_no_more_threads_than_cores():
    before = torch.get_num_threads()
    try:
        set_threads(100_000)
        assert torch.get_num_threads() == cores() == kernel_threads()
    finally:
        set_threads(before)
