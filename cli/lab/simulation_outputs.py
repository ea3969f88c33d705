"""The figures of a simulation of annotators: a table, and a plot in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.printing.results import Result, table_of_cells
from sortnet.errors import DataError
from sortnet.files import rows_of, write_file

if TYPE_CHECKING:
    import pandas as pd

_FORMS = (".png", ".svg", ".pdf")  # of plots
_TITLES = {
    "top": "share of the best items found",
    "spearman": "Spearman, to the truth",
    "rmse": "RMSE of z-scores",
    "accuracy": "share of held-out pairs predicted",
}  # of measures


def simulated_result(frame: pd.DataFrame) -> Result:
    """A row for each strategy and number of questions: means with standard errors."""
    from cli.lab.comparison import mean_text  # with torch, which takes a second

    cells = frame[["strategy", "questions"]].astype(str)
    for name in _TITLES:
        if name in frame:
            means = zip(frame[name], frame[f"{name}_se"], strict=True)
            cells[name] = [mean_text(mean, error) for mean, error in means]
    if "ms" in frame:
        cells["ms"] = frame["ms"].map("{:.1f}".format)
    table = table_of_cells(cells.columns.tolist(), cells.to_numpy().tolist())
    return Result("simulated", rows_of(frame), text=[table])


def check_plot(file: str | None) -> None:
    """Refuse a file of another format than those of plots."""
    if file and Path(file).suffix.lower() not in _FORMS:
        raise DataError(f"{file}: plots are written as {', '.join(_FORMS)}")


def write_plot(frame: pd.DataFrame, title: str, file: str) -> None:
    """Draw the figures of a simulation, and write the plot to a file."""
    from store.plots.simulations import simulation_figure

    titles = {name: title_of_measure for name, title_of_measure in _TITLES.items() if name in frame}
    figure = simulation_figure(frame, titles, title)
    form = Path(file).suffix.lower().removeprefix(".")
    write_file(file, lambda path: figure.savefig(path, format=form))
