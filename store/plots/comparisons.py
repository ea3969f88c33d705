"""Draw comparisons of rankers: p values, mean ranks with a critical difference, curves of a study.

As in `store.plots.figures`, no global state of Matplotlib is changed, and marks or texts repeat the
meaning of colours. A function raises a DataError on fewer than two rankers, on arrays of different
lengths, and if there is nothing to draw.
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

# `dtype.kind` of columns of numbers: integers, unsigned integers, floats and booleans.
_WHOLE_NUMBERS = "iu"
_NUMBERS = _WHOLE_NUMBERS + "fb"
_SIGNIFICANT = 0.05
# (bound, colour of p values below the bound): the darker the colour, the more certain it is that
# two rankers differ.
_LEVELS = ((_SIGNIFICANT, "#cfe1f2"), (0.01, "#93c4de"), (0.001, "#2f7ebc"))
_NOT_SIGNIFICANT = "#f2f2f2"
_COLOURS = (draw.BLUE, draw.ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_DASHES = ("-", "--", ":", "-.")
_MARKS = "os^DvPX"
# Layout of the diagram of mean ranks. x is a mean rank. y is 0 at the axis of ranks and counts
# lines of text downwards: first the bars that join rankers, then the names. Above the axis, where y
# is negative, is the bar of the critical difference (CD).
_SIDE_MARGIN = 0.2  # distance between the first or last rank and the names
_FIRST_BAR_Y = 0.5
_BAR_DISTANCE = 0.55
_FIRST_NAME_Y = 0.7  # without bars
_CD_Y = -2.1
_CD_TEXT_Y = -2.3
_TOP_Y = -2.9
_BOTTOM_MARGIN = 0.5  # between the lowest name and the end of the diagram
_OVERHANG = 0.04  # a bar is longer than needed by this at both ends, and so covers the joined lines
_LINE_INCHES = 0.23  # height of a line of text
_LINES_ABOVE = 1.5  # space above the axis of ranks, in lines of text
_FRAME_INCHES = 1.4  # height of the title and the margins

_GROUP_DISTANCE = 0.12  # of the marks of two groups, where names are 1 apart


def p_value_matrix(p: ArrayLike, names: Sequence[str], means: ArrayLike) -> Figure:
    """Draw a table with the p value of each pair of rankers.

    In cells with a p value below .05, an arrow points to the better ranker.

    Args:
        p: symmetric (k, k) p values of k rankers, as `sortnet.lab.significance.as_matrix` returns
            them; NaN if a value is unknown.
        names: names of the k rankers, in the order of the rows and columns of p.
        means: (k,) the mean of the compared measure for each ranker; higher is better.
    """
    p_values = np.asarray(p, dtype=np.float64)
    mean_values = np.asarray(means, dtype=np.float64)
    n_rankers = _check_sizes(names, mean_values, p_values)
    labels = [
        f"{draw.literal(name)}  {mean:.3f}" for name, mean in zip(names, mean_values, strict=True)
    ]
    # Cells are squares, so the figure is a square, too. Its side is as long as all cells and the
    # longest label together.
    side = 0.9 + 0.46 * n_rankers + 0.07 * max(map(len, labels))
    title = "p values of the differences between rankers"
    remark = f"an arrow points to the better one where p < {_SIGNIFICANT:g}"
    figure, axes = draw.one_panel(max(side, 4.6), side, title, remark)
    # The matrix is symmetric, so only the cells below its diagonal are drawn.
    for row in range(1, n_rankers):
        for column in range(row):
            is_row_better = mean_values[row] > mean_values[column]
            _draw_p_cell(axes, column, row, p_values[row, column], is_row_better)
    axes.set_xticks(range(n_rankers - 1), labels[:-1], fontsize=8, rotation=90)
    axes.set_yticks(range(1, n_rankers), labels[1:], fontsize=8)
    axes.set(xlim=(-0.5, n_rankers - 1.5), ylim=(n_rankers - 0.5, 0.5), aspect="equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def critical_difference_diagram(mean_ranks: ArrayLike, names: Sequence[str], cd: float) -> Figure:
    """Draw Demsar's diagram: an axis of mean ranks with a line from each ranker's rank to its name.

    A bar joins rankers that do not differ significantly. The better half of the names is on the
    left of the diagram, the other half on the right. If the number of rankers is odd, the middle
    name is on the left.

    Args:
        mean_ranks: (k,) mean ranks of k rankers, as `sortnet.lab.significance.friedman` returns
            them; 1 is the best.
        names: names of the k rankers.
        cd: the critical difference, see `sortnet.lab.significance.critical_difference`.
    """
    ranks = np.asarray(mean_ranks, dtype=np.float64)
    n_rankers = _check_sizes(names, ranks)
    order = np.argsort(ranks, kind="stable")
    bars = indistinguishable_runs(ranks[order], cd)
    n_left = (n_rankers + 1) // 2
    first_name_y = _FIRST_NAME_Y + _BAR_DISTANCE * len(bars)
    bottom_y = first_name_y + _BOTTOM_MARGIN + n_left
    remark = "a bar joins rankers that do not differ significantly"
    height = _FRAME_INCHES + _LINE_INCHES * (bottom_y + _LINES_ABOVE)
    figure, axes = draw.one_panel(7.4, height, "Mean ranks", remark)
    for position, ranker in enumerate(order):
        is_left = position < n_left
        # On the left, the best ranker is at the top. On the right, the worst ranker is at the top.
        n_names_above = position if is_left else n_rankers - 1 - position
        y = first_name_y + n_names_above
        _draw_ranker(axes, ranks[ranker], y, draw.literal(names[ranker]), is_left, n_rankers)
    _draw_bars(axes, bars, ranks[order])
    _draw_critical_difference(axes, cd)
    _set_rank_axis(axes, n_rankers, bottom_y)
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
    """Draw y over x as a line for each value of the column `by`, in a band of one standard error.

    If the column x has names in place of numbers, marks with error bars are drawn in place of
    lines. The names keep the order in which they occur.

    Args:
        frame: a row for each point. The column `<y>_error`, if there is one, has standard errors.
        x: name of the column with the horizontal positions.
        y: name of the column with the vertical positions.
        by: name of the column whose values are groups of points. If None, all points are one group.
        log: whether the scale of x is logarithmic.
        title: title of the figure. If empty, the title is made of the names of y and x.
        remark: a text below the title, such as the conventions of the measure.
    """
    check(frame, [name for name in (x, y, by) if name], "run the study first")
    groups = _groups(frame, by)
    height = max(4.2, 1.6 + 0.22 * len(groups))  # in inches, enough for the lines of the legend
    figure, axes = draw.one_panel(7, height, title or f"{y} by {x}", remark)
    axes.set(xlabel=x, ylabel=y)
    kind = frame[x].dtype.kind
    if kind in _NUMBERS:
        _draw_lines(axes, groups, x, y)
        _scale_numbers(axes, log=log, are_whole=kind in _WHOLE_NUMBERS)
    else:
        x_names = list(dict.fromkeys(frame[x]))
        _draw_marks(axes, groups, x, y, x_names)
        _label_names(axes, x_names)
    axes.margins(y=0.08)
    if by is not None:  # the legend is beside the lines: many names do not fit below them
        figure.legend(loc="outside right center", title=by, frameon=False, fontsize=8.5,
                      title_fontsize=8.5, handlelength=2.6)  # fmt: skip
    return figure


def _groups(frame: pd.DataFrame, by: str | None) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """List the points of each value of the column `by`, with the style of their line or marks."""
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


def _draw_lines(
    axes: Axes, groups: Sequence[tuple[pd.DataFrame, dict[str, Any]]], x: str, y: str
) -> None:
    """Draw a line for each group, in a band of the points' standard errors if these are known."""
    band_alpha = min(0.15, 1 / len(groups))  # many bands lie over each other, so they are lighter
    for unsorted_points, style in groups:
        points = unsorted_points.sort_values(x, kind="stable")
        positions = points[x].tolist()
        heights = points[y].to_numpy(np.float64)
        axes.plot(positions, heights, **style)
        error = _standard_errors(points, y)
        if error is not None:
            axes.fill_between(positions, heights - error, heights + error, color=style["color"],
                              alpha=band_alpha, linewidth=0, gid=style["gid"])  # fmt: skip


