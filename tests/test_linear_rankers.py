"""RankSVM, expected rank regression and evolution strategies, against others and by hand."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from graded_queries import graded
from optional_extras import needs
from sklearn.svm import LinearSVC
from test_stumps import pairs_of

from sortnet.core import Queries
from sortnet.errors import DataError
from sortnet.explanation.attribution import explain_pair
from sortnet.rankers import linear
from sortnet.rankers.fit_ranker import fit_ranker
from sortnet.rankers.linear import (
    ErrSettings,
    EsSettings,
    RankSvmSettings,
    evolution,
    expected_ranks,
    ranksvm,
    regression,
)
from sortnet.rankers.registry import name_of


@pytest.mark.parametrize("C", [1e-4, 0.01, 1.0])
def test_the_w_of_ranksvm_is_that_of_linear_svc_on_the_differences(C):
    part = graded(0, noise=1.0)
    D = np.array([part.features[i].astype(float) - part.features[j] for i, j in pairs_of(part)])
    # Each pair once, alternately the right way round and the other, as LinearSVC wants two classes.
    sign = np.where(np.arange(len(D)) % 2, -1.0, 1.0)
    svc = LinearSVC(C=C, loss="squared_hinge", fit_intercept=False, dual=False, tol=1e-10,
                    max_iter=100_000).fit(D * sign[:, None], sign)  # fmt: skip
    np.testing.assert_allclose(ranksvm(part, C), svc.coef_[0], rtol=1e-4, atol=1e-6)


def test_expected_ranks_are_the_mean_places_of_all_orders_of_equal_grades():
    part = Queries.from_arrays(np.zeros((7, 1)), [2, 0, 2, 1, 5, 0, 0], group=[4, 0, 3])
    assert (expected_ranks(part) * [5, 5, 5, 5, 4, 4, 4]).tolist() == [1.5, 4, 1.5, 3, 1, 2.5, 2.5]


@pytest.mark.parametrize("ridge", [0.1, 10.0])
def test_the_regression_solves_the_normal_equations(ridge):
    part = graded(2)
    y = expected_ranks(part)
    w = regression(part.features, y, ridge)
    Z = part.features - part.features.mean(axis=0, dtype=float)
    np.testing.assert_allclose(Z.T @ (y - y.mean() - Z @ w), ridge * w, atol=1e-6)


class Scripted:
    """A generator whose steps are 1, of one weight after the other."""

    drawn = 0

    def standard_normal(self, n):
        return np.ones(n)

    def random(self, n):
        self.drawn += 1
        return np.where(np.arange(n) == self.drawn % n, 0.4999, 0.5)


def test_a_step_grows_by_half_with_a_success_and_falls_by_its_fourth_root_without():
    """So one success and four failures leave it as it was; one as good as its parent is none."""
    start = np.array([3.0, -1.0])
    qualities = iter([5, 4, 6, 6, 0, 5, 1, 6])  # the start's first
    children = []

    def quality(w):
        children.append(w)
        return next(qualities)

    assert [k for k, _ in evolution(start, quality, 7, Scripted())] == [2]
    parents = [start, start, *[children[2]] * 5]
    steps = [np.abs(c - p).max() for c, p in zip(children[1:], parents, strict=True)]
    first = 5**0.5  # the root mean square of the start
    shrunk = 1.5**-0.25
    expected = [1, shrunk, *(1.5 * shrunk**k for k in range(1, 6))]
    assert steps == pytest.approx([first * factor for factor in expected])


def test_cma_climbs_by_the_generator_it_is_given():
    needs("cma")

    goal = np.array([1.0, -2.0, 3.0])

    def found():
        rng = np.random.default_rng(0)
        quality = lambda w: -float(((w - goal) ** 2).sum())  # noqa: E731
        return [w for _, w in linear.cma_evolution(np.zeros(3), quality, 60, rng)]

    first = found()
    np.testing.assert_allclose(first[-1], goal, atol=0.01)
    np.testing.assert_array_equal(first, found())


def test_without_cma_the_kind_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    with pytest.raises(DataError, match=r"cmaes-rank needs cma: pip install 'sortnet\[cma\]'"):
        fit_ranker(graded(0), graded(1), EsSettings(algorithm="cma"))


SETTINGS = [
    RankSvmSettings(), ErrSettings(), EsSettings(), EsSettings(initial="regression"),
    EsSettings(initial="ranksvm"), EsSettings(algorithm="cma", generations=30),
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=name_of)
def test_what_a_line_can_tell_is_learned(settings):
    if library := getattr(settings, "library", None):
        needs(library)
    changes = {"generations": 300} if settings.flat().get("generations", 1) is None else {}
    ranker = fit_ranker(graded(0), graded(1), settings.changed(scaling="standard", **changes))
    assert ranker.info["quality"] > 0.97
    assert np.sign(ranker.w).tolist()[:2] == [1, -1]


def test_a_linear_margin_is_explained():
    ranker = fit_ranker(graded(0), graded(1), ErrSettings(scaling="standard"))
    found = explain_pair(ranker, graded(2), 0, 1)
    assert found.margin == pytest.approx(float(ranker.margins(graded(2), [0], [1])[0]), abs=1e-5)
