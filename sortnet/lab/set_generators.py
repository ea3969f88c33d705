"""Made sets whose ranking depends on the whole set: the medoid and the hypervolume problem.

Both are of Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures for learning
context-dependent ranking functions, sections 5.1 and 5.2. A set is a query, its objects are the
documents, and a grade is the number of objects that rank lower, so that equal objects tie.
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

_NUMBERS = 1 << 20  # distances at once, which bounds memory
_EQUAL = 1e-9  # relative difference below which two sums of distances are one


class Problem(NamedTuple):
    """A row of `PROBLEMS`."""

    draw: Callable[[np.random.Generator, tuple[int, int, int]], F64]  # (sets, n, d) -> points
    utility: Callable[[F64], F64]  # points -> (sets, n), the highest ranks first
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
        n_sets: how many sets.
        n: objects of a set.
        d: features of an object.
        seed: seed of the draw.
        prefix: prefix of the queries' names, which are numbers from 1.

    Returns:
        `n_sets` queries of n documents; grades from n - 1, for the first, to 0.

    Raises:
        DataError: on an unknown problem, on too small or too large sizes, or without the library
            for the hypervolume in more than two dimensions.

    >>> sets = made_sets("medoid", 2, seed=1)
    >>> sets, sets.grades.tolist()
    (Queries('medoid': 2 queries, 10 documents, 2 features), [0, 1, 4, 2, 3, 0, 1, 4, 3, 2])

    Cost: linear in the sets; for medoids quadratic in n; hypervolumes cost a sort of a set in two
    dimensions, and grow fast with d in more.
    """
    check_sizes(problem, n, d)
    drawn = PROBLEMS[problem].draw(np.random.default_rng(seed), (n_sets, n, d))
    points: F32 = drawn.astype(np.float32)
    grades = grades_of(PROBLEMS[problem].utility(points.astype(np.float64)))
    return Queries.from_codes(
        points.reshape(-1, d),
        grades.reshape(-1),
        np.repeat(np.arange(n_sets), n),
        np.array([f"{prefix}{k + 1}" for k in range(n_sets)], np.str_),
        source=problem,
    )


def check_sizes(problem: str, n: int, d: int) -> None:
    """Refuse problems and sizes that `made_sets` cannot draw.

    Raises:
        DataError: as `made_sets`.
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
    """(sets, n) minus the Euclidean distance of each point to the medoid of its set.

    The medoid is the point with the least sum of distances to all points. Where several points
    have the least sum (both of two points, the two in the middle of a line), the nearest counts.

    Raises:
        DataError: if the distances within a set do not fit in memory.

    >>> medoid_closeness([[[0.0], [1.0], [5.0]]]).tolist()
    [[-1.0, 0.0, -4.0]]
    """
    x = np.asarray(points, np.float64)
    n = x.shape[1]
    blocks = np.array_split(x, 1 + x.shape[0] * n * n // _NUMBERS)
    return np.concatenate([_closeness(block) for block in blocks])


def _closeness(x: F64) -> F64:
    """Minus the distance of each point to the medoid, with all distances in memory."""
    squares = np.zeros((len(x), x.shape[1], x.shape[1]))
    for k in range(x.shape[2]):  # no array of all differences: it has d times the numbers
        squares += np.square(x[:, :, None, k] - x[:, None, :, k])
    distances = np.sqrt(squares)
    sums = distances.sum(axis=2)
    is_medoid = sums <= sums.min(axis=1, keepdims=True) * (1 + _EQUAL)
    nearest: F64 = np.where(is_medoid[:, None, :], distances, np.inf).min(axis=2)
    return 0.0 - nearest  # no -0


def hypervolume_contributions(points: ArrayLike) -> F64:
    """(sets, n) the hypervolume that each point alone dominates, up to the origin.

    A point dominates the space that is nowhere lower than the point, so less is better. In two
    dimensions, with the points sorted by x,

        contribution_i = (x_{i+1} - x_i) (y_{i-1} - y_i),   x_{n+1} = y_0 = 0

    and in more dimensions the library moocore computes it.

    Args:
        points: (sets, n, d) of 0 or less, none of which dominates another of its set.

    Raises:
        DataError: on a point above 0, on a point that dominates another in two dimensions, or
            without moocore in more dimensions.

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
    """The closed form for two dimensions.

    Among points of equal x the upper point comes first, as it contributes nothing.
    """
    order = np.lexsort((-x[..., 1], x[..., 0]), axis=-1)
    across, up = (np.take_along_axis(x[..., k], order, axis=1) for k in (0, 1))
    widths = np.diff(across, axis=1, append=0)
    heights = -np.diff(up, axis=1, prepend=0)
    if (heights < 0).any():
        raise DataError("hypervolume: a point dominates another of its set, so it is no front")
    contributions = np.empty_like(widths)
    np.put_along_axis(contributions, order, widths * heights, axis=1)
    return contributions


def grades_of(utility: F64) -> I32:
    """(sets, n) whole grades: how many objects of the set have less utility.

    >>> grades_of(np.array([[0.5, 0.1, 0.5, 0.3]])).tolist()
    [[2, 0, 2, 1]]
    """
    grades: I32 = (rankdata(utility, "min", axis=1) - 1).astype(np.int32)
    return grades


def _on_the_negative_sphere(rng: np.random.Generator, shape: tuple[int, int, int]) -> F64:
    """Uniform on the part of the unit sphere where every coordinate is 0 or less."""
    x = rng.standard_normal(shape)
    folded: F64 = -np.abs(x / np.linalg.norm(x, axis=2, keepdims=True))
    return folded


def _moocore() -> Any:
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
