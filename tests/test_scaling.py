"""Scaling: every part against its formula written out, missing values, joining, chunks."""

import importlib
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from sortnet.config import SCALINGS, Config
from sortnet.core import Queries
from sortnet.data.scaling import fit_scaler
from sortnet.errors import DataError

module = importlib.import_module("sortnet.data.scaling")
ALL = "+".join(SCALINGS)
sizes = st.lists(st.integers(0, 6), min_size=1, max_size=8).filter(any)


def made(sizes, seed, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(1, 3, (sum(sizes), 3)).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return Queries.from_arrays(X, group=np.array(sizes))


# As float32 holds them: numpy below 2 takes 1e-45 for another number than its float32.
ODD = np.array([0.0, -0.0, 1.0, 2.5, -1e-30, 3e38, -3e38, 1e-45, np.nan], np.float32)


@st.composite
def tables(draw):
    """Few different values, so that there are ties and constants; empty queries; missing ones."""
    group = draw(sizes)
    values = st.one_of(
        st.sampled_from(ODD.tolist()),
        st.floats(width=32, allow_infinity=False),
    )
    X = draw(hnp.arrays(np.float32, (sum(group), draw(st.integers(1, 4))), elements=values))
    return Queries.from_arrays(X, group=np.array(group))


def scaled_by(spec, queries, train=None):
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        return fit_scaler(spec, queries if train is None else train)(queries).features


def by_query(queries, of):
    """A function of one feature of one query, of every one; 0 where a value is missing."""
    out = np.zeros(queries.features.shape)
    for a, b in pairwise(queries.offsets):
        for k in range(queries.n_features):
            x = queries.features[a:b, k].astype(np.float64)
            if (there := ~np.isnan(x)).any():
                out[a:b, k][there] = of(x[there])
    return out


OF_A_QUERY = {
    "query": lambda x: (x - x.mean()) / np.abs(x).max() if x.any() else 0,  # equation 5
    "rank": lambda x: 2 * (rankdata(x) - 1) / (len(x) - 1) - 1 if len(x) > 1 else 0,
    "zscore": lambda x: np.clip((x - x.mean()) / x.std(), -5, 5) if np.ptp(x) else 0,
}


@pytest.mark.parametrize("part", OF_A_QUERY)
@given(tables())
@settings(deadline=None)
def test_what_scales_a_query_is_its_formula_in_each_query(part, queries):
    expected = by_query(queries, OF_A_QUERY[part])
    np.testing.assert_allclose(scaled_by(part, queries), expected, atol=1e-5)


@pytest.mark.parametrize("part", ["standard", "log"])
def test_standard_and_log_are_scikit_learns_clipped(part):
    train, test = made([200], 5, missing=0.1), made([50], 6)
    test.features[0] = [1e6, -1e6, np.nan]
    X, new = (each.features.astype(np.float64) for each in (train, test))
    if part == "log":
        X, new = (np.sign(each) * np.log1p(np.abs(each)) for each in (X, new))
    expected = np.nan_to_num(np.clip(StandardScaler().fit(X).transform(new), -10, 10))
    np.testing.assert_allclose(fit_scaler(part, train)(test).features, expected, atol=1e-5)


@given(tables(), tables())
@settings(deadline=None)
def test_parts_stand_side_by_side_and_no_column_is_nan_or_infinite(train, test):
    test = Queries.from_arrays(np.resize(test.features, (7, train.n_features)), group=[3, 0, 1, 3])
    scaler = fit_scaler(ALL, train)
    scaled = scaler(test).features
    assert scaled.dtype == np.float32 and np.isfinite(scaled).all()
    assert scaled.shape == (7, scaler.n_columns) and scaler.n_features == train.n_features
    first = 0
    for part in SCALINGS:
        if part == "missing" and not scaler.tables[part].any():
            continue
        alone = fit_scaler(part, train)
        some = slice(first, first + alone.n_columns)
        np.testing.assert_array_equal(scaled[:, some], alone(test).features)
        assert scaler.sources[some].tolist() == alone.sources.tolist()
        first += alone.n_columns
    assert first == scaler.n_columns


def test_chunks_do_not_change_the_result(monkeypatch):
    queries = made([5, 0, 9, 1, 0, 7, 30, 0], 1, missing=0.2)
    scalers = [fit_scaler(spec, queries) for spec in (*SCALINGS, ALL)]
    whole = [scaler(queries).features for scaler in scalers]
    for chunk in (1, 24, 8 * scalers[-1].n_columns):
        monkeypatch.setattr(module, "CHUNK", chunk)
        for scaler, expected in zip(scalers, whole, strict=True):
            np.testing.assert_array_equal(scaler(queries).features, expected)


@pytest.mark.parametrize(("part", "divisor"), [("quantile", 3), ("normal", 1)])
def test_quantile_scaling_is_scikit_learns_with_another_deviation(part, divisor):
    train, test = made([200], 5), made([50], 6)
    train.features[:40, 1] = 2.0  # a value that many share
    test.features[:5, 1] = 2.0
    test.features[5] = [100.0, -100.0, 0.0]  # beyond what was seen
    theirs = QuantileTransformer(n_quantiles=200, output_distribution="normal")
    expected = theirs.fit(train.features.astype(np.float64)).transform(test.features) / divisor
    test.features[6] = np.nan  # becomes the median
    expected[6] = 0
    scaled = fit_scaler(part, train)(test).features
    np.testing.assert_allclose(scaled, expected, atol=1e-5)


@pytest.mark.parametrize("part", SCALINGS)
def test_a_feature_that_was_constant_in_training_says_nothing_where_it_varies_later(part):
    train, test = made([5, 4], 3), made([5, 0, 4], 4)
    train.features[:, 1] = 2.5
    train.features[::2, 2] = np.nan  # so that `missing` has a column
    scaler = fit_scaler(part, train)
    scaled = scaler(test).features
    assert not scaled[:, scaler.sources == 1].any()
    assert part == "missing" or scaled[:, scaler.sources == 0].any()


def test_a_feature_that_was_always_missing_says_nothing_later():
    train, test = made([5, 4], 3), made([5, 4], 4)
    train.features[:, 1] = np.nan
    scaler = fit_scaler("+".join(part for part in SCALINGS if part != "missing"), train)
    assert not scaler(test).features[:, scaler.sources == 1].any()
    with pytest.raises(DataError, match="scaling missing makes no column"):
        fit_scaler("missing", train)


def test_a_sample_of_many_documents_is_the_seeds(monkeypatch):
    monkeypatch.setattr("sortnet.data.scaled_columns._SAMPLE", 20)
    queries = made([100], 0)
    tables = [fit_scaler("standard", queries, seed=seed).tables["standard"] for seed in (0, 0, 1)]
    assert np.array_equal(tables[0], tables[1]) and not np.array_equal(tables[0], tables[2])


def test_other_features_and_unknown_scalings_are_refused():
    queries = made([3], 0)
    with pytest.raises(DataError, match="2 features where 3 were scaled"):
        fit_scaler("query", queries)(Queries.from_arrays(np.zeros((2, 2))))
    for spec in ("minmax", "query+minmax", "", "query+", "query rank", "x" * 999):
        with pytest.raises(DataError, match=r"unknown scaling '.{0,60}; known are query, zscore,"):
            fit_scaler(spec, queries)
        with pytest.raises(DataError, match="unknown scaling"):
            Config(scaling=spec)
    with pytest.raises(DataError, match="'rank\\+query\\+rank' names a part twice"):
        Config(scaling="rank+query+rank")
    with pytest.raises(DataError, match="unknown scaling 5"):
        Config(scaling=5)
