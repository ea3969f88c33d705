"""A polynomial as DirectRanker's feature part."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import prod

import numpy as np
import pytest
import torch
from sklearn.preprocessing import PolynomialFeatures

from sortnet import load_ranker
from sortnet.comparators.directranker import Polynomial
from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.pairwise import PairwiseSettings


@pytest.mark.parametrize(("d", "degree"), [(1, 1), (1, 4), (3, 2), (4, 3)])
def test_the_polynomial_is_scikit_learn_s(d, degree):
    X = np.random.default_rng(0).normal(size=(5, d)).astype(np.float32)
    theirs = PolynomialFeatures(degree, include_bias=False).fit_transform(X)
    np.testing.assert_allclose(Polynomial(d, degree)(torch.from_numpy(X)), theirs, rtol=1e-5)
    terms = [t for k in range(1, degree + 1) for t in combinations_with_replacement(range(d), k)]
    assert theirs[0] == pytest.approx([prod(X[0, k] for k in term) for term in terms], rel=1e-5)


def product(seed: int, n: int = 40) -> Queries:
    """What no linear score can rank: the grade is of the product of two features."""
    X = np.random.default_rng(seed).normal(size=(n * 8, 2)).astype(np.float32)
    grades = np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5])
    return Queries.from_arrays(X, grades, group=[8] * n)


def test_a_product_is_learned_by_a_polynomial(tmp_path):
    config = PairwiseSettings(scaling="standard", part="polynomial").changed(epochs=10)
    ranker = fit_ranker(product(0), product(1), config)
    assert ranker.info["quality"] > 0.97
    ranker.save(tmp_path)
    loaded = load_ranker(tmp_path)
    np.testing.assert_array_equal(loaded.scores(product(2)), ranker.scores(product(2)))


def test_a_polynomial_too_large_for_memory_is_refused_in_one_line():
    wide = Queries.from_arrays(np.eye(400, dtype=np.float32), np.arange(400) % 2)
    with pytest.raises(DataError, match="a polynomial of degree 9 in 400 features need"):
        fit_ranker(wide, wide, PairwiseSettings(scaling="standard", part="polynomial", degree=9))