def _draw_marks(
    axes: Axes,
    groups: Sequence[tuple[pd.DataFrame, dict[str, Any]]],
    x: str,
    y: str,
    x_names: Sequence[str],
) -> None:
    """Draw marks with error bars; no line joins marks, because no value is between two names."""
    middle = (len(groups) - 1) / 2
    for number, (points, style) in enumerate(groups):
        # The groups stand side by side, so that their error bars do not cover each other.
        shift = _GROUP_DISTANCE * (number - middle)
        positions = [x_names.index(x_name) + shift for x_name in points[x]]
        heights = points[y].to_numpy(np.float64)
        errors = _standard_errors(points, y)
        style_of_marks = {**style, "linestyle": "none"}
        axes.errorbar(positions, heights, yerr=errors, capsize=2, elinewidth=1.0, **style_of_marks)


def _standard_errors(points: pd.DataFrame, y: str) -> F64 | None:
    """Return the standard errors of the points from the column `<y>_error`; a missing error is 0.

    Return None if the frame has no such column.
    """
    column = f"{y}_error"
    if column not in points:
        return None
    return points[column].fillna(0).to_numpy(np.float64)


def _scale_numbers(axes: Axes, *, log: bool, are_whole: bool) -> None:
    """Make the horizontal axis logarithmic, or put its ticks at whole numbers only."""
    if log:
        axes.set(xscale="log")
    elif are_whole:
        axes.xaxis.set_major_locator(draw.whole_numbers())


