"""Observers of a cell: functions that compute further values from a fitted ranker, as JSON.

An observer gets the ranker, its data, and the iterations of its training (`sortnet.lab.cells`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from sortnet.core import F32, F64, I64, Queries
from sortnet.data.read import Fold
from sortnet.errors import DataError
from sortnet.learning.iterations import Iteration
from sortnet.rankers.base import Ranker
from sortnet.rankers.sortnet import Model
from sortnet.sorting.diagnostics import rank_changes

# The value of a measure: its name, its curve ("" is the curve of the point), its x and the value.
Observed: TypeAlias = tuple[str, str, Any, float]


def iterations(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> list[Observed]:
    """Collect RankQuality, the share of wrong comparisons and the pairs kept by iteration."""
    quality = ranker.config.rank_quality.name
    rows: list[Observed] = []
    for k, record in enumerate(history):
        wrong = {
            "train": record.miscompared_train / record.comparisons_train,
            "vali": record.miscompared_vali / record.comparisons_vali,
        }
        for part, series in (("train", "training"), ("vali", "validation")):
            rows.append((quality.upper(), series, k, record.measures[part][quality]))
            rows.append(("share of comparisons wrong", series, k, wrong[part]))
        rows.append(("pairs kept", "training", k, record.tp))
    return rows


def orders(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> list[Observed]:
    """Measure how far test documents move if the sort starts from another order."""
    model = cast(Model, ranker)  # the ranker sorts by a comparator
    test = cast(Queries, fold.test)
    rows: list[Observed] = []
    for change in rank_changes(model.comparator, model.scaler(test)):
        rows.append(("places moved, mean", "", change.against, change.mean))
        rows.append(("places moved, most", "", change.against, change.max))
        rows.append(("documents that moved, share", "", change.against, change.share))
    return rows


def neighbours(ranker: Ranker, fold: Fold, history: Sequence[Iteration]) -> dict[str, Any]:
    """Classify documents into grades by peaks of the margins r between neighbours in a sorted list.

    The method is from Köppel et al. 2025, section 5.5. One test query is sorted: the first of the
    queries with the most different grades. Between its neighbours the ranker has margins r. The
    highest peaks of r are taken as the boundaries between grades, and the mean scores of the two
    documents at a peak become thresholds, which classify the documents of all other test queries.

    Returns:
        `r`: the margins (n - 1,) in the sorted list. `grades`: its grades (n,). `peaks`: positions
        k of the boundaries between the documents k and k + 1. `accuracy`: accuracy of the
        classifier on the other queries. `majority`: share of the most frequent grade in the other
        queries.

    Raises:
        DataError: if there is only one test query.
    """
    test = cast(Queries, fold.test)
    if len(test) < 2:
        raise DataError(f"{test.source}: there is one list, and no other to classify")
    query_and_grade = np.unique(np.column_stack((test.query_of_docs(), test.grades)), axis=0)
    n_grades_of_query = np.bincount(query_and_grade[:, 0])
    query = int(n_grades_of_query.argmax())
    in_list = slice(test.offsets[query], test.offsets[query + 1])
    sorted_list = ranker.order(test)[in_list]
    scores = ranker.real_scores(test)
    r = ranker.margins(test, sorted_list[:-1], sorted_list[1:])
    grades = np.unique(test.grades)
    peaks = highest_peaks(r, len(grades) - 1)
    scores_at_peaks = (scores[sorted_list[peaks]] + scores[sorted_list[peaks + 1]]) / 2
    # Classify the documents of the other queries by the scores at the peaks.
    grades_elsewhere = np.delete(test.grades, in_list)
    n_below = np.searchsorted(np.sort(scores_at_peaks), np.delete(scores, in_list))
    return {
        "r": [round(float(margin), 6) for margin in r],
        "grades": test.grades[sorted_list].tolist(),
        "peaks": peaks.tolist(),
        "accuracy": float((grades[n_below] == grades_elsewhere).mean()),
        "majority": float(np.bincount(grades_elsewhere).max() / len(grades_elsewhere)),
    }


def highest_peaks(r: F32 | F64, k: int) -> I64:
    """Find the ascending positions (k,) of the highest values of r that are not close together.

    If there are k + 1 classes with equally many documents, two positions are at least a quarter of
    a class apart. The result is shorter than k if r has no further such position.

    >>> highest_peaks(np.array([0.0, 5.0, 4.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0]), 2)
    array([1, 6])
    """
    least_distance = max(2, (len(r) + 1) // (4 * (k + 1)))
    chosen: list[int] = []
    for position in np.argsort(-r, kind="stable").tolist():
        if len(chosen) == k:
            break
        if all(abs(position - chosen_position) >= least_distance for chosen_position in chosen):
            chosen.append(position)
    return np.sort(np.array(chosen, np.int64))
