"""Products, sorts and trainings are the same, bit for bit, whatever the number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from pair_tables import table

from sortnet.comparators import CmpNN, DirectRanker, SoftTrees
from sortnet.comparators.base import product
from sortnet.config import Training
from sortnet.core import Queries
from sortnet.learning.training import train_on_pairs
from sortnet.sorting import sort
from sortnet.threads import one_thread_an_operation

FEATURES = 780  # with 64 units torch's own product depends on the threads, on some processors


NETS = {
    "one layer": lambda d: CmpNN(d, hidden=32),
    "deep": lambda d: CmpNN(d, hidden=(32, 20)),
    "deep, of sigmoid units": lambda d: CmpNN(d, hidden=(20, 20), units="sigmoid"),
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
def test_a_sort_is_the_same_by_any_number_of_threads(make, queries):
    found = []
    for number in (1, 2, 3):
        with threads(number):
            made = sort(make(FEATURES), queries)
        found.append((made.order.tobytes(), made.compared.margin.tobytes()))
    assert len(set(found)) == 1


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_a_training_is_the_same_by_any_number_of_threads(make, queries):
    i = np.arange(0, queries.n_docs, 2)
    pairs, found = table(i, i + 1), []
    # One mini-batch of all documents: more than are multiplied as one block.
    how = Training(epochs=2, loss="logistic", batch_size=len(i))
    for number in (1, 2, 3):
        with threads(number):
            net = make(FEATURES)
            train_on_pairs(net, queries, pairs, queries, pairs, how)
        found.append(b"".join(w.tobytes() for w in net.arrays().values()))
    assert len(set(found)) == 1


@pytest.mark.parametrize("n", [4096, 4097, 5119, 5120, 9000])
def test_a_product_in_blocks_has_the_values_and_gradients_of_one_product(n):
    rng = torch.Generator().manual_seed(n)
    rows = torch.randn(n, 7, generator=rng, dtype=torch.float64)
    weights = torch.randn(7, 5, generator=rng, dtype=torch.float64, requires_grad=True)
    g = torch.randn(n, 5, generator=rng, dtype=torch.float64)
    out = product(rows, weights)
    out.backward(g)
    torch.testing.assert_close(out.detach(), rows @ weights.detach())
    torch.testing.assert_close(weights.grad, rows.T @ g)


@pytest.mark.parametrize("n", [2, 3, 5, 13, 1001, 4097, 4098, 4101, 5119])
@pytest.mark.parametrize("d", [20, 46, 780])
@pytest.mark.parametrize("columns", [1, 5, 10, 33, 40])
def test_the_same_documents_have_the_same_products_wherever_they_are(n, d, columns):
    rng = torch.Generator().manual_seed(n)
    rows = torch.randn(1, d, generator=rng).expand(n, d).contiguous()
    out = product(rows, torch.randn(d, columns, generator=rng))
    assert torch.equal(out, out[:1].expand_as(out))


@pytest.mark.parametrize("n", [2, 3, 5, 13, 1001, 4101])
@pytest.mark.parametrize("units", ["tanh", "sigmoid", "relu"])
@pytest.mark.parametrize("hidden", [(20, 10), (7,), (64, 30)])
def test_twins_have_one_score_and_tie(n, units, hidden):
    net = DirectRanker(46, hidden=hidden, units=units, seed=1)
    x = np.random.default_rng(n).standard_normal((1, 46), dtype=np.float32)
    scores = net.prepare(np.repeat(x, n, axis=0))
    assert torch.equal(scores, scores[:1].expand_as(scores))
    i = np.arange(n)
    assert not net.prefer(scores, i, i[::-1].copy()).any()


def test_only_a_product_of_many_documents_uses_the_threads_that_were_set(monkeypatch):
    seen, bmm = [], torch.bmm
    monkeypatch.setattr(
        torch, "bmm", lambda *a, **k: (seen.append(torch.get_num_threads()), bmm(*a, **k))[1]
    )
    weights = torch.ones(3, 2)
    with threads(2), one_thread_an_operation():
        product(torch.ones(4096, 3), weights)
        assert seen == []
        product(torch.ones(4097, 3), weights)
        assert (seen, torch.get_num_threads()) == ([2, 1], 1)