def _label_names(axes: Axes, names: Sequence[str]) -> None:
    """Label the horizontal axis with names, aslant if they do not fit beside each other."""
    labels = [draw.literal(name) for name in names]
    n_characters_a_name = 60 // len(names)  # the axis is about 60 characters long
    if max(map(len, names)) > n_characters_a_name:
        axes.set_xticks(range(len(names)), labels, rotation=30, ha="right")
    else:
        axes.set_xticks(range(len(names)), labels, rotation=0, ha="center")
    axes.margins(x=0.06)


def indistinguishable_runs(ranks: F64, cd: float) -> list[tuple[int, int]]:
    """Find the longest series of neighbouring rankers whose mean ranks are at most `cd` apart.

    A series (first, last) is a range of positions in `ranks`, which are ascending mean ranks. It
    has at least two rankers, and no series is within another series.

    >>> indistinguishable_runs(np.array([1.0, 2.0, 2.5, 4.0]), 1.6)
    [(0, 2), (2, 3)]
    """
    # For each position, the last position of the series that begins at the position.
    last = np.searchsorted(ranks, ranks + cd, side="right") - 1
    # If two series end at the same position, the second series is a part of the first series.
    is_longest = np.diff(last, prepend=-1) > 0
    return [
        (int(first), int(last[first]))
        for first in np.flatnonzero(is_longest)
        if last[first] > first
    ]


def _check_sizes(names: Sequence[str], values: F64, p: F64 | None = None) -> int:
    """Return the number of rankers; raise a DataError if an array has another length."""
    n_rankers = len(names)
    if n_rankers < 2:
        raise DataError("nothing to draw: a comparison needs two or more rankers")
    are_p_wrong = p is not None and p.shape != (n_rankers, n_rankers)
    if values.shape != (n_rankers,) or are_p_wrong:
        raise DataError(f"there are {n_rankers} names of rankers, and not as many figures")
    return n_rankers


def _draw_p_cell(axes: Axes, column: int, row: int, p: float, is_row_better: bool) -> None:
    """Draw a cell of the table of p values: a coloured square with the value.

    If the p value is significant, an arrow points left to the name of the row's ranker, or down to
    the name of the column's ranker, whichever is better.
    """
    text_style: dict[str, Any] = {"color": FAINT, "fontweight": "normal"}
    cell_colour = _NOT_SIGNIFICANT
    text = _p_text(p)
    if p < _SIGNIFICANT:
        # The levels begin with the highest bound, so the last bound above p is the closest bound.
        cell_colour = [colour for bound, colour in _LEVELS if p < bound][-1]
        _, darkest_colour = _LEVELS[-1]
        text_colour = "white" if cell_colour == darkest_colour else INK
        text_style = {"color": text_colour, "fontweight": "bold"}
        arrow = "←" if is_row_better else "↓"
        text = f"{arrow}\n{text}"
    # Cells are 1 wide and high. Narrow gaps divide the squares.
    axes.bar(column, height=0.94, width=0.94, bottom=row - 0.47, color=cell_colour, gid="p")
    axes.text(
        column, row, text, ha="center", va="center", fontsize=7.5, linespacing=0.95, **text_style
    )


