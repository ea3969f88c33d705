"""Functions that read the figures of a study from the result of a cell.

A reading gets a point, the result of its cell and the test part. It returns rows: values of
measures, with the curve and the x that they belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sortnet.core import F64, Queries
from sortnet.lab.cells import Result
from sortnet.lab.set_generators import QUALITY
from sortnet.lab.splits import MadeClasses
from sortnet.lab.study_points import REFERENCE, Point
from sortnet.metrics import Metric, evaluate, outcomes

if TYPE_CHECKING:
    import pandas as pd

REACHED = 0.99  # share of the quality of training on grades that counts as reached
_NDCG = "NDCG@10"
_SHARE_LEARNED = "share of pairs learned from"


class Row(NamedTuple):
    """The value of one measure that is read from the result of one cell.

    Rows with the same measure, series and `at` are averaged to one point of a curve. If `at` is
    None, rows with the same x are averaged; otherwise the x are averaged, too.
    """

    measure: str
    series: str
    x: Any
    value: float
    at: Any = None


Reading: TypeAlias = Callable[[Point, Result, Queries], Iterable[Row]]


def measures(*names: str) -> Reading:
    """Make a reading of the given measures; queries without a relevant document are left out."""

    def read(point: Point, result: Result, test: Queries) -> list[Row]:
        values = evaluate(test, result.order, names, empty="skip")
        return [Row(name.upper(), point.series, point.x, value) for name, value in values.items()]

    return read


def ndcg_of_training_part(point: Point, result: Result, test: Queries) -> Iterable[Row]:
    """Read NDCG@20 on synthetic data, as the paper does, and NDCG@10 on folds."""
    name = "ndcg@20" if isinstance(point.cell.split, MadeClasses) else "ndcg@10"
    return measures(name)(point, result, test)


def measures_at_ranks(point: Point, result: Result, test: Queries) -> list[Row]:
    """Read NDCG@n and P@n for n from 1 to 10, and MAP."""
    ranks = range(1, 11)
    names = ["map", *(f"{kind}@{n}" for kind in ("ndcg", "p") for n in ranks)]
    values = evaluate(test, result.order, names, empty="skip")
    return [
        *(Row("NDCG@n", point.series, n, values[f"ndcg@{n}"]) for n in ranks),
        *(Row("P@n", point.series, n, values[f"p@{n}"]) for n in ranks),
        Row("MAP", point.series, "all", values["map"]),
    ]


def accuracy_by_set_size(point: Point, result: Result, test: Queries) -> list[Row]:
    """Read the 0/1 ranking accuracy (share of pairs in order) for each size of the test sets."""
    accuracy_of_sets = outcomes(Metric(QUALITY), test, result.order)
    rows = []
    for size in np.unique(test.sizes):
        mean = float(accuracy_of_sets[test.sizes == size].mean())
        rows.append(Row("0/1 ranking accuracy", point.series, int(size), mean))
    return rows


def observed(point: Point, result: Result, test: Queries) -> list[Row]:
    """Read the values that an observer has listed, see `sortnet.lab.study_points.Observed`."""
    return [
        Row(measure, series or point.series, x, value)
        for measure, series, x, value in result.about["observed"]
    ]


def runtime(point: Point, result: Result, test: Queries) -> list[Row]:
    """Read the CPU seconds of reading the data, of training, and of ranking the test part."""
    seconds = result.about["seconds"]
    return [
        Row("seconds", "reading", point.x, seconds["read"]),
        Row("seconds", "training", point.x, seconds["fit"]),
        Row("seconds", "ranking the test part", point.x, seconds["rank"]),
    ]


def peaks(point: Point, result: Result, test: Queries) -> list[Row]:
    """Read how well peaks of the margins between neighbours separate the grades.

    The values are from `sortnet.lab.study_points.neighbours`. For every split there are rows of the
    accuracy. For the first split (x is 0) there are also three curves along its sorted list:
    margins of neighbours, true grades, and grades that fall by one after each peak of the margins.
    """
    observation = result.about["observed"]
    rows = [
        Row("accuracy", point.series, "thresholds at the peaks", observation["accuracy"]),
        Row("accuracy", point.series, "the commonest grade", observation["majority"]),
    ]
    if point.x == 0:
        measure = f"r, {point.series}"
        rows += [Row(measure, "r of neighbours", k, r) for k, r in enumerate(observation["r"], 1)]
        n_peaks = len(observation["peaks"])
        for k, grade in enumerate(observation["grades"]):
            grade_by_peaks = n_peaks - sum(peak < k for peak in observation["peaks"])
            share = grade / max(observation["grades"])
            rows.append(Row(measure, "grade / highest", k + 1, share))
            rows.append(Row(measure, "the same by the peaks", k + 1, grade_by_peaks / n_peaks))
    return rows


def quality_by_answers(point: Point, result: Result, test: Queries) -> list[Row]:
    """Read NDCG@10 and the share of pairs learned from; x is the share of pairs asked about."""
    shares = result.about["observed"]
    share_answered = shares["answers"]
    # Cells with the same budget are averaged, although their shares of answers may differ.
    budget = 0 if point.x is None else point.x
    ndcg = evaluate(test, result.order, "ndcg@10", empty="skip")["ndcg@10"]
    return [
        Row(_NDCG, point.series, share_answered, ndcg, budget),
        Row(_SHARE_LEARNED, point.series, share_answered, shares["pairs"], budget),
    ]


def shares_that_suffice(frame: pd.DataFrame) -> list[str]:
    """Write a line for each strategy: the shares with which it is nearly as good as all grades."""
    lines = []
    for strategy, (pairs_needed, answers_needed) in needed_shares(frame).items():
        shares = "not reached"
        if not isnan(pairs_needed):
            shares = f"{pairs_needed:.2%} of the pairs, {answers_needed:.2%} of the answers"
        lines.append(f"{REACHED:.0%} of the quality of all grades by {strategy}: {shares}")
    return lines


def needed_shares(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Compute the shares of pairs and of answers that each strategy needs, see `crossing`.

    Args:
        frame: the figures that `quality_by_answers` read, averaged by `frame_of`.
    """
    share_answered = frame.columns[2]  # the x of the study, see `frame_of`
    quality = frame[frame["measure"] == _NDCG]
    learned = frame[frame["measure"] == _SHARE_LEARNED]  # its rows are of the same cells
    curves = quality.assign(share_learned=learned["value"].to_numpy()).groupby("series", sort=False)
    quality_of_grades = float(curves.get_group(REFERENCE)["value"].iloc[0])
    columns = ["share_learned", share_answered, "value"]
    return {
        str(strategy): crossing(curve[columns].to_numpy(np.float64), quality_of_grades)
        for strategy, curve in curves
        if strategy != REFERENCE
    }


