"""Sorts and trainings are the same, bit for bit, whatever the number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from pair_tables import table

from sortnet.comparators import CmpNN, DirectRanker, SoftTrees
from sortnet.config import Training
from sortnet.core import Queries
from sortnet.learning.training import train_on_pairs
from sortnet.sorting import sort

FEATURES = 780  # with 64 units torch's own product depends on the threads, on some processors


NETS = {
    "pairs": lambda d: CmpNN(d, hidden=(32, 20)),
    "a score": lambda d: DirectRanker(d, hidden=(64, 30), units="relu"),
    "soft trees": lambda d: SoftTrees(d, committee=2, trees=4),
}


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Threads of torch and of compiled functions, also more than the machine has cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sortnet.threads.kernel_threads", lambda: number)
            yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture(scope="module")
def queries() -> Queries:
    X = np.random.default_rng(0).standard_normal((5100, FEATURES), dtype=np.float32)
    return Queries.from_arrays(X, group=np.full(51, 100))


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_a_training_and_a_sort_are_the_same_by_any_number_of_threads(make, queries):
    i = np.arange(0, queries.n_docs, 2)
    pairs, found = table(i, i + 1), []
    how = Training(epochs=2, batch_size=len(i))  # one mini-batch of all documents
    for number in (1, 3):
        net = make(FEATURES)
        with threads(number):
            train_on_pairs(net, queries, pairs, queries, pairs, how)
            made = sort(net, queries)
        weights = [array.tobytes() for array in net.arrays().values()]
        found.append((*weights, made.order.tobytes(), made.compared.margin.tobytes()))
    assert found[0] == found[1]
