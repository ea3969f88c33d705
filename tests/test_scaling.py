"""Scaling: equation 5 written out, quantiles against scikit-learn, missing values, chunks."""

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import QuantileTransformer

from sortnet.data.scaling import fit_scaler
from sortnet.errors import DataError
from sortnet.types import Queries

sizes = st.lists(st.integers(0, 6), min_size=1, max_size=8).filter(any)


def made(sizes, seed, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, 3, (sum(sizes), 3)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return Queries.from_arrays(X, group=np.array(sizes))


@given(sizes, st.integers(0, 999))
@settings(deadline=None)
def test_per_query_scaling_is_equation_5(sizes, seed):
    queries = made(sizes, seed)
    scaled = fit_scaler("query", queries)(queries).features
    for a, b in zip(queries.offsets, queries.offsets[1:], strict=False):
        X = queries.features[a:b].astype(np.float64)
        if b > a:
            expected = (X - X.mean(axis=0)) / np.abs(X).max(axis=0)
            np.testing.assert_allclose(scaled[a:b], expected, atol=1e-6)


def test_chunks_do_not_change_the_result(monkeypatch):
    queries = made([5, 0, 9, 1, 7, 30], 1, missing=0.2)
    scalers = [fit_scaler(kind, queries) for kind in ("query", "quantile", "none")]
    whole = [scaler(queries).features for scaler in scalers]
    module = importlib.import_module("sortnet.data.scaling")
    monkeypatch.setattr(module, "_CHUNK", 8)
    for scaler, expected in zip(scalers, whole, strict=True):
        np.testing.assert_array_equal(scaler(queries).features, expected)


def test_a_feature_that_is_constant_or_zero_in_a_query_becomes_zero():
    queries = Queries.from_arrays([[0.0, 7.0], [0.0, 7.0]], qid=["a", "a"])
    assert not fit_scaler("query", queries)(queries).features.any()


def test_a_missing_value_becomes_its_querys_mean():
    queries = Queries.from_arrays([[1.0], [np.nan], [3.0], [np.nan]], qid=[0, 0, 0, 1])
    scaled = fit_scaler("query", queries)(queries).features.ravel()
    np.testing.assert_allclose(scaled, [(1 - 2) / 3, 0, (3 - 2) / 3, 0], atol=1e-7)


@pytest.mark.parametrize("kind", ["query", "quantile", "none"])
def test_no_missing_value_is_propagated(kind):
    queries = made([4, 9, 2], 3, missing=0.4)
    queries.features[:, 2] = np.nan  # a feature that is never there
    scaled = fit_scaler(kind, queries)(queries)
    assert np.isfinite(scaled.features).all()
    assert scaled.features.dtype == np.float32


def test_quantile_scaling_is_scikit_learns_with_a_third_of_the_deviation():
    train, test = made([200], 5), made([50], 6)
    train.features[:40, 1] = 2.0  # a value that many share
    test.features[:5, 1] = 2.0
    test.features[5] = [100.0, -100.0, 0.0]  # beyond what was seen
    theirs = QuantileTransformer(n_quantiles=200, output_distribution="normal")
    expected = theirs.fit(train.features.astype(np.float64)).transform(test.features) / 3
    scaled = fit_scaler("quantile", train)(test).features
    np.testing.assert_allclose(scaled, expected, atol=1e-5)


def test_a_missing_value_becomes_the_median_of_quantile_scaling():
    train = made([50], 2)
    test = Queries.from_arrays([[np.nan, np.nan, np.nan]])
    assert not fit_scaler("quantile", train)(test).features.any()


def test_no_scaling_puts_the_training_mean_where_a_value_is_missing():
    train = Queries.from_arrays([[1.0], [5.0], [np.nan]])
    test = Queries.from_arrays([[np.nan], [9.0]])
    assert fit_scaler("none", train)(test).features.ravel().tolist() == [3.0, 9.0]


def test_other_features_and_unknown_scalings_are_refused():
    queries = made([3], 0)
    with pytest.raises(DataError, match="2 features where 3 were scaled"):
        fit_scaler("query", queries)(Queries.from_arrays(np.zeros((2, 2))))
    with pytest.raises(DataError, match="'minmax'"):
        fit_scaler("minmax", queries)
