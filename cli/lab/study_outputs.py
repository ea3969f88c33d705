"""Run a study of the papers, print its table, and write its table and figures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import progress, say
from cli.lab.work import cpu_seconds, results_of
from cli.options import command_line
from cli.printing.results import Result, Table, print_result, table_of_cells, write_csv_file
from sortnet.errors import SortNetError
from sortnet.files import make_folder, rows_of, write_file
from sortnet.lab.studies import STUDIES, Study, frame_of
from sortnet.lab.study_points import Point
from sortnet.lab.summaries import mean_texts
from sortnet.messages import count

if TYPE_CHECKING:
    import pandas as pd

# What a user has to give, for each value of `Study.data`.
_TAKES = {"folder": "a folder of folds", "made": "nothing, it makes its data", "either": "either"}
_MOST_LINES = 40  # largest number of points of a curve that is printed


def print_studies(*, as_json: bool) -> None:
    """Print a table of all studies with their questions, their data and their sources."""
    rows = [
        {"name": name, "question": study.question, "data": study.data, "source": study.source}
        for name, study in STUDIES.items()
    ]
    cells = [[row["name"], row["question"], _TAKES[row["data"]], row["source"]] for row in rows]
    table = table_of_cells(["study", "question", "takes", "source"], cells, left=4)
    print_result(Result("studies", rows, text=[table]), as_json=as_json)


def run_study(
    name: str,
    points: Sequence[Point],
    *,
    out: Path | None,
    as_json: bool,
    **how: Any,
) -> int:
    """Compute the results of a study that are not stored, print its table and write its files.

    Args:
        name: name of the study.
        points: the points of the study.
        out: folder for the files; None to write none.
        as_json: whether the table is printed as JSON.
        how: further arguments of `results_of`.

    Returns:
        1 if a cell failed, else 0.

    Raises:
        SortNetError: if the data cannot be used, or no cell has a result.
    """
    with progress() as status:
        results, failed = results_of([p.cell for p in points], status, **how)
        if not results:
            _, why = failed[0]
            raise SortNetError(f"the study {name} has no result: {why}")
        result_of_cell: dict[Any, Any] = dict(results)
        points_with_result = [
            (point, result_of_cell[point.cell]) for point in points if point.cell in result_of_cell
        ]
        frame = frame_of(name, points_with_result)
    study = STUDIES[name]
    total_seconds = sum(cpu_seconds(result) for _, result in results)
    fewest = int(frame["cells"].min())
    most = int(frame["cells"].max())
    n_cells = count(most, "cell") if fewest == most else f"{fewest} to {most} cells"
    means = f"means ± standard errors of {n_cells}"
    note = f"{means}; {total_seconds:.0f} CPU seconds in all; {study.source}"
    notes = [*study.notes(frame), note]
    value = {"study": name, "question": study.question, "x": study.x, "rows": rows_of(frame)}
    text = [*_text(study, frame), *notes]
    print_result(Result("study", value, text, notes, is_noted_in_text=True), as_json=as_json)
    if out is not None:
        written = _write(name, frame, out)
        say(f"written: {', '.join(written)}")
    return 1 if failed else 0


def _text(study: Study, frame: pd.DataFrame) -> list[str | Table]:
    """List the printed parts of a study: its question, and a table with a column for each measure.

    A curve of more than 40 points is left out of the table.
    """
    n_points_of_curve = frame.groupby(["measure", "series"])["value"].transform("size")
    shown = frame[n_points_of_curve <= _MOST_LINES]
    text: list[str | Table] = [study.question, ""]
    if len(shown):
        texts = shown.assign(text=mean_texts(shown["value"], shown["value_error"]))
        texts[study.x] = shown[study.x].map(_x_text)
        cells = texts.pivot_table(
            index=["series", study.x],
            columns="measure",
            values="text",
            aggfunc="first",
            sort=False,
        )
        rows = cells.fillna("").reset_index()
        text += [table_of_cells([*rows.columns], rows.to_numpy().tolist(), left=2), ""]
    if len(shown) < len(frame):
        text += [f"{count(len(frame) - len(shown), 'further figure')}: --out writes them", ""]
    return text


def _write(name: str, frame: pd.DataFrame, out: Path) -> list[str]:
    """Write NAME.csv, and a figure of each measure as SVG and PNG; return the paths.

    A measure without several values of x has no figure.
    """
    make_folder(out)
    written = [str(out / f"{name}.csv")]
    write_csv_file(frame, written[0])
    study = STUDIES[name]
    curves = {
        str(measure): figures
        for measure, figures in frame.groupby("measure", sort=False)
        if figures[study.x].nunique() > 1
    }
    for measure, figures in curves.items():
        plot = _plot(figures, study, measure)
        ending = f"-{_file_name(measure)}" if len(curves) > 1 else ""
        for file_format in ("svg", "png"):
            path = str(out / f"{name}{ending}.{file_format}")
            write_file(path, partial(plot.savefig, format=file_format))
            written.append(path)
    return written


def _plot(figures: pd.DataFrame, study: Study, measure: str) -> Any:
    """Draw the curves of one measure, with the command line below the figure."""
    from store.plots import curves

    columns = {"value": measure, "value_error": f"{measure}_error"}
    by = "series" if figures["series"].nunique() > 1 else None
    frame = figures.rename(columns=columns).infer_objects()
    remark = command_line(click.get_current_context())
    return curves(frame, study.x, measure, by, log=study.log, title=study.question, remark=remark)


def _x_text(x: Any) -> str:
    """Write a value of x: a text as it is, a number with few digits."""
    if isinstance(x, str):
        return x
    return f"{x:.4g}" if x < 1000 else f"{x:.0f}"


def _file_name(measure: str) -> str:
    """Convert the name of a measure to a part of a file name.

    >>> _file_name("r, two grades learned"), _file_name("NDCG@10")
    ('r-two-grades-learned', 'NDCG10')
    """
    with_hyphens = re.sub(r"[ ,]+", "-", measure)
    return re.sub(r"[^A-Za-z0-9-]+", "", with_hyphens)
