"""Studies of the papers: the question, the cells to compute and the figures read from the results.

A study computes many cells of an experiment, each a ranker on one division of data. A point is a
cell with its curve and its x in the study's figure. A reading gets a point, the result of its cell
and the test part. It returns rows: values of measures, with the curve and the x that they belong
to. The rows become a frame of means and standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from sortnet.core import F64, NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import SortNetError
from sortnet.lab import study_points
from sortnet.lab.cells import Result
from sortnet.lab.set_generators import QUALITY
from sortnet.lab.splits import MadeClasses, Split
from sortnet.lab.study_points import (
    REFERENCE,
    Plan,
    Point,
    Size,
    iterations,
    on_folds,
    on_made_data,
)
from sortnet.lab.summaries import group_means
from sortnet.messages import known_names
from sortnet.metrics import Metric, evaluate, outcomes

if TYPE_CHECKING:
    import pandas as pd

REACHED = 0.99  # share of the quality of training on grades that counts as reached
_NDCG = "NDCG@10"
_SHARE_LEARNED = "share of pairs learned from"
_SORTNET = "SortNet (Rigutini et al.)"
_RANKNET = "RankNet revisited (Köppel et al. 2025)"
_PAPER = "sortnet-paper:hidden=20"
_SCALINGS = ("none", "standard", "log", "normal", "quantile", "query", "zscore",
             "rank", "query+rank")  # fmt: skip


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


@dataclass(frozen=True)
class Study:
    """A study of the papers: its question, its cells and how its figures are read.

    Attributes:
        question: the question that the study answers, in a sentence.
        source: paper and section with the same study.
        x: name of the quantity on the x axis.
        points: lists the cells to compute, with their curves and x.
        read: reads the values of measures from the result of one cell.
        data: the data of the study: a `folder` of folds, synthetic (`made`), or `either`.
        log: whether x is drawn on a logarithmic scale.
        notes: writes further lines of text about the frame of figures.
    """

    question: str
    source: str
    x: str
    points: Callable[[Plan], list[Point]]
    read: Reading
    data: str = "folder"
    log: bool = False
    notes: Callable[[pd.DataFrame], list[str]] = lambda frame: []


# The cells of most studies are rankers on folds: (curve, x, ranker as a user types it).
STUDIES: dict[str, Study] = {
    "hidden": Study(
        "How many hidden units does the comparator need?",
        f"{_SORTNET}, table 1",
        "n",
        partial(
            on_folds,
            rankers=[(f"{n} hidden", None, f"sortnet-paper:hidden={n}") for n in (10, 20, 30)],
            quality="map",
        ),
        measures_at_ranks,
    ),
    "rank-quality": Study(
        "Does a RankQuality raise the measure that it is?",
        f"{_SORTNET}, table 2",
        "n",
        partial(
            on_folds,
            rankers=[(name.upper(), None, f"{_PAPER},quality={name}") for name in ("map", "p@10")],
        ),
        measures_at_ranks,
    ),
    "convergence": Study(
        "When does the loop converge?",
        f"{_SORTNET}, figure 3",
        "iteration",
        partial(on_folds, rankers=[("", None, _PAPER)], quality="map", observe=iterations),
        observed,
    ),
    "classes": Study(
        "How does quality fall with the number of classes?",
        f"{_RANKNET}, figure 4a",
        "classes",
        partial(on_made_data, field="classes", values=(2, 5, 10, 20)),
        measures("ndcg@20"),
        "made",
    ),
    "features": Study(
        "How does quality grow with the number of features?",
        f"{_RANKNET}, figure 4b",
        "features",
        partial(on_made_data, field="features", values=(2, 5, 10, 20, 40, 100)),
        measures("ndcg@20"),
        "made",
        log=True,
    ),
    "noise": Study(
        "How much noise on the grades does it bear?",
        f"{_RANKNET}, figure 4c",
        "standard deviation of the noise",
        partial(on_made_data, field="noise", values=(0.0, 0.25, 0.5, 0.75, 1.0, 1.5)),
        measures("ndcg@20"),
        "made",
    ),
    "training-size": Study(
        "How many training documents does each ranker need?",
        f"{_RANKNET}, figures 4d, 5a, 5b",
        "training documents, or share of the training part",
        study_points.training_sizes,
        ndcg_of_training_part,
        "either",
        log=True,
    ),
    "label-ratio": Study(
        "How few documents of the upper grades may there be?",
        f"{_RANKNET}, figures 5c, 5d",
        "share of the upper grades that is left",
        study_points.label_ratios,
        ndcg_of_training_part,
        "either",
        log=True,
    ),
    "optimiser-activation": Study(
        "Does the optimiser count, or the output activation?",
        f"{_RANKNET}, table 2",
        "output activation",
        partial(
            on_folds,
            rankers=[
                (series, x, f"directranker:hidden=32-20-5,loss=squared,optimizer={name},tau={tau}")
                for series, name in (("gradient descent", "sgd"), ("Adam", "adam"))
                for x, tau in (("sigmoid", "sigmoid"), ("tanh", "tanh"), ("linear", "identity"))
            ],
            quality="ndcg@10",
        ),
        measures("ndcg@10"),
    ),
    # The settings are fixed, because the table in the paper has the time of training without the
    # time of a search.
    "runtime": Study(
        "How long do reading and training take?",
        f"{_RANKNET}, table 3",
        "ranker",
        partial(
            on_folds,
            rankers=[
                ("SortNet", "SortNet", "sortnet:scaling=query+rank"),
                ("RankNet*", "RankNet*", "directranker:hidden=32"),
                ("RankNet", "RankNet", "ranknet:hidden=32"),
                ("ListNet", "ListNet", "listnet:hidden=32"),
                ("AdaRank", "AdaRank", "adarank-ndcg:rounds=100"),
                ("LambdaMART", "LambdaMART", "lambdamart:trees=300"),
            ],
        ),
        runtime,
    ),
    "neighbours": Study(
        "Do peaks of r in a sorted list say where the grades change?",
        f"{_RANKNET}, figure 6",
        "place in the sorted list, or classifier",
        study_points.sorted_neighbours,
        peaks,
        "either",
    ),
    "order": Study(
        "Does the ranking depend on the input order, or on the sorting algorithm?",
        f"{_SORTNET}, section 3",
        "other sort",
        study_points.input_orders,
        observed,
        "either",
    ),
    "pair-efficiency": Study(
        "How many answers does each strategy of choosing pairs need?",
        f"{_SORTNET}, section 3.1",
        "answers, share of all pairs",
        study_points.pair_budgets,
        quality_by_answers,
        "either",
        log=True,
        notes=shares_that_suffice,
    ),
    "scaling": Study(
        "Which scaling of the features is best?",
        f"{_SORTNET}, equation 5; {_RANKNET}, section 4.4",
        "scaling",
        partial(
            on_folds,
            rankers=[
                (series, scaling, ranker.format(scaling))
                for series, ranker in (
                    ("CmpNN", "sortnet-cmpnn:scaling={},hidden=32,committee=1"),
                    ("RankNet*", "directranker:scaling={},hidden=32,loss=squared"),
                )
                for scaling in _SCALINGS
            ],
        ),
        measures("ndcg@10", "map"),
    ),
    "weighting": Study(
        "Does it help a net to weigh pairs by what they change in NDCG?",
        "LambdaRank (Burges 2010)",
        "weight of a pair",
        partial(
            on_folds,
            rankers=[
                (f"{units} hidden", x, f"lambdarank:hidden={units},weighting={w}")
                for units in ("32", "64-64")
                for x, w in (
                    ("none", "none"),
                    ("of the ideal DCG", "ideal"),
                    ("|delta NDCG|", "delta"),
                )
            ],
        ),
        measures("ndcg@10", "map"),
    ),
    "set-sizes": Study(
        "How well are sets of other sizes ranked than those learned from?",
        "Pfannschmidt, Gupta and Hüllermeier 2018, figure 4",
        "objects of a set",
        study_points.set_sizes,
        accuracy_by_set_size,
        "made",
    ),
}


def points_of(
    name: str,
    folder: str | None,
    size: Size,
    seed: int = 0,
    columns: NamedColumns = UNNAMED,
) -> list[Point]:
    """List the cells of a study, each with its curve and x in the figure.

    Args:
        name: a key of `STUDIES`.
        folder: a folder of folds; None for a study that draws its data.
        size: the size of the study.
        seed: seed of the rankers and of the data.
        columns: names of the columns, if the folds are tables.

    Raises:
        SortNetError: if the study is unknown, needs a folder, or uses none and one is given.
    """
    if name not in STUDIES:
        raise SortNetError(f"unknown study {name[:60]!r}; there is {known_names(STUDIES, name)}")
    study = STUDIES[name]
    if folder is None and study.data == "folder":
        raise SortNetError(f"the study {name} needs data: sortnet experiment study {name} LETOR")
    if folder is not None and study.data == "made":
        raise SortNetError(f"the study {name} makes its data: leave out {folder[:60]!r}")
    return study.points(Plan(folder, size, seed, columns))


def frame_of(name: str, results: Iterable[tuple[Point, Result]]) -> pd.DataFrame:
    """Make a frame of the figures of a study, averaged over cells.

    Args:
        name: a key of `STUDIES`.
        results: the study's points with the results of their cells.

    Returns:
        Columns `measure`, `series`, a column called like the study's x, `value` (the mean),
        `value_error` (its standard error, NaN if there is one cell) and `cells` (the number of
        cells in the mean).

    Cost: reading the test part of every division once.
    """
    import pandas as pd

    @lru_cache
    def test_part(split: Split) -> Queries:
        """Read the test part of a division, or return it if it was read before."""
        test = split.load().test
        assert test is not None
        return test

    study = STUDIES[name]
    rows = [
        row
        for point, result in results
        for row in study.read(point, result, test_part(point.cell.split))
    ]
    frame = pd.DataFrame(rows, columns=Row._fields)
    # Rows with the same `at` are averaged; without it, rows with the same x.
    frame["at"] = frame["at"].astype(object).where(frame["at"].notna(), frame["x"])
    points_of_curves = frame.groupby(["measure", "series", "at"], sort=False)
    table = group_means(points_of_curves, ["value"])
    table.insert(0, study.x, [_common(x) for _, x in points_of_curves["x"]])
    table["cells"] = points_of_curves.size()
    return table.droplevel("at").reset_index()


def _common(x: pd.Series[Any]) -> Any:
    """Return the value that all rows share; if their numbers differ, return the mean."""
    return x.iloc[0] if x.nunique() == 1 else x.mean()
