"""Studies of the papers: the question, the cells to compute and the figures read from the results.

A study computes many cells of an experiment, each a ranker on one division of data. A point is a
cell with its curve and its x in the study's figure. The results become a frame of means and
standard errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortnet.core import NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.errors import SortNetError
from sortnet.lab import study_points, study_readings
from sortnet.lab.cells import Result
from sortnet.lab.splits import Split
from sortnet.lab.study_plan import Plan, Point, Row, Size, Study
from sortnet.lab.study_points import on_made_data
from sortnet.lab.study_readings import measures
from sortnet.lab.summaries import group_means

if TYPE_CHECKING:
    import pandas as pd

_SORTNET = "SortNet (Rigutini et al.)"
_RANKNET = "RankNet revisited (Köppel et al. 2025)"

STUDIES: dict[str, Study] = {
    "hidden": Study(
        "How many hidden units does the comparator need?",
        f"{_SORTNET}, table 1",
        "n",
        study_points.hidden_units,
        study_readings.measures_at_ranks,
    ),
    "rank-quality": Study(
        "Does a RankQuality raise the measure that it is?",
        f"{_SORTNET}, table 2",
        "n",
        study_points.rank_qualities,
        study_readings.measures_at_ranks,
    ),
    "convergence": Study(
        "When does the loop converge?",
        f"{_SORTNET}, figure 3",
        "iteration",
        study_points.loop_iterations,
        study_readings.convergence,
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
        study_readings.ndcg_of_training_part,
        "either",
        log=True,
    ),
    "label-ratio": Study(
        "How few documents of the upper grades may there be?",
        f"{_RANKNET}, figures 5c, 5d",
        "share of the upper grades that is left",
        study_points.label_ratios,
        study_readings.ndcg_of_training_part,
        "either",
        log=True,
    ),
    "optimiser-activation": Study(
        "Does the optimiser count, or the output activation?",
        f"{_RANKNET}, table 2",
        "output activation",
        study_points.optimisers_and_activations,
        measures("ndcg@10"),
    ),
    "runtime": Study(
        "How long do reading and training take?",
        f"{_RANKNET}, table 3",
        "ranker",
        study_points.runtimes,
        study_readings.runtime,
    ),
    "neighbours": Study(
        "Do peaks of r in a sorted list say where the grades change?",
        f"{_RANKNET}, figure 6",
        "place in the sorted list, or classifier",
        study_points.sorted_neighbours,
        study_readings.peaks,
        "either",
    ),
    "order": Study(
        "Does the ranking depend on the input order, or on the sorting algorithm?",
        f"{_SORTNET}, section 3",
        "other sort",
        study_points.input_orders,
        study_readings.moves,
        "either",
    ),
    "pair-efficiency": Study(
        "How many answers does each strategy of choosing pairs need?",
        f"{_SORTNET}, section 3.1",
        "answers, share of all pairs",
        study_points.pair_budgets,
        study_readings.quality_by_answers,
        "either",
        log=True,
        notes=study_readings.shares_that_suffice,
    ),
    "scaling": Study(
        "Which scaling of the features is best?",
        f"{_SORTNET}, equation 5; {_RANKNET}, section 4.4",
        "scaling",
        study_points.scalings,
        measures("ndcg@10", "map"),
    ),
    "weighting": Study(
        "Does it help a net to weigh pairs by what they change in NDCG?",
        "LambdaRank (Burges 2010)",
        "weight of a pair",
        study_points.pair_weightings,
        measures("ndcg@10", "map"),
    ),
    "set-sizes": Study(
        "How well are sets of other sizes ranked than those learned from?",
        "Pfannschmidt, Gupta and Hüllermeier 2018, figure 4",
        "objects of a set",
        study_points.set_sizes,
        study_readings.accuracy_by_set_size,
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
        similar = get_close_matches(name, STUDIES, n=3) or list(STUDIES)
        raise SortNetError(f"unknown study {name[:60]!r}; there is {', '.join(similar)}")
    study = STUDIES[name]
    if folder is None and study.data == "folder":
        raise SortNetError(f"the study {name} needs data: sortnet experiment study {name} LETOR")
    if folder is not None and study.data == "made":
        raise SortNetError(f"the study {name} makes its data: leave out {folder[:60]!r}")
    return study.points(Plan(folder, size, seed, columns))


def frame_of(
    name: str, results: Iterable[tuple[Point, Result]], *, cache: Path | None = None
) -> pd.DataFrame:
    """Make a frame of the figures of a study, averaged over cells.

    Args:
        name: a key of `STUDIES`.
        results: the study's points with the results of their cells.
        cache: cache folder for the data.

    Returns:
        Columns `measure`, `series`, a column called like the study's x, `value` (the mean),
        `value_error` (its standard error, NaN if there is one cell) and `cells` (the number of
        cells in the mean).

    Cost: reading the test part of every division once.
    """
    import pandas as pd

    study = STUDIES[name]
    frame = pd.DataFrame(_read_rows(study, results, cache), columns=Row._fields)
    points_of_curves = frame.groupby(["measure", "series", "at"], sort=False)
    means = group_means(points_of_curves, ["value"])
    table = []
    for ((measure, series, _), rows_of_point), mean, error in zip(
        points_of_curves, means["value"], means["value_error"], strict=True
    ):
        x = _common(rows_of_point["x"])
        table.append((measure, series, x, mean, error, len(rows_of_point)))
    return pd.DataFrame(
        table, columns=["measure", "series", study.x, "value", "value_error", "cells"]
    )


def _read_rows(
    study: Study, results: Iterable[tuple[Point, Result]], cache: Path | None
) -> list[Row]:
    """Read the values of a study's measures from the results of its cells.

    Args:
        study: the study.
        results: the study's points with the results of their cells.
        cache: cache folder for the data.

    Returns:
        Rows whose `at` is not None: rows with the same `at` are averaged.
    """

    @lru_cache
    def test_part(split: Split) -> Queries:
        """Read the test part of a division, or return it if it was read before."""
        test = split.load(cache).test
        assert test is not None
        return test

    rows = []
    for point, result in results:
        read_test_part = partial(test_part, point.cell.split)
        for row in study.read(point, result, read_test_part):
            rows.append(row if row.at is not None else row._replace(at=row.x))
    return rows


def _common(x: pd.Series[Any]) -> Any:
    """Return the value that all rows share; if their numbers differ, return the mean."""
    return x.iloc[0] if x.nunique() == 1 else x.mean()
