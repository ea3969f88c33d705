"""Plots that compare rankers: p values, mean ranks with a critical difference, curves of a study.

As in `store.plots.figures`, nothing is global, and marks or texts repeat the meaning of colours.
Fewer than two rankers, sizes that do not fit, or no point to draw are a DataError.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64
from sortnet.errors import DataError
from store.plots import drawing as draw
from store.plots.drawing import FAINT, INK, check

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIGNIFICANT = 0.05
# A p value below a level has its colour: the darker, the more certain.
_LEVELS = ((_SIGNIFICANT, "#cfe1f2"), (0.01, "#93c4de"), (0.001, "#2f7ebc"))
_NOT_SIGNIFICANT = "#f2f2f2"
_COLOURS = (draw.BLUE, draw.ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_DASHES = ("-", "--", ":", "-.")
_MARKS = "os^DvPX"


def p_value_matrix(p: ArrayLike, names: Sequence[str], means: ArrayLike) -> Figure:
    """The p value of each two rankers; if it is below .05, an arrow points to the better ranker.

    Args:
        p: (k, k) symmetric, such as `sortnet.lab.significance.as_matrix` gives; NaN if it is
            unknown.
        names: names of the k rankers, in the order of the rows and columns of p.
        means: (k,) the mean figure of each ranker; higher is better.
    """
    p_values = np.asarray(p, dtype=np.float64)
    figures = np.asarray(means, dtype=np.float64)
    k = _check_sizes(names, figures, p_values)
    labels = [
        f"{draw.literal(name)}  {mean:.3f}" for name, mean in zip(names, figures, strict=True)
    ]
    side = 0.9 + 0.46 * k + 0.07 * max(map(len, labels))  # the cells are squares
    title = "p values of the differences between rankers"
    remark = f"an arrow points to the better one where p < {_SIGNIFICANT:g}"
    figure, (axes,) = draw.new_figure(max(side, 4.6), side, 1, 1, title, remark)
    for row in range(1, k):
        for column in range(row):
            row_is_better = figures[row] > figures[column]
            _draw_p(axes, column, row, p_values[row, column], row_is_better)
    axes.set_xticks(range(k - 1), labels[:-1], fontsize=8, rotation=90)
    axes.set_yticks(range(1, k), labels[1:], fontsize=8)
    axes.set(xlim=(-0.5, k - 1.5), ylim=(k - 0.5, 0.5), aspect="equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def critical_difference_diagram(mean_ranks: ArrayLike, names: Sequence[str], cd: float) -> Figure:
    """Demsar's diagram: rankers at their mean ranks; a bar joins rankers that do not differ.

    Args:
        mean_ranks: (k,) mean ranks, as `sortnet.lab.significance.friedman` gives; 1 is the best.
        names: names of the k rankers.
        cd: the critical difference, see `sortnet.lab.significance.critical_difference`.
    """
    ranks = np.asarray(mean_ranks, dtype=np.float64)
    k = _check_sizes(names, ranks)
    order = np.argsort(ranks, kind="stable")
    bars = indistinguishable_runs(ranks[order], cd)
    n_on_the_left = (k + 1) // 2
    first_row = 0.7 + 0.55 * len(bars)  # of the names, below the axis
    n_rows = first_row + 0.5 + n_on_the_left
    remark = "a bar joins rankers that do not differ significantly"
    figure, (axes,) = draw.new_figure(7.4, 1.4 + 0.23 * (n_rows + 1.5), 1, 1, "Mean ranks", remark)
    for place, number in enumerate(order):
        on_the_left = place < n_on_the_left
        row = first_row + (place if on_the_left else k - 1 - place)
        _draw_rank(axes, ranks[number], row, draw.literal(names[number]), on_the_left, k)
    for level, (first, last) in enumerate(bars):
        ends = ranks[order[first]] - 0.04, ranks[order[last]] + 0.04
        height = 0.5 + 0.55 * level
        axes.plot(ends, [height, height], color=INK, linewidth=3.2, gid="alike",
                  solid_capstyle="butt")  # fmt: skip
    _draw_cd(axes, cd)
    _rank_axis(axes, k, n_rows)
    return figure


def curves(
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: str | None = None,
    *,
    log: bool = False,
    title: str = "",
    remark: str | None = None,
) -> Figure:
    """A line of y over x for each value of the column `by`, in a band of one standard error.

    If the column x has names in place of numbers, there are marks with error bars in place of
    lines. The names keep the order in which they occur.

    Args:
        frame: a row for each point. A column `<y>_error` has its standard error.
        log: whether the scale of x is logarithmic.
        title: title of the figure; empty: y by x.
        remark: a text below the title, such as the conventions of the measure.
    """
    check(frame, [name for name in (x, y, by) if name], "run the study first")
    groups = _groups(frame, by)
    height = max(4.2, 1.6 + 0.22 * len(groups))
    figure, (axes,) = draw.new_figure(7, height, 1, 1, title or f"{y} by {x}", remark)
    axes.set(xlabel=x, ylabel=y)
    if frame[x].dtype.kind in "iufb":
        band_alpha = min(0.15, 1 / len(groups))
        for points, look in groups:
            _draw_line(axes, points.sort_values(x, kind="stable"), x, y, look, band_alpha)
        if log:
            axes.set(xscale="log")
        elif frame[x].dtype.kind in "iu":
            axes.xaxis.set_major_locator(draw.whole_numbers())
    else:
        x_names = list(dict.fromkeys(frame[x]))
        for number, (points, look) in enumerate(groups):
            # The groups stand side by side, so that their error bars do not cover each other.
            shift = 0.12 * (number - (len(groups) - 1) / 2)
            places = [x_names.index(x_name) + shift for x_name in points[x]]
            _draw_marks(axes, places, points, y, look)
        _label_names(axes, x_names)
    axes.margins(y=0.08)
    if by is not None:  # the legend is beside the lines: many names do not fit below them
        figure.legend(loc="outside right center", title=by, frameon=False, fontsize=8.5,
                      title_fontsize=8.5, handlelength=2.6)  # fmt: skip
    return figure


def _groups(frame: pd.DataFrame, by: str | None) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """The points of each value of the column `by`, and the look of their line and marks."""
    named_groups: list[tuple[Any, pd.DataFrame]]
    if by is None:
        named_groups = [("", frame)]
    else:
        named_groups = list(frame.groupby(by, sort=False, observed=True))
    styles = _styles(len(named_groups))
    return [
        (points, {**style, "label": draw.literal(str(name)), "gid": str(name)})
        for (name, points), style in zip(named_groups, styles, strict=True)
    ]


def _draw_line(
    axes: Axes, points: pd.DataFrame, x: str, y: str, look: dict[str, Any], band_alpha: float
) -> None:
    """Draw a line, in a band of its errors if there are errors."""
    places = points[x].tolist()
    heights = points[y].to_numpy(np.float64)
    axes.plot(places, heights, **look)
    error = _errors(points, y)
    if error is not None:
        axes.fill_between(places, heights - error, heights + error, color=look["color"],
                          alpha=band_alpha, linewidth=0, gid=look["gid"])  # fmt: skip


def _draw_marks(
    axes: Axes, places: list[float], points: pd.DataFrame, y: str, look: dict[str, Any]
) -> None:
    """Draw marks with error bars; no line joins them, because nothing is between two names."""
    heights = points[y].to_numpy(np.float64)
    look = {**look, "linestyle": "none"}
    axes.errorbar(places, heights, yerr=_errors(points, y), capsize=2, elinewidth=1.0, **look)


def _errors(points: pd.DataFrame, y: str) -> F64 | None:
    """The errors of the points, 0 where an error is missing; None without a column of errors."""
    if f"{y}_error" not in points:
        return None
    return points[f"{y}_error"].fillna(0).to_numpy(np.float64)


def _label_names(axes: Axes, names: Sequence[str]) -> None:
    labels = [draw.literal(name) for name in names]
    if max(map(len, names)) > 60 // len(names):
        axes.set_xticks(range(len(names)), labels, rotation=30, ha="right")
    else:
        axes.set_xticks(range(len(names)), labels, rotation=0, ha="center")
    axes.margins(x=0.06)


def indistinguishable_runs(ranks: F64, cd: float) -> list[tuple[int, int]]:
    """The longest runs (first, last) of ascending mean ranks that are at most cd apart.

    >>> indistinguishable_runs(np.array([1.0, 2.0, 2.5, 4.0]), 1.6)
    [(0, 2), (2, 3)]
    """
    last = np.searchsorted(ranks, ranks + cd, side="right") - 1
    is_longest = np.diff(last, prepend=-1) > 0  # else it is within the run before
    return [
        (int(first), int(last[first]))
        for first in np.flatnonzero(is_longest)
        if last[first] > first
    ]


def _check_sizes(names: Sequence[str], figures: F64, p: F64 | None = None) -> int:
    k = len(names)
    if k < 2:
        raise DataError("nothing to draw: a comparison needs two or more rankers")
    if figures.shape != (k,) or (p is not None and p.shape != (k, k)):
        raise DataError(f"there are {k} names of rankers, and not as many figures")
    return k


def _draw_p(axes: Axes, x: int, y: int, p: float, row_is_better: bool) -> None:
    """Draw a cell; an arrow points to the better ranker, of its row or of its column."""
    text_style: dict[str, Any] = {"color": FAINT, "fontweight": "normal"}
    cell_colour = _NOT_SIGNIFICANT
    text = _p_text(p)
    if p < _SIGNIFICANT:
        cell_colour = [colour for level, colour in _LEVELS if p < level][-1]
        is_darkest = cell_colour == _LEVELS[-1][1]
        text_style = {"color": "white" if is_darkest else INK, "fontweight": "bold"}
        arrow = "←" if row_is_better else "↓"
        text = f"{arrow}\n{text}"
    axes.bar(x, 0.94, 0.94, y - 0.47, color=cell_colour, gid="p")
    axes.text(x, y, text, ha="center", va="center", fontsize=7.5, linespacing=0.95, **text_style)


def _p_text(p: float) -> str:
    """A p value in at most five characters; a dash if it is unknown."""
    if np.isnan(p):
        return "–"
    if p < 0.001:
        return "<.001"
    return f"{p:.3f}".lstrip("0")


def _draw_rank(axes: Axes, rank: float, row: float, name: str, on_the_left: bool, k: int) -> None:
    """Draw a line from the axis down to the ranker's row, and on to its name at the side."""
    side = 0.8 if on_the_left else k + 0.2
    label = f"{name}  {rank:.2f}" if on_the_left else f"{rank:.2f}  {name}"
    axes.plot([rank, rank, side], [0, row, row], color=FAINT, linewidth=0.8, gid=name)
    axes.annotate(
        label,
        (side, row),
        (-3 if on_the_left else 3, 0),
        textcoords="offset points",
        fontsize=8,
        va="center",
        ha="right" if on_the_left else "left",
        color=INK,
        annotation_clip=False,
    )


