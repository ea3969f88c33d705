"""Boosted trees as arrays of our own, against the libraries that grew them, and damaged ones."""

from __future__ import annotations

import json
import sys
from importlib import import_module

import numpy as np
import pytest
from optional_extras import needs

from sortnet.core import Queries
from sortnet.data.scaling import unscaled
from sortnet.errors import DataError, ModelError
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.model_folder import write_folder
from sortnet.rankers.trees import Forest, ForestRanker, TreeSettings


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
@pytest.mark.parametrize("kind", ["lambdamart", "xendcg", "xgboost"])
def test_our_trees_score_as_those_of_the_library(kind, missing, monkeypatch):
    settings = TreeSettings(algorithm=kind, trees=20)
    pytest.importorskip(settings.library)  # not on each Python that tests run on
    grown = spied(monkeypatch, settings.library)
    train = made(0, missing=missing)
    ranker = fit_ranker(train, made(1), settings)
    kept = ranker.info["trees"]
    for test in (train, made(2), made(3, missing=0.5)):  # missing where training missed none, too
        if kind == "xgboost":
            data = import_module("xgboost").DMatrix(test.features)
            theirs = grown[0].predict(data, output_margin=True, iteration_range=(0, kept))
        else:
            theirs = grown[0].predict(test.features, num_iteration=kept)
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


def test_as_many_trees_are_kept_as_are_best_on_the_validation_part():
    vali = Queries.from_arrays([[0.0], [1.0]], [0, 1])
    right, far_wrong = (0, 0.5, 1.0, True), (0, 0.5, -5.0, True)
    wrong = (0, 0.5, -0.1, True)
    for stumps, kept in ([(wrong, right, far_wrong), 2], [(right, right), 1], [(wrong, wrong), 1]):
        forest, n = TreeSettings(quality="map").best_trees(Forest.of_stumps(stumps), vali)
        assert (n, len(forest.roots), len(forest.feature)) == (kept, kept, 3 * kept)


@pytest.mark.parametrize(
    "change",
    [
        {"feature": [7, -1, -1]},
        {"left": [0, 0, 0]},  # to itself, for ever
        {"roots": [1]},
        {"roots": [0, 0]},
        {"roots": [0, 3]},
        {"left": [1, 0]},
    ],
)
def test_damaged_trees_are_refused(change, tmp_path):
    forest = Forest.of_stumps([(0, 0.5, 1.0, True)])
    ranker = ForestRanker(TreeSettings(), unscaled(2, None), forest)
    ranker.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    tensors = ranker.tensors() | {
        name: np.array(value, dtype=np.int64) for name, value in change.items()
    }
    write_folder(tmp_path, about, tensors)
    with pytest.raises(ModelError, match="these are no trees"):
        load_ranker(tmp_path)
