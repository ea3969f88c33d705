"""Boosted trees as arrays of our own, against the libraries that grew them, and damaged ones."""

from __future__ import annotations

import json
import sys
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optional_extras import needs

from sortnet.core import Queries
from sortnet.data.scaling import unscaled
from sortnet.errors import DataError, ModelError
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.forest import Forest, ForestRanker
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.model_folder import write_folder
from sortnet.rankers.trees import TreeSettings


def made(seed: int = 0, *, missing: float = 0.0) -> Queries:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4)).astype(np.float32).round(1)  # many on a threshold
    X[:, 3] = rng.integers(0, 3, 300)
    grades = np.clip(np.round(X[:, 0] * X[:, 1] + X[:, 3]), 0, 4).astype(int)
    X[rng.random(X.shape) < missing] = np.nan
    return Queries.from_arrays(X, grades, group=[15] * 20)


def spied(monkeypatch, library: str) -> list:
    """The boosters that the library trains from now on."""
    needs(library)
    module, grown = import_module(library), []
    train = module.train

    def keeping(*args, **given):
        grown.append(train(*args, **given))
        return grown[-1]

    monkeypatch.setattr(module, "train", keeping)
    return grown


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["lambdamart", "xendcg"])
def test_our_trees_score_as_lightgbm_s(kind, missing, monkeypatch):
    grown = spied(monkeypatch, "lightgbm")
    train = made(0, missing=missing)
    ranker = fit_ranker(train, made(1), TreeSettings(algorithm=kind, trees=20))
    for test in (train, made(2), made(3, missing=0.5)):  # missing where training missed none, too
        theirs = grown[0].predict(test.features, num_iteration=ranker.info["trees"])
        np.testing.assert_allclose(ranker.scores(test), theirs, atol=1e-6)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_our_trees_score_as_xgboost_s(missing, monkeypatch):
    grown = spied(monkeypatch, "xgboost")
    import xgboost

    train = made(0, missing=missing)
    ranker = fit_ranker(train, made(1), TreeSettings(algorithm="xgboost", trees=20))
    for test in (train, made(2), made(3, missing=0.5)):
        data, kept = xgboost.DMatrix(test.features), ranker.info["trees"]
        theirs = grown[0].predict(data, output_margin=True, iteration_range=(0, kept))
        ours = ranker.scores(test)
        np.testing.assert_allclose(ours - ours[0], theirs - theirs[0], atol=1e-5)


@pytest.mark.parametrize("kind", ["lambdamart", "xgboost"])
def test_without_the_library_the_kind_says_what_to_install(kind, monkeypatch):
    settings = TreeSettings(algorithm=kind)
    monkeypatch.setitem(sys.modules, settings.library, None)
    with pytest.raises(DataError, match=rf"pip install 'sortnet\[{settings.library}\]'"):
        fit_ranker(made(), made(1), settings)


def test_a_folder_ranks_where_the_library_is_not_installed(tmp_path, monkeypatch):
    needs("lightgbm")
    ranker, test = fit_ranker(made(), made(1), TreeSettings(trees=5)), made(2)
    ranker.save(tmp_path)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    np.testing.assert_array_equal(load_ranker(tmp_path).scores(test), ranker.scores(test))


def test_grades_above_what_the_libraries_take_are_refused():
    high = Queries.from_arrays(np.arange(4.0)[:, None], [0, 31, 0, 1])
    with pytest.raises(DataError, match="grade 31 is too high for lightgbm"):
        fit_ranker(high, high, TreeSettings())


def slow(tree, x) -> float:
    node = tree[0]
    while node[0] >= 0:
        value = x[node[0]]
        left = node[4] if np.isnan(value) else value <= node[1]
        node = tree[node[2] if left else node[3]]
    return node[1]


@st.composite
def grown(draw):
    """A tree of nodes, children behind their parents."""
    nodes: list = [None]
    while None in nodes:
        k = nodes.index(None)
        value = draw(st.integers(-3, 3)) / 2
        if len(nodes) < 12 and draw(st.booleans()):
            feature, missing = draw(st.integers(0, 1)), draw(st.booleans())
            nodes[k] = (feature, value, len(nodes), len(nodes) + 1, missing)
            nodes += [None, None]
        else:
            nodes[k] = (-1, value, 0, 0, False)
    return nodes


@settings(deadline=None, max_examples=40)
@given(st.lists(grown(), min_size=1, max_size=4), st.integers(0, 99))
def test_a_forest_is_the_sum_of_its_trees(forest, seed):
    rng = np.random.default_rng(seed)
    X = (rng.integers(-4, 5, (20, 2)) / 2).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    arrays = Forest.of(forest)
    assert arrays.fault(2) is None
    expected = [sum(slow(tree, x) for tree in forest) for x in X]
    assert arrays(X).tolist() == expected
    one = [slow(forest[0], x) for x in X]
    assert arrays.first(1)(X).tolist() == one


def test_as_many_trees_are_kept_as_are_best_on_the_validation_part():
    vali = Queries.from_arrays([[0.0], [1.0]], [0, 1])
    right, far_wrong = (0, 0.5, 1.0, True), (0, 0.5, -5.0, True)
    wrong = (0, 0.5, -0.1, True)
    for stumps, kept in ([(wrong, right, far_wrong), 2], [(right, right), 1], [(wrong, wrong), 1]):
        forest, n = TreeSettings(quality="map").best_trees(Forest.of_stumps(stumps), vali)
        assert (n, len(forest.roots), len(forest.feature)) == (kept, kept, 3 * kept)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"feature": [7, -1, -1]}, "a feature that is not there"),
        ({"feature": [-2, -1, -1]}, "a feature that is not there"),
        ({"left": [0, 0, 0]}, "a node that is not there"),  # to itself, for ever
        ({"right": [9, 0, 0]}, "a node that is not there"),
        ({"roots": [1]}, "roots out of order"),
        ({"roots": []}, "roots out of order"),
        ({"roots": [0, 0]}, "roots out of order"),
        ({"roots": [0, 3]}, "a root that is not there"),
        ({"left": [1, 0]}, "arrays of different lengths"),
    ],
)
def test_damaged_trees_are_refused(change, said, tmp_path):
    forest = Forest.of_stumps([(0, 0.5, 1.0, True)])
    ranker = ForestRanker(TreeSettings(), unscaled(2, None), forest)
    ranker.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    tensors = ranker.tensors() | {
        name: np.array(value, dtype=np.int64) for name, value in change.items()
    }
    write_folder(tmp_path, about, tensors)
    with pytest.raises(ModelError, match=f"these are no trees: {said}"):
        load_ranker(tmp_path)
