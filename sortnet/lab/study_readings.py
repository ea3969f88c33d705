"""Figures that studies read from the result of a cell."""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import TYPE_CHECKING

import numpy as np

from sortnet.lab.cells import Result
from sortnet.lab.pair_efficiency import REACHED, crossing
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


def measures(*names: str) -> Reading:
    """A reading of these measures; queries without a relevant document are left out."""

    def read(point: Point, result: Result, test_part: TestPart) -> list[Row]:
        values = evaluate(test_part(), result.order, names, empty="skip")
        return [Row(name.upper(), point.series, point.x, value) for name, value in values.items()]

    return read


def ndcg_of_training_part(point: Point, result: Result, test_part: TestPart) -> Iterable[Row]:
    """NDCG@20 on made data, as the papers have it, and NDCG@10 on folds."""
    name = "ndcg@20" if isinstance(point.cell.split, MadeClasses) else "ndcg@10"
    return measures(name)(point, result, test_part)


def measures_at_ranks(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """NDCG@n and P@n over n, and MAP."""
    ranks = range(1, 11)
    names = ["map", *(f"{kind}@{n}" for kind in ("ndcg", "p") for n in ranks)]
    values = evaluate(test_part(), result.order, names, empty="skip")
    return [
        *(Row("NDCG@n", point.series, n, values[f"ndcg@{n}"]) for n in ranks),
        *(Row("P@n", point.series, n, values[f"p@{n}"]) for n in ranks),
        Row("MAP", point.series, "all", values["map"]),
    ]


def accuracy_by_set_size(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """0/1 ranking accuracy of the test sets of each size."""
    sets = test_part()
    is_right = outcomes(Metric(QUALITY), sets, result.order)
    return [
        Row(
            "0/1 ranking accuracy",
            point.series,
            int(size),
            float(is_right[sets.sizes == size].mean()),
        )
        for size in np.unique(sets.sizes)
    ]


def convergence(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """RankQuality, wrong comparisons and pairs kept in every iteration."""
    observed = result.about["observed"]
    quality = str(point.cell.quality)
    rows = []
    for part, series in (("train", "training"), ("vali", "validation")):
        iterations = zip(observed["measures"][part], observed["wrong"][part], strict=True)
        for i, (measures_of_part, share_wrong) in enumerate(iterations):
            rows.append(Row(quality.upper(), series, i, measures_of_part[quality]))
            rows.append(Row("share of comparisons wrong", series, i, share_wrong))
    for i, n_pairs in enumerate(observed["kept"]):
        rows.append(Row("pairs kept", "training", i, n_pairs))
    return rows


def runtime(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """CPU seconds of reading, training and ranking."""
    seconds = result.about["seconds"]
    return [
        Row("seconds", "reading", point.x, seconds["read"]),
        Row("seconds", "training", point.x, seconds["fit"]),
        Row("seconds", "ranking the test part", point.x, seconds["rank"]),
    ]


def peaks(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """The classifier's accuracy, and the sorted list of the first fold or draw."""
    observed = result.about["observed"]
    rows = [
        Row("accuracy", point.series, "thresholds at the peaks", observed["accuracy"]),
        Row("accuracy", point.series, "the commonest grade", observed["majority"]),
    ]
    if point.x != 0:
        return rows
    measure = f"r, {point.series}"
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
    """How far documents move in each other sort."""
    return [
        Row(_MOVES[name], point.series, other_sort, value)
        for other_sort, figures in result.about["observed"].items()
        for name, value in figures.items()
    ]


def quality_by_answers(point: Point, result: Result, test_part: TestPart) -> list[Row]:
    """NDCG@10 and the share of pairs learned from, by the share of answers."""
    observed = result.about["observed"]
    answers = observed["answers"]
    budget = point.x or 0  # cells of one budget are averaged, whatever their share of answers
    ndcg = evaluate(test_part(), result.order, "ndcg@10", empty="skip")["ndcg@10"]
    return [
        Row("NDCG@10", point.series, answers, ndcg, budget),
        Row("share of pairs learned from", point.series, answers, observed["pairs"], budget),
    ]


def shares_that_suffice(frame: pd.DataFrame) -> list[str]:
    """A line for each strategy: the shares with which it is nearly as good as all pairs."""
    quality, pairs = (frame[frame["measure"] == name] for name in frame["measure"].unique()[:2])
    reference = float(quality.loc[quality["series"] == "all", "value"].iloc[0])
    lines = []
    for strategy in dict.fromkeys(quality["series"]):
        if strategy == "all":
            continue
        is_of_strategy = quality["series"].to_numpy() == strategy
        share_of_pairs = pairs["value"].to_numpy()[is_of_strategy]
        share_of_answers = quality.iloc[:, 2][is_of_strategy]  # the study's x
        curve = np.column_stack(
            [share_of_pairs, share_of_answers, quality["value"][is_of_strategy]]
        )
        pairs_needed, answers_needed = crossing(curve.astype(np.float64), reference)
        shares = "not reached"
        if not isnan(pairs_needed):
            shares = f"{pairs_needed:.2%} of the pairs, {answers_needed:.2%} of the answers"
        lines.append(f"{REACHED:.0%} of the quality of all pairs by {strategy}: {shares}")
    return lines