def _p_text(p: float) -> str:
    """Write a p value in at most five characters, or a dash if it is NaN."""
    if np.isnan(p):
        return "–"
    if p < 0.001:
        return "<.001"
    return f"{p:.3f}".lstrip("0")


def _draw_ranker(
    axes: Axes, rank: float, y: float, name: str, is_left: bool, n_rankers: int
) -> None:
    """Draw a ranker of the diagram of mean ranks: its name, and a line from its rank to the name.

    The line leads from the axis of ranks down to the height of the name, and then to the side.

    Args:
        axes: the diagram.
        rank: the mean rank of the ranker.
        y: the vertical position of the name.
        name: the name of the ranker.
        is_left: whether the name is on the left side of the diagram.
        n_rankers: the number of all rankers, which is the last rank of the axis.
    """
    if is_left:
        side_x = 1 - _SIDE_MARGIN
        label = f"{name}  {rank:.2f}"
        alignment = "right"
        points_to_label = -3
    else:
        side_x = n_rankers + _SIDE_MARGIN
        label = f"{rank:.2f}  {name}"
        alignment = "left"
        points_to_label = 3
    axes.plot([rank, rank, side_x], [0, y, y], color=FAINT, linewidth=0.8, gid=name)
    axes.annotate(
        label,
        xy=(side_x, y),
        xytext=(points_to_label, 0),
        textcoords="offset points",
        fontsize=8,
        va="center",
        ha=alignment,
        color=INK,
        annotation_clip=False,
    )


def _draw_bars(axes: Axes, bars: Sequence[tuple[int, int]], ranks: F64) -> None:
    """Draw the bars that join rankers which do not differ, one bar below the other.

    Args:
        axes: the diagram of mean ranks.
        bars: the positions of the first and the last ranker of each bar in `ranks`.
        ranks: the mean ranks of all rankers, ascending.
    """
    for bar, (first, last) in enumerate(bars):
        ends = (ranks[first] - _OVERHANG, ranks[last] + _OVERHANG)
        y = _FIRST_BAR_Y + _BAR_DISTANCE * bar
        axes.plot(ends, [y, y], color=INK, linewidth=3.2, gid="alike",
                  solid_capstyle="butt")  # fmt: skip


def _draw_critical_difference(axes: Axes, cd: float) -> None:
    """Draw a bar as long as the critical difference above the axis, beginning at rank 1."""
    axes.annotate("", xy=(1 + cd, _CD_Y), xytext=(1, _CD_Y), annotation_clip=False,
                  arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": INK,
                              "shrinkA": 0, "shrinkB": 0})  # fmt: skip
    axes.text(
        1 + cd / 2, _CD_TEXT_Y, f"CD {cd:.2f}", ha="center", va="bottom", fontsize=8, color=INK
    )


def _set_rank_axis(axes: Axes, n_rankers: int, bottom_y: float) -> None:
    """Set the limits of the diagram of mean ranks, and its axis with the ranks 1 to `n_rankers`."""
    axes.set(xlim=(1 - _SIDE_MARGIN, n_rankers + _SIDE_MARGIN), ylim=(bottom_y, _TOP_Y))
    axes.xaxis.set_ticks_position("top")
    axes.spines[:].set_visible(False)
    axes.spines["top"].set(visible=True, position=("data", 0))
    axes.set_xticks(range(1, n_rankers + 1))
    axes.set_yticks([])
    axes.grid(visible=False)


def _styles(n: int) -> list[dict[str, Any]]:
    """Return styles of n lines, whose colours, marks and dashes tell the lines apart.

    The first seven lines differ in colour and mark, and further lines also in their dashes.
    """
    styles = [
        {"color": colour, "marker": mark, "linestyle": dash, "markersize": 4.5, "linewidth": 1.4}
        for dash in _DASHES
        for colour, mark in zip(_COLOURS, _MARKS, strict=True)
    ]
    return list(islice(cycle(styles), n))