def _draw_cd(axes: Axes, cd: float) -> None:
    """Draw the length of the critical difference above the axis, from rank 1 on."""
    axes.annotate("", (1 + cd, -2.1), (1, -2.1), annotation_clip=False,
                  arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": INK,
                              "shrinkA": 0, "shrinkB": 0})  # fmt: skip
    axes.text(1 + cd / 2, -2.3, f"CD {cd:.2f}", ha="center", va="bottom", fontsize=8, color=INK)


def _rank_axis(axes: Axes, k: int, n_rows: float) -> None:
    axes.set(xlim=(0.8, k + 0.2), ylim=(n_rows, -2.9))
    axes.xaxis.set_ticks_position("top")
    axes.spines[:].set_visible(False)
    axes.spines["top"].set(visible=True, position=("data", 0))
    axes.set_xticks(range(1, k + 1))
    axes.set_yticks([])
    axes.grid(visible=False)


def _styles(n: int) -> list[dict[str, Any]]:
    """Styles of n lines: colour and mark differ; once all are used, the dashes differ, too."""
    styles = [
        {"color": colour, "marker": mark, "linestyle": dash, "markersize": 4.5, "linewidth": 1.4}
        for dash in _DASHES
        for colour, mark in zip(_COLOURS, _MARKS, strict=True)
    ]
    return list(islice(cycle(styles), n))
