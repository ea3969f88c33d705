"""Run a study of the papers: its table is printed, table and figures are written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.console import progress, say, write_output
from cli.lab.comparison import mean_text
from cli.lab.work import RunOptions, results_of
from cli.printing.results import Result, Table, print_result, table_of_cells
from sortnet.errors import SortNetError
from sortnet.files import make_folder, rows_of, write_file
from sortnet.lab.studies import STUDIES, frame_of
from sortnet.lab.study_plan import Point, Study
from sortnet.messages import count

if TYPE_CHECKING:
    import pandas as pd

_TAKES = {"folder": "a folder of folds", "made": "nothing, it makes its data", "either": "either"}
_MOST_LINES = 40  # of a measure's table that are printed


def print_studies(*, as_json: bool) -> None:
    """Print every study with its question, its data and its source in the papers."""
    rows = [
        {"name": name, "question": study.says, "data": study.data, "source": study.source}
        for name, study in STUDIES.items()
    ]
    cells = [[row["name"], row["question"], _TAKES[row["data"]], row["source"]] for row in rows]
    table = table_of_cells(["study", "question", "takes", "source"], cells, left=4)
    print_result(Result("studies", rows, text=[table]), as_json=as_json)


def run_study(
    name: str,
    points: Sequence[Point],
    where: RunOptions,
    out: Path | None,
    as_json: bool,
    command: str,
) -> int:
    """Work out the cells of a study that are not stored, print its table, write its files.

    Returns:
        1 if a cell failed, else 0.

    Raises:
        SortNetError: if the data cannot be used, or no cell has a result.
    """
    with progress() as status:
        results, failed = results_of([point.cell for point in points], where, status)
        if not results:
            raise SortNetError(f"the study {name} has no result: {failed[0][1]}")
        by_cell: dict[Any, Any] = dict(results)
        with_result = [(point, by_cell[point.cell]) for point in points if point.cell in by_cell]
        frame = frame_of(name, with_result, cache=where.cache)
        seconds = sum(sum(result.about["seconds"].values()) for _, result in results)
    study = STUDIES[name]
    fewest, most = int(frame["cells"].min()), int(frame["cells"].max())
    number = count(most, "cell") if fewest == most else f"{fewest} to {most} cells"
    means = f"means ± standard errors of {number}"
    notes = [*study.notes(frame), f"{means}; {seconds:.0f} CPU seconds in all; {study.source}"]
    value = {"study": name, "question": study.says, "x": study.x, "rows": rows_of(frame)}
    text = [*_text(study, frame), *notes]
    print_result(Result("study", value, text, notes, is_noted_in_text=True), as_json=as_json)
    if out is not None:
        say(f"written: {', '.join(_write(name, frame, command, out))}")
    return 1 if failed else 0


def _text(study: Study, frame: pd.DataFrame) -> list[str | Table]:
    """The question of a study, and a table for each measure."""
    text: list[str | Table] = [study.says]
    for measure, figures in frame.groupby("measure", sort=False):
        text += ["", str(measure), _table_of_measure(figures, study.x)]
    return [*text, ""]


def _write(name: str, frame: pd.DataFrame, command: str, out: Path) -> list[str]:
    """Write NAME.csv, and a figure of each measure as SVG and PNG; their paths."""
    make_folder(out)
    study = STUDIES[name]
    table = str(out / f"{name}.csv")
    write_output(table, lambda file: frame.to_csv(file, index=False))
    curves_of_measures = [
        figures
        for _, figures in frame.groupby("measure", sort=False)
        if figures[study.x].nunique() > 1
    ]
    written = [table]
    for figures in curves_of_measures:
        plot = _plot(figures, study, command)
        ending = ""
        if len(curves_of_measures) > 1:
            ending = f"-{_file_name(figures['measure'].iloc[0])}"
        for form in ("svg", "png"):
            written.append(str(out / f"{name}{ending}.{form}"))
            write_file(written[-1], partial(plot.savefig, format=form))
    return written


def _plot(figures: pd.DataFrame, study: Study, remark: str) -> Any:
    """The curves of one measure."""
    from store.plots import curves

    measure = str(figures["measure"].iloc[0])
    columns = {"value": measure, "value_error": f"{measure}_error"}
    by = "series" if figures["series"].nunique() > 1 else None
    frame = figures.rename(columns=columns).infer_objects()
    return curves(frame, study.x, measure, by, log=study.log, title=study.says, remark=remark)


def _table_of_measure(figures: pd.DataFrame, x: str) -> str | Table:
    """A row for each x and a column for each series; where few have both, a row for each figure."""
    series = list(dict.fromkeys(figures["series"]))
    values = list(dict.fromkeys(figures[x]))
    if len(figures) > _MOST_LINES * len(series):
        return f"{count(len(figures), 'figure')}: --out writes them"
    cells = {
        (row[x], row["series"]): mean_text(row["value"], row["value_error"])
        for row in figures.to_dict("records")
    }
    if len(values) * len(series) > 2 * len(figures):
        rows = [[name, _x_text(value), text] for (value, name), text in cells.items()]
        return table_of_cells(["series", x, figures["measure"].iloc[0]], rows)
    rows = [
        [_x_text(value), *(cells.get((value, name), "") for name in series)] for value in values
    ]
    return table_of_cells([x, *(name or "value" for name in series)], rows)


def _x_text(x: Any) -> str:
    """A value of x: a text as it is, a number with few digits."""
    if isinstance(x, str):
        return x
    return f"{x:.4g}" if x < 1000 else f"{x:.0f}"


def _file_name(measure: str) -> str:
    """A measure as part of a file's name.

    >>> _file_name("r, two grades learned"), _file_name("NDCG@10")
    ('r-two-grades-learned', 'NDCG10')
    """
    return re.sub(r"[^A-Za-z0-9-]+", "", re.sub(r"[ ,]+", "-", measure))
