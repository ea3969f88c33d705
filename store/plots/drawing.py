"""Make the shared parts of all plots, such as figures, colours, lines and legends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.core import SPLITS
from sortnet.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito has blue and orange, which colour-blind readers can tell apart.
BLUE = "#0072B2"
ORANGE = "#D55E00"
INK = "#222222"
FAINT = "#767676"
LINES: Mapping[str, Mapping[str, Any]] = {
    "train": {"color": BLUE, "linestyle": "-", "marker": "o", "markersize": 5.5},
    "vali": {"color": ORANGE, "linestyle": "--", "marker": "s", "markersize": 3.5},
}
BARS: Mapping[str, Mapping[str, Any]] = {
    "train": {"facecolor": BLUE},
    "vali": {"facecolor": ORANGE, "hatch": "////", "edgecolor": "white", "linewidth": 0},
}
LEADER: dict[str, Any] = {"arrowstyle": "-", "color": FAINT, "linewidth": 0.5, "relpos": (0, 0.5)}
PARTS = {"train": "training", "vali": "validation"}
# Sizes of the figures of `grid`, in inches.
_PANEL_WIDTH = 2.9
_PANEL_HEIGHT = 2.2
_LEAST_WIDTH = 5
_TITLE_AND_LEGEND_HEIGHT = 1.4
_CHARACTERS_PER_INCH = 13  # of a title, about


def check(frame: pd.DataFrame, columns: Sequence[str], next_step: str) -> None:
    """Raise a DataError if a frame lacks a column that is drawn, or has no rows."""
    missing = [name for name in columns if name not in frame]
    if missing:
        raise DataError(f"the frame has no column {str(missing[0])!r}, of which this plot is made")
    if frame.empty:
        raise DataError(f"nothing to draw, the frame has no rows: {next_step}")


def of_split(frame: pd.DataFrame, split: str) -> pd.DataFrame:
    """Return the rows of a split; raise a DataError if the frame has no such rows."""
    rows = frame[frame["split"] == split]
    if rows.empty:
        raise DataError(f"nothing to draw of {str(split)!r}; the frame has {', '.join(SPLITS)}")
    return rows


def new_figure(
    width: float, height: float, rows: int, columns: int, title: str, remark: str | None = None,
    share: bool = False,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """Make a figure with rows and columns of panels.

    Args:
        width: width in inches.
        height: height in inches.
        rows: number of rows of panels.
        columns: number of columns of panels.
        title: title of the figure.
        remark: clauses below the title, separated by "; ".
        share: whether all panels have the same range of x and of y.

    Returns the figure, and its panels row by row.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)  # attaches itself to the figure, as pyplot would do with global state
    lines = _lines_of_clauses(remark or "", n_characters=int(width * _CHARACTERS_PER_INCH))
    figure.suptitle("\n".join([title, *lines]), fontsize=10, color=INK)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).flat)
    for axes in panels:
        _set_style(axes)
    return figure, panels


