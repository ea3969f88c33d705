"""Shared parts of all plots: sizes, colours, lines, bars, the mark of the kept iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sortnet.core import SPLITS
from sortnet.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, INK, FAINT = "#0072B2", "#D55E00", "#222222", "#767676"  # of Okabe and Ito
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


def check(frame: pd.DataFrame, columns: Sequence[str], next_step: str) -> None:
    """Raise a DataError if a frame lacks a column that is drawn, or has no rows."""
    missing = [name for name in columns if name not in frame]
    if missing:
        raise DataError(f"the frame has no column {missing[0]!r}, of which this plot is made")
    if frame.empty:
        raise DataError(f"nothing to draw, the frame has no rows: {next_step}")


def of_split(frame: pd.DataFrame, split: str) -> pd.DataFrame:
    """The rows of a split; a DataError if the frame has no such rows."""
    rows = frame[frame["split"] == split]
    if rows.empty:
        raise DataError(f"nothing to draw of {split!r}; the frame has {', '.join(SPLITS)}")
    return rows


def new_figure(
    width: float, height: float, rows: int, columns: int, title: str, remark: str | None = None,
    share: bool = False,
) -> tuple[Figure, list[Axes]]:  # fmt: skip
    """A figure of rows and columns of panels; width and height are in inches."""
    import textwrap

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    n_characters = int(width * 13)  # in a line
    # Break lines between clauses, and within a clause only if it is longer than a line.
    clauses = [
        clause.replace(" ", "\N{NO-BREAK SPACE}") if len(clause) < n_characters else clause
        for clause in (remark or "").split("; ")
    ]
    lines = textwrap.wrap("; ".join(clauses), n_characters)
    figure.suptitle("\n".join([title, *lines]), fontsize=10, color=INK)
    panels = list(figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share).flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_fontsize(9)
        axes.yaxis.label.set_fontsize(9)
    return figure, panels


def grid(
    n: int, most: int, title: str, remark: str | None = None, share: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, at most `most` in a row."""
    columns = min(n, most)
    rows = -(-n // columns)
    figure, panels = new_figure(
        max(2.9 * columns, 5), 1.4 + 2.2 * rows, rows, columns, title, remark, share
    )
    for k in range(n, len(panels)):
        panels[k].remove()
        panels[k - columns].tick_params(labelbottom=True)  # which shared axes hide
    return figure, panels[:n]


def line(axes: Axes, frame: pd.DataFrame, column: str, split: str, label: str | None) -> None:
    """Plot a column over the iterations, in the split's style."""
    y = frame[column].astype("float64")
    axes.plot(frame["iteration"], y, label=label, gid=column, **LINES[split])


def by_iteration(axes: Axes, frame: pd.DataFrame) -> None:
    """Label the axis of iterations, with a line at the iteration whose comparator is kept."""
    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(whole_numbers())
    kept = frame.attrs.get("kept")
    if kept is not None:
        axes.axvline(kept, color=FAINT, linestyle=":", linewidth=1.2, zorder=0, gid="kept")
        axes.annotate("kept", (kept, 1), (4, -1), xycoords=axes.get_xaxis_transform(),
                      textcoords="offset points", fontsize=7.5, va="top", color=FAINT)  # fmt: skip


def legend(figure: Figure, axes: Axes) -> None:
    """Put the legend below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), 5), frameon=False,
        fontsize=8.5, handlelength=2.6,
    )  # fmt: skip


def some_of(iterations: list[int], kept: int | None, most: int) -> list[int]:
    """Choose at most `most` iterations, evenly spaced, among them the first, last and kept one."""
    if len(iterations) <= most:
        return iterations
    places = np.linspace(0, len(iterations) - 1, most)
    chosen = {iterations[round(place)] for place in places}
    if kept in iterations and kept not in chosen:
        # The kept iteration takes the place of its neighbour, but not of the first or the last.
        replaceable = sorted(chosen)[1:-1] or sorted(chosen)[:1]
        chosen.remove(min(replaceable, key=lambda iteration: abs(iteration - kept)))
        chosen.add(kept)
    return sorted(chosen)


def grade_styles(grades: list[int]) -> dict[int, dict[str, Any]]:
    """Styles of grades from light and thin to dark and thick, distinct also in grey print."""
    from matplotlib import colormaps

    ordered = sorted(grades)
    tones = np.linspace(0.85, 0.0, len(ordered)) if len(ordered) > 1 else [0.0]
    marks = "osD^vP*X"
    return {
        grade: {
            "color": colormaps["cividis"](tone),
            "linewidth": 0.9 + 0.5 * k,
            "marker": marks[k % len(marks)],
            "markersize": 4,
        }
        for k, (grade, tone) in enumerate(zip(ordered, tones, strict=True))
    }


def literal(name: str) -> str:
    """Escape a name for matplotlib, which would read text between two dollars as a formula.

    >>> literal("price in $")
    'price in \\\\$'
    """
    return name.replace("$", r"\$")


def brief(name: str) -> str:
    """A name for an axis; a long name is cut in its middle, because its end may tell it apart.

    >>> brief("should-tea-be-served-at-four_yes-it-should")
    'should-tea-be-served...es-it-should'
    """
    return literal(name if len(name) <= 35 else f"{name[:20]}...{name[-12:]}")


def whole_numbers() -> Any:
    """Ticks at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True, min_n_ticks=1)


def percent() -> Any:
    from matplotlib.ticker import PercentFormatter

    return PercentFormatter(1)


def short(count: int) -> str:
    """A count in at most five characters.

    >>> short(950), short(12_345)
    ('950', '12k')
    """
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"
