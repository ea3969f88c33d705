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
    """All studies: what each asks, what it takes and where the papers have it."""
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
    """Work out what the store does not have of a study, print its table, write its files.

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
        found = [(point, by_cell[point.cell]) for point in points if point.cell in by_cell]
        frame = frame_of(name, found, cache=where.cache)
        took = sum(sum(result.about["seconds"].values()) for _, result in results)
    study = STUDIES[name]
    low, high = int(frame["cells"].min()), int(frame["cells"].max())
    number = count(high, "cell") if low == high else f"{low} to {high} cells"
    cells = f"means ± standard errors of {number}"
    notes = [*study.notes(frame), f"{cells}; {took:.0f} CPU seconds in all; {study.source}"]
    value = {"study": name, "question": study.says, "x": study.x, "rows": rows_of(frame)}
    text = [*_text(study, frame), *notes]
    print_result(Result("study", value, text, notes, is_noted_in_text=True), as_json=as_json)
    if out is not None:
        say(f"written: {', '.join(_write(name, frame, command, out))}")
    return 1 if failed else 0


def _text(study: Study, frame: pd.DataFrame) -> list[str | Table]:
    text: list[str | Table] = [study.says]
    for measure, one in frame.groupby("measure", sort=False):
        text += ["", str(measure), _measure(one, study.x)]
    return [*text, ""]


def _write(name: str, frame: pd.DataFrame, command: str, out: Path) -> list[str]:
    """Write NAME.csv, and a figure of each measure as SVG and PNG; their paths."""
    make_folder(out)
    study, table = STUDIES[name], str(out / f"{name}.csv")
    write_output(table, lambda file: frame.to_csv(file, index=False))
    drawn = [one for _, one in frame.groupby("measure", sort=False) if one[study.x].nunique() > 1]
    written = [table]
    for one in drawn:
        figure = _figure(one, study, command)
        more = f"-{_file_name(one['measure'].iloc[0])}" if len(drawn) > 1 else ""
        for form in ("svg", "png"):
            written.append(str(out / f"{name}{more}.{form}"))
            write_file(written[-1], partial(figure.savefig, format=form))
    return written


def _figure(one: pd.DataFrame, study: Study, remark: str) -> Any:
    from store.plots import curves

    measure = str(one["measure"].iloc[0])
    columns = {"value": measure, "value_error": f"{measure}_error"}
    by = "series" if one["series"].nunique() > 1 else None
    frame = one.rename(columns=columns).infer_objects()
    return curves(frame, study.x, measure, by, log=study.log, title=study.says, remark=remark)


def _measure(one: pd.DataFrame, x: str) -> str | Table:
    """A row for each x and a column for each series, or a row for each figure if few meet."""
    series, values = list(dict.fromkeys(one["series"])), list(dict.fromkeys(one[x]))
    if len(one) > _MOST_LINES * len(series):
        return f"{count(len(one), 'figure')}: --out writes them"
    cells = {
        (row[x], row["series"]): mean_text(row["value"], row["value_error"])
        for row in one.to_dict("records")
    }
    if len(values) * len(series) > 2 * len(one):
        rows = [[series, _at(at), text] for (at, series), text in cells.items()]
        return table_of_cells(["series", x, one["measure"].iloc[0]], rows)
    rows = [[_at(at), *(cells.get((at, name), "") for name in series)] for at in values]
    return table_of_cells([x, *(name or "value" for name in series)], rows)


def _at(x: Any) -> str:
    return x if isinstance(x, str) else f"{x:.4g}" if x < 1000 else f"{x:.0f}"


def _file_name(measure: str) -> str:
    """
    >>> _file_name("r, two grades learned"), _file_name("NDCG@10")
    ('r-two-grades-learned', 'NDCG10')
    """
    return re.sub(r"[^A-Za-z0-9-]+", "", re.sub(r"[ ,]+", "-", measure))