def _set_style(axes: Axes) -> None:
    """Give a panel a light grid behind its content, small labels, and axes only left and below."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)


def _lines_of_clauses(text: str, *, n_characters: int) -> list[str]:
    """Break a text of clauses, separated by "; ", into lines of at most `n_characters`.

    A line ends between two clauses. A clause itself is broken only if it is longer than a line.
    """
    import textwrap

    clauses: list[str] = []
    for clause in text.split("; "):
        fits_in_line = len(clause) < n_characters
        clauses.append(clause.replace(" ", "\N{NO-BREAK SPACE}") if fits_in_line else clause)
    return textwrap.wrap("; ".join(clauses), n_characters)


def one_panel(
    width: float, height: float, title: str, remark: str | None = None
) -> tuple[Figure, Axes]:
    """Make a figure with a single panel; return the figure and the panel."""
    figure, (axes,) = new_figure(width, height, rows=1, columns=1, title=title, remark=remark)
    return figure, axes


def grid(
    n_panels: int, most_in_row: int, title: str, remark: str | None = None, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """Make a figure with a number of panels, at most `most_in_row` in a row."""
    n_columns = min(n_panels, most_in_row)
    n_rows = -(-n_panels // n_columns)  # rounded up
    width = max(_PANEL_WIDTH * n_columns, _LEAST_WIDTH)
    height = _TITLE_AND_LEGEND_HEIGHT + _PANEL_HEIGHT * n_rows
    figure, panels = new_figure(width, height, n_rows, n_columns, title, remark, share)
    # The last row may have fewer panels than columns.
    for surplus in range(n_panels, len(panels)):
        panels[surplus].remove()
        # With shared axes, only the last row has labels of ticks. Here the panel in the row above
        # becomes the last panel of its column, so it gets the labels.
        panel_above = panels[surplus - n_columns]
        panel_above.tick_params(labelbottom=True)
    return figure, panels[:n_panels]


def line(axes: Axes, frame: pd.DataFrame, column: str, split: str, label: str | None) -> None:
    """Plot a column over the iterations, as a line in the colour and dashes of the split."""
    values = frame[column].astype("float64")
    axes.plot(frame["iteration"], values, label=label, gid=column, **LINES[split])


def label_iterations(axes: Axes, frame: pd.DataFrame) -> None:
    """Label the x axis as iterations, and draw a vertical line at the iteration that was kept.

    The kept iteration is the one whose comparator the run kept, `frame.attrs["kept"]`.
    """
    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(whole_numbers())
    kept = frame.attrs.get("kept")
    if kept is None:
        return
    axes.axvline(kept, color=FAINT, linestyle=":", linewidth=1.2, zorder=0, gid="kept")
    # The word stands at the top of the panel, a few points to the right of the line.
    axes.annotate("kept", xy=(kept, 1), xycoords=axes.get_xaxis_transform(), xytext=(4, -1),
                  textcoords="offset points", fontsize=7.5, va="top", color=FAINT)  # fmt: skip


def name_bars(axes: Axes, names: Sequence[str]) -> None:
    """Write a name to the left of each horizontal bar, the first bar at the top.

    The lengths of the bars are whole numbers.
    """
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.xaxis.set_major_locator(whole_numbers())
    axes.grid(visible=False, axis="y")


def label_bars(
    axes: Axes,
    rows: Iterable[int],
    lengths: Iterable[float],
    labels: Iterable[str],
    fontsize: float,
) -> None:
    """Write a label beside the end of each horizontal bar.

    Args:
        axes: the panel with the bars.
        rows: the vertical position of each bar.
        lengths: the length of each bar.
        labels: the label of each bar.
        fontsize: the size of the labels, in points.
    """
    for row, length, label in zip(rows, lengths, labels, strict=True):
        axes.annotate(label, xy=(length, row), xytext=(4, 0), textcoords="offset points",
                      fontsize=fontsize, va="center", color=INK)  # fmt: skip


def legend(figure: Figure, axes: Axes) -> None:
    """Put the legend below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False,
        fontsize=8.5, handlelength=2.6,
    )  # fmt: skip


def choose_iterations(iterations: list[int], kept: int | None, most: int) -> list[int]:
    """Choose at most `most` evenly spaced iterations, which include the kept iteration.

    They also include the first and the last iteration, if `most` is 3 or more.
    """
    if len(iterations) <= most:
        return iterations
    positions = np.linspace(0, len(iterations) - 1, most)
    chosen = {iterations[round(position)] for position in positions}
    if kept in iterations and kept not in chosen:
        # The kept iteration replaces the nearest chosen iteration. The first and the last iteration
        # are replaced only if no other was chosen.
        ordered = sorted(chosen)
        inner = ordered[1:-1]
        replaceable = inner if inner else ordered[:1]
        nearest = min(replaceable, key=lambda iteration: abs(iteration - kept))
        chosen.remove(nearest)
        chosen.add(kept)
    return sorted(chosen)


def grade_styles(grades: list[int]) -> dict[int, dict[str, Any]]:
    """Return {grade: style of its lines}, from light and thin to dark and thick.

    The styles are distinct also in grey print.
    """
    from matplotlib import colormaps

    ordered = sorted(grades)
    n_grades = len(ordered)
    # Positions in the colour map, from light to dark. A single grade is dark.
    tones = np.linspace(0.85, 0.0, n_grades) if n_grades > 1 else [0.0]
    marks = "osD^vP*X"
    styles = {}
    for number, (grade, tone) in enumerate(zip(ordered, tones, strict=True)):
        styles[grade] = {
            "color": colormaps["cividis"](tone),
            "linewidth": 0.9 + 0.5 * number,
            "marker": marks[number % len(marks)],
            "markersize": 4,
        }
    return styles


def literal(name: str) -> str:
    """Escape a name for matplotlib, which would read text between two dollars as a formula.

    >>> literal("price in $")
    'price in \\\\$'
    """
    return name.replace("$", r"\$")


def brief(name: str) -> str:
    """Shorten a name for the label of an axis.

    A long name is cut in its middle, because names may differ only at their ends.

    >>> brief("should-tea-be-served-at-four_yes-it-should")
    'should-tea-be-served...es-it-should'
    """
    if len(name) > 35:
        name = f"{name[:20]}...{name[-12:]}"
    return literal(name)


def whole_numbers() -> Any:
    """Return a locator that puts the ticks of an axis at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True, min_n_ticks=1)


def percent() -> Any:
    """Return a formatter that labels the shares of an axis, 0 to 1, in percent."""
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1)


def short(count: int) -> str:
    """Write a count in a few characters, in thousands if it has five digits or more.

    >>> short(950), short(12_345)
    ('950', '12k')
    """
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"
