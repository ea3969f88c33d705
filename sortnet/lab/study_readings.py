"""Functions that read the figures of a study from the result of a cell.

A reading gets a point, the result of its cell and a function that reads the test part. It returns
rows: values of measures, with the curve and the x that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.lab.cells import Result
from sortnet.lab.pair_efficiency import REACHED, REFERENCE, crossing
from sortnet.lab.set_problems import QUALITY
from sortnet.lab.study_plan import Point, Reading, Row, TestPart
from sortnet.lab.synthetic import MadeClasses
from sortnet.metrics import Metric, evaluate, outcomes

if TYPE_CHECKING:
    import pandas as pd

_MOVES = {
    "mean": "places moved, mean",
    "max": "places moved, most",
    "share": "documents that moved, share",
}
_NDCG = "NDCG@10"
_SHARE_LEARNED = "share of pairs learned from"


def measures(*names: str) -> Reading:
    """Make a reading of the given measures; queries without a relevant document are left out."""

    def read(point: Point, result: Result, test_part: TestPart) -> list[Row]:
        values = evaluate(test_part(), result.order, names, empty="skip")
        return [Row(name.upper(), point.series, point.x, value) for name, value in values.items()]

    return read


def ndcg_of_training_part(point: Point, result: Result, test_part: TestPart) -> Iterable[Row]:
    """Read NDCG@20 on synthetic data, as the paper does, and NDCG@10 on folds."""
    name = "ndcg@20" if isinstance(point.cell.split, MadeClasses) else "ndcg@10"
    return measures(name)(point, result, test_part)


def measures_at_ranks(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """Read NDCG@n and P@n for n from 1 to 10, and MAP."""
    ranks = range(1, 11)
    names = ["map", *(f"{kind}@{n}" for kind in ("ndcg", "p") for n in ranks)]
    values = evaluate(test_part(), result.order, names, empty="skip")
    return [
        *(Row("NDCG@n", point.series, n, values[f"ndcg@{n}"]) for n in ranks),
        *(Row("P@n", point.series, n, values[f"p@{n}"]) for n in ranks),
        Row("MAP", point.series, "all", values["map"]),
    ]


def accuracy_by_set_size(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """Read the 0/1 ranking accuracy (share of pairs in order) for each size of the test sets."""
    sets = test_part()
    accuracy_of_sets = outcomes(Metric(QUALITY), sets, result.order)
    rows = []
    for size in np.unique(sets.sizes):
        mean = float(accuracy_of_sets[sets.sizes == size].mean())
        rows.append(Row("0/1 ranking accuracy", point.series, int(size), mean))
    return rows


def convergence(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """Read RankQuality, the share of wrong comparisons and the pairs kept in each iteration."""
    observed = result.about["observed"]
    quality = str(point.cell.quality)
    rows = []
    for part, series in (("train", "training"), ("vali", "validation")):
        for iteration, measures_of_part in enumerate(observed["measures"][part]):
            share_wrong = observed["wrong"][part][iteration]
            rows.append(Row(quality.upper(), series, iteration, measures_of_part[quality]))
            rows.append(Row("share of comparisons wrong", series, iteration, share_wrong))
    for iteration, n_pairs in enumerate(observed["kept"]):
        rows.append(Row("pairs kept", "training", iteration, n_pairs))
    return rows


def runtime(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """Read the CPU seconds of reading the data, of training, and of ranking the test part."""
    seconds = result.about["seconds"]
    return [
        Row("seconds", "reading", point.x, seconds["read"]),
        Row("seconds", "training", point.x, seconds["fit"]),
        Row("seconds", "ranking the test part", point.x, seconds["rank"]),
    ]


def peaks(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """Read how well peaks of the margins between neighbours separate the grades.

    The values are from `sortnet.lab.observers.neighbours`. For every split there are rows of the
    accuracy; for the first split (x is 0) there are also rows of the curves along its sorted list.
    """
    observed = result.about["observed"]
    rows = [
        Row("accuracy", point.series, "thresholds at the peaks", observed["accuracy"]),
        Row("accuracy", point.series, "the commonest grade", observed["majority"]),
    ]
    is_first_split = point.x == 0
    if is_first_split:
        rows += _sorted_list(f"r, {point.series}", observed)
    return rows


def _sorted_list(measure: str, observed: dict[str, Any]) -> list[Row]:
    """Read three curves along a sorted list: margins of neighbours, true and predicted grades.

    The predicted grade falls by one after each peak of the margins.
    """
    rows = []
    for k, r in enumerate(observed["r"]):
        rows.append(Row(measure, "r of neighbours", k + 1, r))
    highest_grade = max(observed["grades"])
    n_peaks = len(observed["peaks"])
    for k, grade in enumerate(observed["grades"]):
        grade_by_peaks = n_peaks - sum(peak < k for peak in observed["peaks"])
        rows.append(Row(measure, "grade / highest", k + 1, grade / highest_grade))
        rows.append(Row(measure, "the same by the peaks", k + 1, grade_by_peaks / n_peaks))
    return rows


def moves(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """Read how far documents move if they are sorted in another way, as `orders` measures it."""
    rows = []
    for other_sort, figures in result.about["observed"].items():
        for name, value in figures.items():
            rows.append(Row(_MOVES[name], point.series, other_sort, value))
    return rows


def quality_by_answers(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """Read NDCG@10 and the share of pairs learned from; x is the share of pairs asked about."""
    observed = result.about["observed"]
    share_answered = observed["answers"]
    # Cells with the same budget are averaged, although their shares of answers may differ.
    budget = 0 if point.x is None else point.x
    ndcg = evaluate(test_part(), result.order, "ndcg@10", empty="skip")["ndcg@10"]
    return [
        Row(_NDCG, point.series, share_answered, ndcg, budget),
        Row(_SHARE_LEARNED, point.series, share_answered, observed["pairs"], budget),
    ]


def shares_that_suffice(frame: pd.DataFrame) -> list[str]:
    """Write a line for each strategy: the shares with which it is nearly as good as all grades.

    Args:
        frame: the figures that `quality_by_answers` read, averaged by `frame_of`.
    """
    quality = frame[frame["measure"] == _NDCG]
    learned = frame[frame["measure"] == _SHARE_LEARNED]  # its rows are of the same cells
    curves = quality.assign(share_learned=learned["value"].to_numpy())
    share_answered = frame.columns[2]  # the x of the study, see `frame_of`
    quality_of_grades = float(quality.loc[quality["series"] == REFERENCE, "value"].iloc[0])
    lines = []
    for strategy, curve in curves.groupby("series", sort=False):
        if strategy == REFERENCE:
            continue
        points = curve[["share_learned", share_answered, "value"]].to_numpy(np.float64)
        pairs_needed, answers_needed = crossing(points, quality_of_grades)
        shares = "not reached"
        if not isnan(pairs_needed):
            shares = f"{pairs_needed:.2%} of the pairs, {answers_needed:.2%} of the answers"
        lines.append(f"{REACHED:.0%} of the quality of all grades by {strategy}: {shares}")
    return lines
