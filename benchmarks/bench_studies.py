"""The studies of the papers and every ranker on MQ2008: the figures of docs/benchmarks-papers.md.

Each study is that of `sortnet experiment study NAME` with the size `small`, or of a folder that of
`sortnet experiment study NAME MQ2008/Fold1`. The rankers are those of `sortnet experiment folds
MQ2008 --rankers all --jobs 2`, seed 0: the first call trains, the second takes the same rankings
under the convention of the DirectRanker papers. It takes about half an hour of CPU. Cells that were
worked out are kept in build/studies.db: remove it to work them out again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from measuring import DATA, JOBS, Row, row

from cli.lab.work import results_of
from sortnet.lab.studies import STUDIES, frame_of, points_of
from sortnet.lab.study_points import SIZES, Point, Size

MQ2008 = DATA / "mq2008"
COMMAND = "sortnet experiment folds MQ2008 --rankers all --jobs 2"
SEED = 0
TINY = Size(documents=200, tested=150, draws=1, folds=1, step=8, most=100, sets=40)
KEPT = Path(__file__).resolve().parents[1] / "build" / "studies.db"


@dataclass(frozen=True)
class Selection:
    """The figures of a study that are kept: those of some measures, at some places; None: all."""

    on_folder: bool = False
    measures: tuple[str, ...] | None = None
    at: tuple[Any, ...] | None = None


SELECTIONS: Mapping[str, Selection] = {
    "classes": Selection(),
    "features": Selection(),
    "noise": Selection(),
    "neighbours": Selection(measures=("accuracy",)),
    "training-size": Selection(),
    "label-ratio": Selection(),
    "order": Selection(
        measures=("places moved, mean", "places moved, most"), at=("shuffle 1", "quicksort")
    ),
    "set-sizes": Selection(at=(3, 6, 12, 24)),
    "hidden": Selection(on_folder=True, measures=("NDCG@n", "MAP"), at=(10, "all")),
    "rank-quality": Selection(on_folder=True, measures=("P@n",), at=(1, 10)),
    "weighting": Selection(on_folder=True, measures=("NDCG@10",)),
    "optimiser-activation": Selection(on_folder=True),
    "convergence": Selection(on_folder=True, measures=("MAP", "pairs kept"), at=(0, 1, 2, 3, 5, 8)),
    "runtime": Selection(on_folder=True, measures=("seconds",)),
    "scaling": Selection(on_folder=True, measures=("NDCG@10",)),
    "pair-efficiency": Selection(on_folder=True, measures=("NDCG@10",)),
}


def run(quick: bool) -> list[Row]:
    """A row for each figure of each study, and a row for each ranker, the best first."""
    names = ("noise", "neighbours") if quick else SELECTIONS
    rows = [figure for name in names for figure in of_study(name, quick)]
    return [*rows, *of_rankers(quick)] if MQ2008.exists() else rows


def of_study(name: str, quick: bool) -> Iterator[Row]:
    """The rows of a study; none where its data are not there."""
    selection = SELECTIONS[name]
    if selection.on_folder and not MQ2008.exists():
        return
    folder = str(MQ2008 / "Fold1") if selection.on_folder else None
    data = "MQ2008/Fold1" if selection.on_folder else "made data"
    points = points_of(name, folder, TINY if quick else SIZES["small"], SEED)
    frame = frame_of_points(name, points, quick=quick)
    if selection.measures is not None:
        frame = frame[frame["measure"].isin(selection.measures)]
    if selection.at is not None:
        frame = frame[frame[STUDIES[name].x].isin(selection.at)]
    for figure in frame.rename(columns={STUDIES[name].x: "x"}).to_dict("records"):
        x = None if pd.isna(figure["x"]) else figure["x"]
        error = None if pd.isna(figure["value_error"]) else figure["value_error"]
        place = ", ".join(str(part) for part in (figure["series"], x) if part not in ("", None))
        spread = "" if error is None else f"± {error:.4f}, "
        yield row(
            f"study {name}, {data}: {figure['measure']}; {place}",
            figure["value"],
            note=f"{spread}{figure['cells']} cells, seed {SEED}",
            **{"study": name, "data": data, "x": x, "error": error},
            **{column: figure[column] for column in ("measure", "series")},
        )


def frame_of_points(name: str, points: Sequence[Point], *, quick: bool) -> pd.DataFrame:
    """Compute the cells of a study that are not kept, and return the frame of its figures."""
    KEPT.parent.mkdir(exist_ok=True)
    cells = [point.cell for point in points]
    results, failed = results_of(
        cells, lambda text: None, store=f"sqlite:///{KEPT}", jobs=JOBS, again=quick
    )
    if failed:
        raise RuntimeError(f"{name}: {failed[0][1]}")
    by_cell = dict(results)
    return frame_of(name, [(point, by_cell[point.cell]) for point in points])


def of_rankers(quick: bool) -> list[Row]:
    """A row for each ranker on the five folds; errors and p stand in columns of their own."""
    rankers = "err,ranksvm" if quick else "all"
    left_out, conventions = compare(rankers, "skip")
    binarised, _ = compare(rankers, "binarised")
    under_binarised = {summary["ranker"]: summary for summary in binarised["summary"]}
    first = left_out["summary"][0]["ranker"]
    p_values = {frozenset((pair["a"], pair["b"])): pair["p_holm"] for pair in left_out["by_query"]}
    return [
        row(
            f"MQ2008, 5 folds, tuned: test ndcg@10 of {summary['ranker']}",
            summary["ndcg@10"],
            note=f"± {summary['ndcg@10_error']:.3f}; seed {SEED}; {conventions}",
            command=COMMAND,
            conventions=conventions,
            p=p_values.get(frozenset((first, summary["ranker"]))),
            summary=summary,
            binarised=under_binarised[summary["ranker"]],
        )
        for summary in left_out["summary"]
    ]


def compare(rankers: str, convention: str) -> tuple[dict[str, Any], str]:
    """The comparison of `sortnet experiment folds` under a convention, and its line about it."""
    command = [
        *(sys.executable, "-m", "cli", "experiment", "folds", str(MQ2008)),
        *("--rankers", rankers, "--jobs", str(JOBS), "--seed", str(SEED)),
        *("--convention", convention, "--store", str(KEPT), "--json"),
    ]
    finished = subprocess.run(command, capture_output=True, text=True)
    if not finished.stdout:
        raise RuntimeError(finished.stderr.strip())
    document = json.loads(finished.stdout)
    if failed := document["comparison"]["failed"]:
        raise RuntimeError(f"these rankers failed: {failed}")
    return document["comparison"], document["notes"][0]
