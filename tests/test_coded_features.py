"""Features kept in a byte a value: the bins, what is read, and a training on them."""

import importlib
from dataclasses import replace

import numpy as np
import pytest

from sortnet.comparators import SoftTrees
from sortnet.config import Config
from sortnet.data.coded_features import Codebook, CodedFeatures
from sortnet.data.scaling import fit_scaler
from sortnet.learning.budget import MOST_PAIRS, Budget
from sortnet.learning.pair_sinks import MemoryPairs
from sortnet.metrics import evaluate
from sortnet.rankers.sortnet import fit
from sortnet.sorting.sort import arrangement, margins_of, sort
from sortnet.types import Queries, memory

EVERY_PART = "query+zscore+rank+log+normal+quantile+standard+none+missing"
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


def coded(X, codebook):
    codes = np.empty(X.shape, np.uint8)
    codebook.encode(X, 0, codes)
    return CodedFeatures(codes, codebook.values)


@pytest.mark.parametrize("n_values", [1, 2, 255, 256])
def test_a_column_of_256_values_or_fewer_is_exact(n_values):
    rng = np.random.default_rng(n_values)
    values = rng.normal(0, 1e30, n_values).astype(np.float32)
    X = np.append(values, rng.choice(values, 1000))[:, None]
    np.testing.assert_array_equal(coded(X, Codebook.of(X))[:], X)


def test_bins_have_as_many_documents_and_their_mean_as_value():
    X = np.random.default_rng(0).lognormal(0, 2, (25_600, 2)).astype(np.float32)
    features = coded(X, Codebook.of(X))
    for column in range(2):
        codes = features.codes[:, column]
        assert np.bincount(codes, minlength=256).tolist() == [100] * 256
        means = [X[codes == k, column].mean(dtype=np.float64) for k in range(256)]
        np.testing.assert_allclose(features.values[column], means, rtol=1e-6)
        assert (np.diff(codes[np.argsort(X[:, column])].astype(int)) >= 0).all()


def test_values_beyond_the_sample_are_those_of_the_outer_bins():
    codebook = Codebook.of(np.array([[1.0], [2.0]], np.float32))
    largest = np.finfo(np.float32).max
    X = np.array([[-largest], [1.4], [1.6], [largest]], np.float32)
    assert coded(X, codebook)[:].ravel().tolist() == [1, 1, 2, 2]


def test_rows_are_read_as_of_an_array():
    X = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
    features = coded(X, Codebook.of(X))
    table = np.asarray(features)
    assert features.shape == table.shape and len(features) == 2000
    assert table.dtype == np.float32
    rows = np.array([5, 5, 1999, 0])
    np.testing.assert_array_equal(features[rows], table[rows])
    np.testing.assert_array_equal(features[100:230], table[100:230])


@pytest.mark.parametrize("sizes", [[40] * 30, [1200], [0, 3, 1197]])
def test_scaled_features_are_coded_as_they_are(monkeypatch, large, sizes):
    """Also where a query is longer than what is scaled at a time."""
    monkeypatch.setattr(importlib.import_module("sortnet.data.scaling"), "_CHUNK", 1 << 9)
    queries = made(sizes)
    scaler = fit_scaler(EVERY_PART, queries)
    exact = scaler(queries).features
    features = scaler(queries, scaler.codebook(queries)).features
    assert features.shape == exact.shape
    by_array = coded(exact, Codebook.of(exact))  # the sample is all documents
    np.testing.assert_array_equal(features.codes, by_array.codes)
    np.testing.assert_array_equal(features.values, by_array.values)


def test_bins_are_made_from_a_sample_of_whole_queries_and_of_a_long_one(monkeypatch, large):
    monkeypatch.setattr(importlib.import_module("sortnet.data.scaling"), "_CODED_BY", 100)
    for sizes in ([20] * 50, [1000]):
        queries = made(sizes)
        scaler = fit_scaler("normal", queries)
        values = scaler.codebook(queries, seed=1).values
        assert len(np.unique(values[0])) in range(90, 121)
        assert set(np.unique(values[0])) <= {0, *np.unique(scaler(queries).features[:, 0])}


def test_small_data_stay_as_they_are():
    queries = made([40] * 30)
    assert fit_scaler("normal", queries).codebook(queries) is None


def test_a_training_on_codes_ranks_as_well(monkeypatch):
    train, vali, test = (made([30] * n, seed) for seed, n in enumerate((200, 60, 200)))
    config = QUICK.changed(epochs=9)
    exact = fit(train, vali, config)
    monkeypatch.setattr(memory, "IN_MEMORY", 0)
    model = fit(train, vali, config)
    assert model.weights_sha256() != exact.weights_sha256()
    of_exact, of_coded = (
        evaluate(test, each.order(test), "ndcg@10")["ndcg@10"] for each in (exact, model)
    )
    assert of_coded > of_exact - 0.01 and of_exact > 0.85


def test_a_resumed_training_on_codes_has_the_same_weights(large):
    train, vali = made([30] * 40), made([30] * 20, seed=1)
    states, sink = [], MemoryPairs()
    whole = fit(
        train, vali, QUICK, sink=sink, callbacks=[lambda record, state: states.append(state)]
    )
    resumed = fit(train, vali, QUICK, sink=sink, state=states[1])
    assert resumed.weights_sha256() == whole.weights_sha256()


def test_a_model_sorts_as_from_a_scaled_copy():
    queries = made([30] * 20)
    model = fit(queries, queries, QUICK.changed(scaling="query+rank"))
    alone, copied = model.sort(queries), sort(model.comparator, model.scaled(queries))
    for name in ("order", "i", "j", "margin"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(copied, name))


def test_documents_are_prepared_some_queries_at_a_time(monkeypatch):
    queries = made([7] * 30)
    queries = replace(queries, features=np.nan_to_num(queries.features))
    net = SoftTrees(4, committee=2, trees=2)
    i = np.random.default_rng(0).permutation(np.arange(0, 210, 7))
    whole = net.prefer(net.prepare(queries.features), i, i + 3)
    order = arrangement(queries)
    module = importlib.import_module("sortnet.sorting.sort")
    for name in ("_VALUES", "_READ_AT_ONCE"):
        monkeypatch.setattr(module, name, 4 * 20)
    np.testing.assert_allclose(margins_of(net, queries, i, i + 3), whole, atol=1e-6)
    np.testing.assert_array_equal(arrangement(queries), order)


def test_an_epoch_of_large_data_draws_no_more_than_tp_holds():
    n, size = 20_000, 100
    queries = Queries(
        np.zeros((n * size, 1), np.float32), np.zeros(n * size, np.int32),
        np.arange(0, n * size + 1, size), np.arange(n).astype(str), np.arange(n * size),
    )  # fmt: skip
    budget = Budget.of(queries, Config().with_defaults)
    assert budget.epoch_pairs == MOST_PAIRS and budget.epoch == 256
