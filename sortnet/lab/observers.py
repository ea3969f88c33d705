"""Observations of a cell besides its ranking of the test part, as values of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from sortnet.core import F32, F64, I64, Queries
from sortnet.data.read import Fold
from sortnet.errors import DataError
from sortnet.learning.iterations import Iteration
from sortnet.rankers.base import Ranker
from sortnet.rankers.sortnet import Model
from sortnet.sorting.diagnostics import rank_changes


def iterations(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, Any]:
    """Measures, share of wrong comparisons and number of pairs kept, by iteration."""
    return {
        "kept": [record.tp for record in history],
        "wrong": {
            "train": [record.miscompared_train / record.comparisons_train for record in history],
            "vali": [record.miscompared_vali / record.comparisons_vali for record in history],
        },
        "measures": {
            part: [dict(record.measures[part]) for record in history] for part in ("train", "vali")
        },
    }


def orders(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, Any]:
    """Distances that test documents move if the sort starts elsewhere, or is a quicksort.

    Raises:
        DataError: if the ranker has no comparator to sort with.
    """
    if not isinstance(ranker, Model):
        raise DataError(f"a ranker of kind {ranker.config.kind} does not sort by comparisons")
    test = cast(Queries, fold.test)
    changes = rank_changes(ranker.comparator, ranker.scaler(test))
    return {
        change.against: {"mean": change.mean, "max": change.max, "share": change.share}
        for change in changes
    }


def neighbours(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, Any]:
    """r of neighbours in a sorted test list, and a classifier by the peaks of r.

    Köppel et al. 2025, section 5.5. The list is the first with the most grades. The highest peaks
    are taken for the boundaries of the grades. The scores half-way between the two documents at a
    peak are thresholds, which classify the documents of all other lists.

    Returns:
        `r` (n - 1,) and `grades` (n,) of the sorted list, `peaks`: places k of the boundaries,
        between k and k + 1; `accuracy` of the classifier on the other lists, and there the share
        of the commonest grade as `majority`.

    Raises:
        DataError: if there is no other list.
    """
    test = cast(Queries, fold.test)
    if len(test) < 2:
        raise DataError(f"{test.source}: there is one list, and no other to classify")
    order, g = ranker.order(test), ranker.real_scores(test)
    grades_by_query = np.unique(np.column_stack([test.query_of_docs(), test.grades]), axis=0)
    n_grades_of_query = np.bincount(grades_by_query[:, 0])
    k = int(n_grades_of_query.argmax())
    in_list = slice(*test.offsets[k : k + 2])
    documents = order[in_list]
    upper, lower = documents[:-1], documents[1:]
    r = ranker.margins(test, upper, lower)
    grades = np.unique(test.grades)
    peaks = highest_peaks(r, len(grades) - 1)
    thresholds = np.sort((g[upper[peaks]] + g[lower[peaks]]) / 2)
    scores_elsewhere = np.delete(g, in_list)
    grades_elsewhere = np.delete(test.grades, in_list)
    predicted = grades[np.searchsorted(thresholds, scores_elsewhere)]
    return {
        "r": [round(float(value), 6) for value in r],
        "grades": test.grades[documents].tolist(),
        "peaks": peaks.tolist(),
        "accuracy": float((predicted == grades_elsewhere).mean()),
        "majority": float(np.bincount(grades_elsewhere).max() / len(grades_elsewhere)),
    }


def highest_peaks(r: F32 | F64, k: int) -> I64:
    """(k,) ascending places of the highest values that are no neighbours; fewer if there are none.

    Two places are at least a quarter of a class apart, where all k + 1 classes have equally many
    documents.

    >>> highest_peaks(np.array([0.0, 5.0, 4.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0]), 2)
    array([1, 6])
    """
    apart = max(2, (len(r) + 1) // (4 * (k + 1)))
    chosen: list[int] = []
    for place in np.argsort(-r, kind="stable"):
        if len(chosen) < k and all(
            abs(int(place) - chosen_place) >= apart for chosen_place in chosen
        ):
            chosen.append(int(place))
    return np.sort(np.array(chosen, np.int64))
