"""Output of a simulation of annotators: a table, and a plot in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cli.printing.results import Result, table_of_cells
from sortnet.errors import DataError
from sortnet.files import rows_of, write_file

if TYPE_CHECKING:
    import pandas as pd

_PLOT_SUFFIXES = (".png", ".svg", ".pdf")
# {measure: its title in the plot}
_TITLES = {
    "top": "share of the best items found",
    "spearman": "Spearman, to the truth",
    "rmse": "RMSE of z-scores",
    "accuracy": "share of held-out pairs predicted",
}


def simulated_result(frame: pd.DataFrame) -> Result:
    """Make the printed table: means with standard errors by strategy and number of questions."""
    from cli.lab.comparison import mean_text  # imports torch, which takes a second

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
    """Raise DataError if a plot cannot be written in the format that the file's suffix names."""
    if file and Path(file).suffix.lower() not in _PLOT_SUFFIXES:
        raise DataError(f"{file}: plots are written as {', '.join(_PLOT_SUFFIXES)}")


def write_plot(frame: pd.DataFrame, title: str, file: str) -> None:
    """Draw the figures of a simulation, and write the plot to a file."""
    from store.plots.figures import simulation_figure

    titles = {measure: text for measure, text in _TITLES.items() if measure in frame}
    figure = simulation_figure(frame, titles, title)
    file_format = Path(file).suffix.lower().removeprefix(".")
    write_file(file, lambda path: figure.savefig(path, format=file_format))
