"""Features kept in float16: what is read, a training on them, and a sort without a copy."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from sortnet.config import Config
from sortnet.core import Queries, memory
from sortnet.data.scaling import fit_scaler
from sortnet.learning.loop import MemoryPairs
from sortnet.rankers.sortnet import fit
from sortnet.sorting.sort import sort

EVERY_PART = "query+zscore+rank+log+normal+quantile+standard+missing"
QUICK = Config(scaling="normal", quality="ndcg@10", committee=2, trees=2, max_iter=3)


def made(sizes, seed=0):
    """Documents that two features order, a third one has few values, and some are missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(sum(sizes), 4)).astype(np.float32)
    X[:, 2] = rng.integers(5, size=len(X))
    grades = np.digitize(X[:, 0] + np.abs(X[:, 1]), (0.5, 1.5))
    X[rng.random(len(X)) < 0.1, 3] = np.nan
    return Queries.from_arrays(X, grades, group=sizes)


@pytest.fixture
def large(monkeypatch):
    """Any training part is one whose scaled features take too much memory."""
    monkeypatch.setattr(memory, "IN_MEMORY", 0)


@pytest.mark.parametrize("sizes", [[40] * 30, [1200], [0, 3, 1197]])
def test_scaled_features_are_halved_to_the_nearest_number(monkeypatch, sizes):
    """Also where a query is longer than what is scaled at a time."""
    monkeypatch.setattr(importlib.import_module("sortnet.data.scaling"), "CHUNK", 1 << 9)
    queries = made(sizes)
    scaler = fit_scaler(EVERY_PART, queries)
    exact, halved = scaler(queries).features, scaler(queries, halved=True).features
    assert halved.shape == exact.shape and halved.dtype == np.float16
    np.testing.assert_allclose(halved, exact, rtol=2**-11, atol=2**-25)
    assert (halved != exact).any()
    read = replace(queries, features=halved).features_of(np.array([5, 5, 0]))
    assert read.dtype == np.float32 and (read == halved[[5, 5, 0]]).all()


def test_a_resumed_training_on_halved_features_has_the_same_weights(large):
    train, vali = made([30] * 40), made([30] * 20, seed=1)
    states, sink = [], MemoryPairs()
    whole = fit(
        train, vali, QUICK, sink=sink, callbacks=[lambda record, state: states.append(state)]
    )
    resumed = fit(train, vali, QUICK, sink=sink, state=states[1])
    assert resumed.weights_sha256() == whole.weights_sha256()


def test_a_model_sorts_as_from_a_scaled_copy(monkeypatch):
    queries = made([30] * 20)
    model = fit(queries, queries, QUICK.changed(scaling="query+rank"))
    copied = sort(model.comparator, model.scaled(queries))
    monkeypatch.setattr(memory, "IN_MEMORY", 0)
    monkeypatch.setattr(importlib.import_module("sortnet.sorting.sort"), "_READ_AT_ONCE", 8 * 90)
    rows, scaling = [], importlib.import_module("sortnet.data.scaling")
    monkeypatch.setattr(
        scaling,
        "allocate",
        lambda shape, *rest: rows.append(shape[0]) or np.empty(shape, *rest[:1]),
    )
    alone = model.sort(queries)
    assert sum(rows) == 600 and max(rows) <= 90
    np.testing.assert_array_equal(alone.order, copied.order)
    for name in ("i", "j"):
        np.testing.assert_array_equal(getattr(alone.compared, name), getattr(copied.compared, name))
    # A product of fewer rows may be rounded in another order, which depends on the processor.
    np.testing.assert_allclose(alone.compared.margin, copied.compared.margin, rtol=0, atol=1e-5)
