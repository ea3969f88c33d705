"""Experiments on sets whose ranking depends on the whole set: medoid and hypervolume problem.

Both problems come from Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures for learning
context-dependent ranking functions, sections 5.1 and 5.2. A set becomes a query, and the objects of
the set become documents. The grade of an object is the number of objects in its set that rank
lower, so that equal objects tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from sortnet.core import F32, F64, I32, Queries
from sortnet.data.divide import joined
from sortnet.data.read import Fold
from sortnet.errors import DataError
from sortnet.lab.cells import Cell
from sortnet.lab.entries import Entry, entries_named
from sortnet.lab.splits import Split

MEASURES = ("spearman", "kendall", "concordance", "exact")
QUALITY = "concordance"
STUDIED_SIZES = (3, 24)  # least and largest size of the test sets in the study of set sizes
# A scaling by query would give even rankers that score objects one by one a view of the whole set.
_SCALING = "standard"
_SEED = 13  # so that other random data with the same user's seed are drawn independently
_VALIDATION = 10  # one training set in ten is used for validation
# Settings with which RankNet reaches the figures of the paper.
_NETS = {"hidden": (32, 32), "epochs": 10, "queries": 64, "lr": 0.1, "weight_decay": 0.0}
_SETTINGS: dict[str, dict[str, Any]] = {"ranknet": _NETS, "listnet": _NETS}
MODELS = ("fate", "feta", "feta:pair=free", "setrank", "ranknet", "ranksvm", "err", "listnet")
SET_MODELS = ("fate", "setrank")
_DIFFERENCES_AT_ONCE = 1 << 21  # bounds the memory
_EQUAL = 1e-9  # relative difference below which two sums of distances count as equal


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
        DataError: if hypervolumes are wanted in one dimension, or in more than two without the
            library moocore.

    >>> sets = made_sets("medoid", 2, seed=1)
    >>> sets, sets.grades.tolist()
    (Queries('medoid': 2 queries, 10 documents, 2 features), [0, 1, 4, 2, 3, 0, 1, 4, 3, 2])

    Cost: linear in the number of sets. For medoids quadratic in n; for hypervolumes a sort of each
    set in two dimensions, and growing fast with d in more dimensions.
    """
    check_dimensions(problem, d)
    draw, utility = PROBLEMS[problem]
    points: F32 = draw(np.random.default_rng(seed), (n_sets, n, d)).astype(np.float32)
    grades = grades_of(utility(points.astype(np.float64)))
    return Queries.from_codes(
        points.reshape(-1, d),
        grades.reshape(-1),
        np.repeat(np.arange(n_sets), n),
        np.array([f"{prefix}{k + 1}" for k in range(n_sets)], np.str_),
        source=problem,
    )


def check_dimensions(problem: str, d: int) -> None:
    """Raise DataError if `made_sets` cannot draw sets of a problem in d dimensions."""
    if problem == "hypervolume" and d < 2:
        raise DataError(f"hypervolume: sets have 2 features or more, not {d}")
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
        DataError: if moocore is not installed, in more than two dimensions.

    >>> hypervolume_contributions([[[-3.0, -1.0], [-2.0, -2.0], [-1.0, -3.0]]]).tolist()
    [[1.0, 1.0, 1.0]]
    """
    x = np.asarray(points, np.float64)
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


# {name of a problem: (draws points (n_sets, n, d), computes utilities (n_sets, n), highest first)}
PROBLEMS: dict[str, tuple[Callable[..., F64], Callable[[F64], F64]]] = {
    "medoid": (np.random.Generator.random, medoid_closeness),
    "hypervolume": (_on_the_negative_sphere, hypervolume_contributions),
}


@dataclass(frozen=True)
class MadeSets(Split):
    """Random sets of a problem of `sortnet.lab.set_generators`, divided into three parts.

    Attributes:
        problem: `medoid` or `hypervolume`.
        number: number of the split, from 1; the sets depend on it and on `seed`.
        n: number of objects of a training set.
        d: number of features of an object.
        train: number of sets for training and validation, two or more; a tenth is for validation.
        test: number of test sets of each size.
        smallest: least number of objects of a test set; 0 for `n`.
        largest: largest number of objects of a test set; 0 for `n`.
        seed: seed of all splits.
    """

    problem: str
    number: int = 1
    n: int = 5
    d: int = 2
    train: int = 10_000
    test: int = 100_000
    smallest: int = 0
    largest: int = 0
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.problem}, split {self.number}"

    def load(self) -> Fold:
        """Draw the sets; the number and sizes of the test sets do not change the training sets."""
        draw = partial(made_sets, self.problem, d=self.d)
        seed = (_SEED, self.seed, self.number)
        drawn_sets = draw(self.train, self.n, seed=(*seed, 0), prefix="train ")
        n_vali = max(1, self.train // _VALIDATION)
        set_numbers = np.arange(self.train)
        train = drawn_sets.take(set_numbers[n_vali:])
        vali = drawn_sets.take(set_numbers[:n_vali])
        smallest = self.smallest or self.n  # 0: test sets have the size of the training sets
        largest = self.largest or self.n
        test_sets_by_size = [
            draw(self.test, size, seed=(*seed, size), prefix=f"{self.number}-{size}-")
            for size in range(smallest, largest + 1)
        ]
        return Fold(train, vali, joined(test_sets_by_size))


def models_named(names: str) -> list[Entry]:
    """Look up the rankers in a list of names that are separated by commas.

    `all` stands for `MODELS`, and `NAME:SETTING=VALUE` changes a setting. If no setting is given,
    nets have the settings of the paper, and features are not scaled set by set.

    Raises:
        SortNetError: if a name is invalid, see `entries_named`.

    >>> models_named("err, ranknet:lr=0.2")[0].changes
    {'scaling': 'standard'}
    """
    models = []
    for entry in entries_named(names, MODELS):
        changes: dict[str, Any] = {}
        if "scaling" in entry.settings().flat():
            changes["scaling"] = _SCALING
        changes |= _SETTINGS.get(entry.kind, {})  # the settings of the paper
        changes |= entry.changes  # the settings in `names`, which have precedence
        models.append(replace(entry, changes=changes, grids=() if changes else None))
    return models


def cells_of(models: Sequence[Entry], splits: Sequence[MadeSets], seed: int) -> list[Cell]:
    """Make a cell for every model on every split, split by split.

    Args:
        models: the rankers.
        splits: splits of the same problem and with the same sizes.
        seed: seed of the rankers.

    Raises:
        DataError: if the sets cannot be drawn.
    """
    if splits:
        check_dimensions(splits[0].problem, splits[0].d)
    return [Cell(model, split, seed, quality=QUALITY) for split in splits for model in models]
