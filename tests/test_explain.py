"""Explanations: values that sum to the margin, told by hand where the comparator is simple."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sortnet.comparators import CmpNN, Committee, DirectRanker, NeuralComparator
from sortnet.config import Config
from sortnet.core import Queries
from sortnet.data.scaling import fit_scaler
from sortnet.errors import ComparatorError, DataError, ModelError, SortNetError
from sortnet.estimator import SortNetRanker
from sortnet.explanation.attribution import explain_pair
from sortnet.explanation.columns import permutation_importance
from sortnet.metrics import evaluate
from sortnet.rankers.model import Model

W = np.array([2.0, -1.0, 0.5, 0.0], np.float32)


class Linear(NeuralComparator):
    """m(x, y) = w · (x - y) + c: antisymmetric where c is 0."""

    def __init__(self, w, c: float = 0.0) -> None:
        super().__init__()
        self.w, self.c, self.n_features = nn.Parameter(torch.tensor(w)), c, len(w)

    def embed(self, x):
        return x @ self.w[:, None]

    def margin(self, e_i, e_j):
        return e_i[:, 0] - e_j[:, 0] + self.c

    def loss(self, e_winner, e_loser):
        return -self.margin(e_winner, e_loser)

    def config(self):
        return {}


class Jump(Linear):
    """A margin that no gradient explains."""

    def margin(self, e_i, e_j):
        return super().margin(e_i, e_j) + torch.sign(e_i[:, 0] - 0.3)


def made_queries(n_features: int = 4, seed: int = 0, sizes=(6, 5, 7)) -> Queries:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    return Queries.from_arrays(
        rng.normal(size=(n, n_features)), rng.integers(0, 3, n), group=list(sizes)
    )


def model_of(comparator, queries: Queries, scaling: str = "none") -> Model:
    return Model(Config(scaling=scaling, quality="map"), fit_scaler(scaling, queries), comparator)


KINDS = {
    "cmpnn": lambda s: CmpNN(4, hidden=5, seed=s),
    "sigmoid": lambda s: CmpNN(4, hidden=5, units="sigmoid", seed=s),
    "deep": lambda s: CmpNN(4, hidden=(5, 3), seed=s),
    "directranker": lambda s: DirectRanker(4, hidden=(6, 4), seed=s),
    "relu": lambda s: DirectRanker(4, hidden=(6, 4), units="relu", tau="identity", seed=s),
    "custom": lambda s: DirectRanker(
        4, feature_part=nn.Sequential(nn.Linear(4, 6), nn.GELU()), seed=s
    ),
    "committee": lambda s: Committee([CmpNN(4, hidden=3, seed=s), DirectRanker(4, seed=s + 1)]),
}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.integers(0, 20),
    st.floats(0.01, 100),
    st.sampled_from(["none", "query", "quantile", "rank"]),
)
def test_values_sum_to_the_margin_within_the_tolerance_however_steep(kind, seed, size, scaling):
    queries = made_queries(seed=seed)
    steep = queries.with_features(queries.features * np.float32(size))
    model = model_of(KINDS[kind](seed), steep, scaling)
    explained = explain_pair(model, steep, 2, 4)
    assert explained.margin == pytest.approx(float(model.margins(steep, [2], [4])[0]), abs=1e-4)
    off = abs(explained.values.sum() - (explained.margin - explained.baseline))
    assert off <= explained.error + 1e-12
    # The tolerance is relative to both documents' values apart, which may cancel out.
    assert explained.error <= 0.01 * (np.abs(explained.values).sum() + 1)


def gradients_by_riemann(margin, start, x, y, which, steps=4000):
    """One document's integrated gradients by the definition's sum, in the middle of each step."""
    t = (np.arange(steps) + 0.5)[:, None] / steps
    both = [start + t * (np.float64(end) - start) for end in (x, y)]
    _, *slopes = margin(*both)
    return (np.float64((x, y)[which]) - start) * slopes[which].mean(axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_the_definition_s_riemann_sum(kind):
    queries = made_queries(seed=3)
    model = model_of(KINDS[kind](2), queries)
    explained = explain_pair(model, queries, 1, 4)
    start = queries.features[:6].astype(np.float64).mean(axis=0)
    x, y = queries.features[[1, 4]]
    margin = model.differentiable()
    expected = sum(gradients_by_riemann(margin, start, x, y, k) for k in (0, 1))
    np.testing.assert_allclose(explained.values, expected, atol=2e-3 * np.abs(expected).max())


def test_a_bias_of_the_comparator_is_the_baseline_s_and_no_feature_s():
    queries = made_queries()
    explained = explain_pair(model_of(Linear(W, c=0.75), queries), queries, 3, 0)
    assert explained.baseline == 0.75
    assert explained.values.sum() == pytest.approx(explained.margin - 0.75)
    plain = explain_pair(model_of(Linear(W), queries), queries, 3, 0)
    np.testing.assert_allclose(explained.values, plain.values)


class ByFirst:
    """A comparator without gradients."""

    def prepare(self, X):
        return X[:, 0]

    def prefer(self, x, i, j):
        return x[i] - x[j]


@pytest.mark.parametrize(
    ("made", "a", "b", "error", "said"),
    [
        (Linear(W), 2, 2, DataError, "document 2 is both"),
        (Linear(W), 2, 7, DataError, "queries 0 and 1"),
        (Linear(W), 2, 18, DataError, "no document 18 of 18"),
        (ByFirst(), 0, 1, ComparatorError, "ByFirst has no gradients"),
        (Jump(np.float32([1, 0, 0, 0])), 0, 1, ComparatorError, "margin jumps"),
        (Linear(W * np.float32("nan")), 0, 1, ComparatorError, "not a number"),
    ],
)
def test_what_cannot_be_explained_is_refused_by_name(made, a, b, error, said):
    X = np.where(np.arange(18)[:, None] % 2, -1.0, 1.0) + np.zeros(4)
    queries = Queries.from_arrays(X, np.arange(18) % 3, group=[6, 5, 7])
    with pytest.raises(error, match=said):
        explain_pair(model_of(made, queries), queries, a, b)


def test_a_model_for_other_features_and_no_repeats_are_refused():
    queries = made_queries()
    model = model_of(Linear(W), queries)
    for explained in (
        lambda q: explain_pair(model, q, 0, 1),
        partial(permutation_importance, model),
    ):
        with pytest.raises(ModelError, match="3 features"):
            explained(made_queries(3))
    with pytest.raises(SortNetError, match="repeats"):
        permutation_importance(model, queries, repeats=0)


def test_a_fitted_estimator_is_explained_and_a_file_is_refused_by_name():
    X = np.random.default_rng(0).normal(size=(40, 3))
    grades, group = (X[:, 0] > 0).astype(int), [10] * 4
    estimator = SortNetRanker(committee=1, epochs=2, max_iter=1).fit(X, grades, group=group)
    queries = Queries.from_arrays(X, grades, group=group)
    for explain in (
        lambda model, data: explain_pair(model, data, 0, 1).values,
        lambda model, data: permutation_importance(model, data, repeats=1).mean,
    ):
        np.testing.assert_array_equal(
            explain(estimator, queries), explain(estimator.model_, queries)
        )
        with pytest.raises(DataError, match="as Queries, not as str: sortnet"):
            explain(estimator, "shop.csv")
        with pytest.raises(ModelError, match="str is no fitted ranker"):
            explain("shop-model", queries)


# Permutation importance


def graded_by_first(seed: int = 0, n_queries: int = 30, n_docs: int = 8) -> Queries:
    """Grades that the first feature alone decides; the last is the same all over a query."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_queries * n_docs, 4)).astype(np.float32)
    X[:, 3] = np.repeat(rng.normal(size=n_queries), n_docs)
    grades = np.clip(np.round(X[:, 0] + 1), 0, 3).astype(np.int64)
    return Queries.from_arrays(X, grades, group=[n_docs] * n_queries)


