"""Made sets: what their ranking is, worked by hand, by brute force and by moocore."""

from __future__ import annotations

import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optional_extras import needs

from sortnet.errors import DataError
from sortnet.lab.set_generators import (
    grades_of,
    hypervolume_contributions,
    made_sets,
    medoid_closeness,
)


def volume(points: np.ndarray) -> float:
    """The hypervolume up to the origin, by inclusion and exclusion of the boxes."""
    return sum(
        (-1) ** (len(some) + 1) * np.prod(-np.max(some, axis=0))
        for size in range(1, len(points) + 1)
        for some in combinations(points, size)
    )


def contributions(points: np.ndarray) -> list[float]:
    return [volume(points) - volume(np.delete(points, k, axis=0)) for k in range(len(points))]


def one_by_one(points: np.ndarray) -> list[int]:
    """Grades of a medoid set by the words of the paper, of points whose distances differ."""
    distance = [[float(np.sqrt(((a - b) ** 2).sum())) for b in points] for a in points]
    medoid = min(range(len(points)), key=lambda k: sum(distance[k]))
    nearest_first = sorted(range(len(points)), key=lambda k: distance[medoid][k])
    return [len(points) - 1 - nearest_first.index(k) for k in range(len(points))]


def test_several_medoids_count_by_the_nearest_in_any_order_of_the_points():
    # On a line of four points both in the middle have the least sum: 0 and 0, then 1 and 2 away.
    line = np.array([0.0, 1.0, 1.5, 3.5])
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        grades = grades_of(medoid_closeness(line[order][None, :, None]))[0]
        assert grades.tolist() == [[1, 2, 2, 0][k] for k in order]
    assert grades_of(medoid_closeness([[[0.2], [0.9]]])).tolist() == [[0, 0]]


@pytest.mark.parametrize(("n", "d"), [(3, 1), (5, 2), (7, 3)])
def test_medoid_sets_are_ranked_as_the_paper_says(n, d):
    sets = made_sets("medoid", 50, n, d, seed=3)
    assert set(sets.sizes) == {n} and sets.n_features == d
    for k in range(50):
        of_set = slice(sets.offsets[k], sets.offsets[k + 1])
        points = sets.features[of_set].astype(np.float64)
        assert sets.grades[of_set].tolist() == one_by_one(points)


def test_what_equal_points_dominate_is_dominated_by_neither_alone():
    twice = [[[-2.0, -2.0], [-1.0, -3.0], [-2.0, -2.0]]]
    assert hypervolume_contributions(twice).tolist() == [[0.0, 1.0, 0.0]]
    assert grades_of(hypervolume_contributions(twice)).tolist() == [[0, 2, 0]]
    alike = [[[-2.0, -1.0], [-2.0, -3.0], [-1.0, -3.0]]]  # the second dominates both, weakly
    assert hypervolume_contributions(alike).tolist() == [contributions(np.array(alike[0]))]


@pytest.mark.parametrize("d", [2, 3, 4])
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_contributions_equal_inclusion_and_exclusion(d, seed, n):
    if d > 2:
        needs("moocore")
    sets = made_sets("hypervolume", 3, n, d, seed=seed)
    points = sets.features.reshape(3, n, d).astype(np.float64)
    np.testing.assert_allclose((points**2).sum(axis=2), 1, atol=1e-6)
    brute = np.array([contributions(one) for one in points])
    np.testing.assert_allclose(hypervolume_contributions(points), brute, atol=1e-12)
    assert (sets.grades.reshape(3, n) == grades_of(np.round(brute, 12))).all()


def test_more_dimensions_without_moocore_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "moocore", None)
    assert made_sets("hypervolume", 3).n_docs == 15
    with pytest.raises(DataError, match=r"two dimensions needs: pip install 'sortnet\[moocore\]'$"):
        made_sets("hypervolume", 3, d=3)


def test_a_hypervolume_takes_two_dimensions():
    with pytest.raises(DataError, match="hypervolume: sets have 2 features or more, not 1"):
        made_sets("hypervolume", 1, d=1)
