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
    PROBLEMS,
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


def test_a_medoid_set_worked_by_hand():
    # Sums of distances: (0, 0): 1 + 2 + 5 = 8; (1, 0): 1 + sqrt 5 + 4 = 7.24; (0, 2): 9.62;
    # (5, 0): 14.39. So (1, 0) is the medoid; 1, sqrt 5 and 4 are the distances to it.
    points = np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [5.0, 0.0]]])
    closeness = medoid_closeness(points)
    np.testing.assert_allclose(closeness, [[-1, 0, -np.sqrt(5), -4]])
    assert grades_of(closeness).tolist() == [[2, 3, 1, 0]]


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


def test_points_fill_the_square_and_the_quarter_of_the_circle_evenly():
    inside = made_sets("medoid", 4000).features
    assert inside.min() >= 0 and inside.max() < 1
    counts = np.histogram2d(*inside.T, bins=4, range=[(0, 1)] * 2)[0]
    assert np.abs(counts - 1250).max() < 5 * np.sqrt(1250)
    front = made_sets("hypervolume", 4000).features
    assert (front <= 0).all()
    np.testing.assert_allclose((front**2).sum(axis=1), 1, atol=1e-6)
    counts = np.histogram(np.arctan2(front[:, 1], front[:, 0]), bins=8, range=(-np.pi, -np.pi / 2))
    assert counts[0].sum() == 20_000
    assert np.abs(counts[0] - 2500).max() < 5 * np.sqrt(2500)


def test_what_equal_points_dominate_is_dominated_by_neither_alone():
    twice = [[[-2.0, -2.0], [-1.0, -3.0], [-2.0, -2.0]]]
    assert hypervolume_contributions(twice).tolist() == [[0.0, 1.0, 0.0]]
    assert grades_of(hypervolume_contributions(twice)).tolist() == [[0, 2, 0]]
    alike = [[[-2.0, -1.0], [-2.0, -3.0], [-1.0, -3.0]]]  # the second dominates both, weakly
    assert hypervolume_contributions(alike).tolist() == [contributions(np.array(alike[0]))]


@given(st.integers(0, 10**6), st.integers(2, 6))
def test_contributions_equal_inclusion_and_exclusion(seed, n):
    sets = made_sets("hypervolume", 3, n, seed=seed)
    points = sets.features.reshape(3, n, 2).astype(np.float64)
    brute = np.array([contributions(one) for one in points])
    np.testing.assert_allclose(hypervolume_contributions(points), brute, atol=1e-12)
    assert (sets.grades.reshape(3, n) == grades_of(np.round(brute, 12))).all()


def test_contributions_equal_those_of_moocore():
    needs("moocore")
    import moocore

    points = made_sets("hypervolume", 200, 9, seed=5).features.reshape(200, 9, 2).astype(float)
    theirs = [moocore.hv_contributions(one, ref=[0.0, 0.0]) for one in points]
    np.testing.assert_allclose(hypervolume_contributions(points), theirs, rtol=0, atol=1e-14)


def test_more_dimensions_equal_inclusion_and_exclusion():
    needs("moocore")
    for d in (3, 4):
        sets = made_sets("hypervolume", 20, 5, d, seed=d)
        points = sets.features.reshape(20, 5, d).astype(np.float64)
        np.testing.assert_allclose((points**2).sum(axis=2), 1, atol=1e-6)
        brute = np.array([contributions(one) for one in points])
        np.testing.assert_allclose(hypervolume_contributions(points), brute, atol=1e-12)
        assert (sets.grades.reshape(20, 5) == grades_of(brute)).all()


def test_more_dimensions_without_moocore_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "moocore", None)
    assert made_sets("hypervolume", 3).n_docs == 15
    with pytest.raises(DataError, match=r"two dimensions needs: pip install 'sortnet\[moocore\]'$"):
        made_sets("hypervolume", 3, d=3)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_seed_decides_the_sets_and_names_are_prefixed(problem):
    one, again, other = (made_sets(problem, 30, seed=seed, prefix="a") for seed in (1, 1, 2))
    assert (one.features == again.features).all() and (one.grades == again.grades).all()
    assert not np.isin(one.features, other.features).any()
    assert one.qids.tolist()[:2] == ["a1", "a2"]
    assert sorted(one.grades[:5].tolist()) == [0, 1, 2, 3, 4]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_a_grade_counts_the_objects_below(utility):
    below = [sum(other < own for other in utility) for own in utility]
    assert grades_of(np.array([utility], np.float64)).tolist() == [below]


@pytest.mark.parametrize(
    ("problem", "n", "d", "said"),
    [
        ("medoids", 5, 2, "unknown problem 'medoids'; known are medoid, hypervolume"),
        ("medoid", 1, 2, "medoid: sets have 2 objects or more, not 1"),
        ("medoid", 5, 0, "medoid: sets have 1 features or more, not 0"),
        ("hypervolume", 5, 1, "hypervolume: sets have 2 features or more, not 1"),
    ],
)
def test_sets_that_cannot_be_are_refused(problem, n, d, said):
    with pytest.raises(DataError, match=said):
        made_sets(problem, 1, n, d)


def test_points_that_are_no_front_are_refused():
    with pytest.raises(DataError, match="dominates another"):
        hypervolume_contributions([[[-1.0, -1.0], [-2.0, -2.0]]])
    with pytest.raises(DataError, match="above 0"):
        hypervolume_contributions([[[-1.0, 1.0]]])
