"""A polynomial and soft trees as DirectRanker's feature part."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest
import torch
from cli_made import done, make_fold
from sklearn.preprocessing import PolynomialFeatures

from sortnet import load_ranker
from sortnet.comparators.feature_parts import Polynomial, SoftTrees
from sortnet.errors import DataError
from sortnet.rankers.base import fit_ranker
from sortnet.rankers.pairwise import OfAll
from sortnet.types import Queries


@pytest.mark.parametrize(("d", "degree"), [(1, 1), (1, 4), (3, 2), (4, 3)])
def test_the_polynomial_is_scikit_learn_s(d, degree):
    X = np.random.default_rng(0).normal(size=(5, d)).astype(np.float32)
    theirs = PolynomialFeatures(degree, include_bias=False).fit_transform(X)
    np.testing.assert_allclose(Polynomial(d, degree)(torch.from_numpy(X)), theirs, rtol=1e-5)
    terms = [t for k in range(1, degree + 1) for t in combinations_with_replacement(range(d), k)]
    assert theirs[0] == pytest.approx([prod(X[0, k] for k in term) for term in terms], rel=1e-5)


def slow_leaves(trees, x):
    """Of each tree the leaves by the path to them: bit k of a leaf is the side at level k."""
    s = torch.sigmoid(x @ trees.splits + trees.thresholds[0]).reshape(trees.trees, -1).tolist()
    return [
        prod(right if leaf >> k & 1 else 1 - right for k, right in enumerate(tree))
        for tree in s
        for leaf in range(2 ** len(tree))
    ]


def test_the_leaves_of_soft_trees_are_the_products_of_their_splits():
    trees = SoftTrees(3, 2, 3, torch.Generator().manual_seed(0))
    X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        leaves = trees(X)
        assert leaves.shape == (4, 16)
        assert leaves[1].tolist() == pytest.approx(slow_leaves(trees, X[1]), rel=1e-4)
    torch.testing.assert_close(leaves.reshape(4, 2, 8).sum(2), torch.ones(4, 2))


def product(seed: int, n: int = 40) -> Queries:
    """What no linear score can rank: the grade is of the product of two features."""
    X = np.random.default_rng(seed).normal(size=(n * 8, 2)).astype(np.float32)
    grades = np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5])
    return Queries.from_arrays(X, grades, group=[8] * n)


@pytest.mark.parametrize(
    ("settings", "least"),
    [({"part": "polynomial"}, 0.97), ({"part": "trees", "trees": 8, "depth": 3}, 0.9)],
)
def test_a_product_is_learned_by_a_polynomial_and_by_trees(settings, least, tmp_path):
    config = OfAll(scaling="standard", **settings).changed(epochs=10)
    ranker = fit_ranker(product(0), product(1), config)
    assert ranker.info["quality"] > least
    ranker.save(tmp_path)
    loaded = load_ranker(tmp_path)
    np.testing.assert_array_equal(loaded.scores(product(2)), ranker.scores(product(2)))
    np.testing.assert_array_equal(loaded.order_before(product(2)), ranker.order_before(product(2)))


def test_a_polynomial_of_degree_one_learns_no_product():
    config = OfAll(scaling="standard", part="polynomial", degree=1).changed(epochs=10)
    assert fit_ranker(product(0), product(1), config).info["quality"] < 0.85


def test_a_polynomial_too_large_for_memory_is_refused_in_one_line():
    wide = Queries.from_arrays(np.eye(400, dtype=np.float32), np.arange(400) % 2)
    with pytest.raises(DataError, match="a polynomial of degree 9 in 400 features need"):
        fit_ranker(wide, wide, OfAll(scaling="standard", part="polynomial", degree=9))


def test_train_takes_them_by_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_fold(tmp_path / "fold")
    done("train", "fold", "--ranker", "directranker-neighbours", "--out", "m", "--epochs", 2,
         "--set", "part=trees", "--set", "trees=3", "--set", "depth=2")  # fmt: skip
    config = load_ranker("m").config
    assert (config.part, config.trees, config.depth) == ("trees", 3, 2)