def crossing(curve: F64, reference: float) -> tuple[float, float]:
    """Find the smallest shares of pairs and of answers with which the quality is good enough.

    Good enough is 99 % of the reference. Between two budgets the quality is taken as linear in the
    logarithm of the share.

    Args:
        curve: (n_budgets, 3) the share of pairs, the share of answers and the quality.
        reference: the quality of a ranker that was trained on grades.

    Returns:
        The share of pairs and the share of answers; NaN if the quality is nowhere good enough.

    >>> curve = np.array([[0.1, 0.2, 0.5], [0.4, 0.8, 1.0]])
    >>> np.round(crossing(curve, 0.75 / REACHED), 9)  # half-way: the geometric means
    array([0.2, 0.4])
    """
    quality = curve[:, 2]
    least_quality = REACHED * reference
    budgets_that_suffice = np.flatnonzero(quality >= least_quality)
    if not len(budgets_that_suffice):
        return np.nan, np.nan
    k = int(budgets_that_suffice[0])
    # The wanted quality is reached at the first budget, or between the budgets k - 1 and k.
    around = slice(max(k - 1, 0), k + 1)
    share_of_pairs, share_of_answers = (
        float(np.exp(np.interp(least_quality, quality[around], np.log(shares[around]))))
        for shares in (curve[:, 0], curve[:, 1])
    )
    return share_of_pairs, share_of_answers