@pytest.mark.parametrize("scaling", ["query", "quantile", "none", "query+rank+missing+normal"])
def test_a_drop_is_what_sorting_the_raw_data_with_the_shuffled_column_loses(scaling):
    """By hand: shuffle the unscaled column by the same numbers, scale and sort it all again."""
    queries = graded_by_first(1)
    holes = queries.features.copy()
    holes[::7, 1] = np.nan
    queries = queries.with_features(holes)
    sources = fit_scaler(scaling, queries).sources
    model = model_of(Linear(W[sources]), queries, scaling)
    found = permutation_importance(model, queries, "map", repeats=1, seed=5)
    keys = np.random.default_rng(5).random(queries.n_docs).reshape(30, 8)
    order = (keys.argsort(axis=1) + np.arange(0, 240, 8)[:, None]).ravel()
    for k in range(4):
        shuffled = queries.features.copy()
        shuffled[:, k] = shuffled[order, k]
        again = queries.with_features(shuffled)
        quality = evaluate(again, model.sort(again).order, "map")["map"]
        assert found.drops[k, 0] == pytest.approx(found.quality - quality, abs=1e-12)


JOINED = "query+rank+normal"


def test_the_columns_of_a_feature_are_explained_and_shuffled_together():
    queries = graded_by_first(1)
    scaler = fit_scaler(JOINED, queries)
    w = np.random.default_rng(0).normal(size=scaler.n_columns).astype(np.float32)
    model = model_of(Linear(w), queries, JOINED)
    told = explain_pair(model, queries, 0, 1)
    apart = w * np.subtract(*scaler(queries).features[[0, 1]])
    expected = [apart[scaler.sources == k].sum() for k in range(4)]
    np.testing.assert_allclose(told.values, expected, atol=1e-5)
    assert told.values.sum() == pytest.approx(told.margin, abs=1e-5)
