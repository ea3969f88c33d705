"""Synthetic sets whose ranking depends on the whole set: the medoid and the hypervolume problem.

Both problems come from Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures for learning
context-dependent ranking functions, sections 5.1 and 5.2. A set becomes a query, and the objects of
the set become documents. The grade of an object is the number of objects in its set that rank
lower, so that equal objects tie.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from sortnet.core import F32, F64, I32, Queries
from sortnet.errors import DataError

_DIFFERENCES_AT_ONCE = 1 << 21  # bounds the memory
_EQUAL = 1e-9  # relative difference below which two sums of distances count as equal


class Problem(NamedTuple):
    """A problem of ranking sets of n points in d dimensions.

    Attributes:
        draw: draws points of the shape (n_sets, n, d).
        utility: computes the utility (n_sets, n) of each point; the highest utility ranks first.
        fewest_features: the least number of dimensions d.
    """

    draw: Callable[[np.random.Generator, tuple[int, int, int]], F64]
    utility: Callable[[F64], F64]
    fewest_features: int


def made_sets(
    problem: str,
    n_sets: int,
    n: int = 5,
    d: int = 2,
    *,
    seed: int | tuple[int, ...] = 0,
    prefix: str = "",
) -> Queries:
    """Draw sets of points and rank them.

    Args:
        problem: a key of `PROBLEMS`.
        n_sets: number of sets.
        n: number of objects of a set.
        d: number of features of an object.
        seed: seed of the draw.
        prefix: text before the number, from 1, that names a query.

    Returns:
        `n_sets` queries of n documents, with grades from n - 1 for the first object to 0.

    Raises:
        DataError: if the problem is unknown, n or d is too small, or the library moocore is
            missing, which hypervolumes in more than two dimensions need.

    >>> sets = made_sets("medoid", 2, seed=1)
    >>> sets, sets.grades.tolist()
    (Queries('medoid': 2 queries, 10 documents, 2 features), [0, 1, 4, 2, 3, 0, 1, 4, 3, 2])

    Cost: linear in the number of sets. For medoids quadratic in n; for hypervolumes a sort of each
    set in two dimensions, and growing fast with d in more dimensions.
    """
    check_sizes(problem, n, d)
    points_of_sets = PROBLEMS[problem].draw(np.random.default_rng(seed), (n_sets, n, d))
    points: F32 = points_of_sets.astype(np.float32)
    grades = grades_of(PROBLEMS[problem].utility(points.astype(np.float64)))
    return Queries.from_codes(
        points.reshape(-1, d),
        grades.reshape(-1),
        np.repeat(np.arange(n_sets), n),
        np.array([f"{prefix}{k + 1}" for k in range(n_sets)], np.str_),
        source=problem,
    )


def check_sizes(problem: str, n: int, d: int) -> None:
    """Raise DataError for a problem or for sizes that `made_sets` cannot draw.

    Args:
        problem: a key of `PROBLEMS`.
        n: number of objects of a set.
        d: number of features of an object.
    """
    if problem not in PROBLEMS:
        raise DataError(f"unknown problem {problem[:60]!r}; known are {', '.join(PROBLEMS)}")
    if n < 2:
        raise DataError(f"{problem}: sets have 2 objects or more, not {n}")
    fewest = PROBLEMS[problem].fewest_features
    if d < fewest:
        raise DataError(f"{problem}: sets have {fewest} features or more, not {d}")
    if problem == "hypervolume" and d > 2:
        _moocore()


def medoid_closeness(points: ArrayLike) -> F64:
    """Compute minus the Euclidean distance of each point to the medoid of its set.

    The medoid is the point of a set with the least sum of distances to all points. If several
    points have the least sum, as both points of a set of two have, the distance to the nearest of
    these points counts.

    Args:
        points: (n_sets, n, d) the points.

    Returns:
        (n_sets, n) utilities, 0 for the medoid.

    >>> medoid_closeness([[[0.0], [1.0], [5.0]]]).tolist()
    [[-1.0, 0.0, -4.0]]
    """
    x = np.asarray(points, np.float64)
    utilities = [np.empty((0, x.shape[1]))]
    n_blocks = 1 + x.size * x.shape[1] // _DIFFERENCES_AT_ONCE
    for block in np.array_split(x, n_blocks):
        distances = np.linalg.norm(block[:, :, None] - block[:, None], axis=3)
        sums = distances.sum(axis=2)
        # Sums that differ only by rounding count as equal: a set may have several medoids.
        is_medoid = sums <= sums.min(axis=1, keepdims=True) * (1 + _EQUAL)
        nearest = np.where(is_medoid[:, None, :], distances, np.inf).min(axis=2)
        utilities.append(0.0 - nearest)  # `-nearest` would turn 0 into -0
    return np.concatenate(utilities)


def hypervolume_contributions(points: ArrayLike) -> F64:
    """Compute the hypervolume, bounded by the origin, that each point of a set alone dominates.

    A point p dominates a point q if q >= p in every coordinate, so smaller coordinates are better.
    In two dimensions, with the points (x_i, y_i) of a set sorted by x, the contribution is

        contribution_i = (x_{i+1} - x_i) (y_{i-1} - y_i),   x_{n+1} = y_0 = 0.

    In more dimensions the library moocore computes the contributions.

    Args:
        points: (n_sets, n, d) coordinates, all of 0 or less. No point may dominate another point of
            its set.

    Returns:
        (n_sets, n) the contributions.

    Raises:
        DataError: if a coordinate is above 0; in two dimensions, if a point dominates another
            point; in more dimensions, if moocore is not installed.

    >>> hypervolume_contributions([[[-3.0, -1.0], [-2.0, -2.0], [-1.0, -3.0]]]).tolist()
    [[1.0, 1.0, 1.0]]
    """
    x = np.asarray(points, np.float64)
    if not (x <= 0).all():
        raise DataError("hypervolume: a point has a number above 0, where the volume ends")
    if x.shape[2] == 2:
        return _contributions_to_front(x)
    library = _moocore()
    origin = np.zeros(x.shape[2])
    contributions = [library.hv_contributions(points_of_set, ref=origin) for points_of_set in x]
    return np.array(contributions, np.float64).reshape(x.shape[:2])


def _contributions_to_front(x: F64) -> F64:
    """Compute the contributions of points (n_sets, n, 2) in two dimensions by their formula.

    Points of equal x are sorted by descending y, so that the higher point, which is dominated, gets
    the width 0.
    """
    order = np.lexsort((-x[..., 1], x[..., 0]), axis=-1)
    sorted_x = np.take_along_axis(x[..., 0], order, axis=1)
    sorted_y = np.take_along_axis(x[..., 1], order, axis=1)
    widths = np.diff(sorted_x, axis=1, append=0)
    heights = -np.diff(sorted_y, axis=1, prepend=0)
    if (heights < 0).any():
        raise DataError("hypervolume: a point dominates another of its set, so it is no front")
    contributions = np.empty_like(widths)
    np.put_along_axis(contributions, order, widths * heights, axis=1)
    return contributions


def grades_of(utility: F64) -> I32:
    """Grade each object (n_sets, n) by the number of objects in its set with less utility.

    >>> grades_of(np.array([[0.5, 0.1, 0.5, 0.3]])).tolist()
    [[2, 0, 2, 1]]
    """
    grades: I32 = (rankdata(utility, "min", axis=1) - 1).astype(np.int32)
    return grades


def _on_the_negative_sphere(rng: np.random.Generator, shape: tuple[int, int, int]) -> F64:
    """Draw points uniformly on the part of the unit sphere where no coordinate is above 0."""
    x = rng.standard_normal(shape)
    on_sphere = x / np.linalg.norm(x, axis=2, keepdims=True)
    points: F64 = -np.abs(on_sphere)
    return points


def _moocore() -> Any:
    """Import the optional package moocore; raise DataError if it is not installed."""
    try:
        return import_module("moocore")
    except ImportError:
        raise DataError(
            "hypervolume in more than two dimensions needs: pip install 'sortnet[moocore]'"
        ) from None


PROBLEMS: dict[str, Problem] = {
    "medoid": Problem(np.random.Generator.random, medoid_closeness, 1),
    "hypervolume": Problem(_on_the_negative_sphere, hypervolume_contributions, 2),
}
