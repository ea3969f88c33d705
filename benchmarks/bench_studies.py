"""The studies of the papers: the figures of docs/benchmarks-papers.md.

Each study is that of `sortnet experiment study NAME` with the size `small`, and of a folder that of
`sortnet experiment study NAME MQ2008/Fold1`. Cells that were worked out are kept in
build/studies.db: remove it to work them out again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from bench_mq2008 import DATA

from cli.lab.work import results_of
from sortnet.lab.studies import STUDIES, frame_of, points_of
from sortnet.lab.study_plan import SIZES, Size

FOLDER = "MQ2008/Fold1"
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


def run(quick: bool) -> list[dict[str, Any]]:
    """A row for each figure of each study."""
    names = ("noise", "neighbours") if quick else SELECTIONS
    return [row for name in names for row in rows_of(name, quick=quick)]


def rows_of(name: str, *, quick: bool = False) -> list[dict[str, Any]]:
    """The rows of a study; none where its data are not there."""
    selection = SELECTIONS[name]
    if selection.on_folder and not DATA.exists():
        return []
    folder = str(DATA / "Fold1") if selection.on_folder else None
    points = points_of(name, folder, TINY if quick else SIZES["small"], SEED)
    KEPT.parent.mkdir(exist_ok=True)
    cells = [point.cell for point in points]
    results, failed = results_of(
        cells, lambda text: None, store=f"sqlite:///{KEPT}", jobs=2, again=quick
    )
    if failed:
        raise RuntimeError(f"{name}: {failed[0][1]}")
    by_cell: dict[Any, Any] = dict(results)
    frame = frame_of(name, [(point, by_cell[point.cell]) for point in points])
    data = FOLDER if selection.on_folder else "made data"
    return list(_rows(name, data, frame, selection))


def _rows(
    name: str, data: str, frame: pd.DataFrame, selection: Selection
) -> Iterator[dict[str, Any]]:
    x = STUDIES[name].x
    for figure in frame.to_dict("records"):
        if selection.measures is not None and figure["measure"] not in selection.measures:
            continue
        if selection.at is not None and figure[x] not in selection.at:
            continue
        place = None if pd.isna(figure[x]) else figure[x]
        error = None if pd.isna(figure["value_error"]) else figure["value_error"]
        position = ", ".join(
            str(part) for part in (figure["series"], place) if part not in ("", None)
        )
        spread = "" if error is None else f"± {error:.4f}, "
        yield {
            "what": f"study {name}, {data}: {figure['measure']}; {position}",
            "ours": figure["value"],
            "note": f"{spread}{figure['cells']} cells, seed {SEED}",
            "study": name,
            "data": data,
            "measure": figure["measure"],
            "series": figure["series"],
            "x": place,
            "error": error,
        }


def main() -> None:
    for row in run(quick=False):
        print(row)


if __name__ == "__main__":
    main()
