"""Plots that compare rankers: p values, mean ranks with a critical difference, curves of a study.

As in `store.plots.figures`, nothing is global, and what colour says is said without it too.
Fewer than two rankers, sizes that do not fit, or no point to draw are a DataError.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
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

# Darker is more certain. White text from the third on.
_LEVELS = ((0.05, "#cfe1f2"), (0.01, "#93c4de"), (0.001, "#2f7ebc"))
_NOT_SIGNIFICANT = "#f2f2f2"
_COLOURS = (draw.BLUE, draw.ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_DASHES = ("-", "--", ":", "-.")
_MARKS = "os^DvPX"


def p_value_matrix(p: ArrayLike, names: Sequence[str], means: ArrayLike) -> Figure:
    """The p value of each two rankers; where it is below .05 an arrow points to the better one.

    Args:
        p: (k, k) symmetric, such as `sortnet.lab.significance.as_matrix` gives; NaN where
            there is none.
        names: of the k rankers, from the top and from the left.
        means: (k,) the figures by which one is better than another; higher is better.
    """
    values, figures = np.asarray(p, dtype=np.float64), np.asarray(means, dtype=np.float64)
    k = _check_sizes(names, figures, values)
    labels = [f"{draw.literal(n)}  {m:.3f}" for n, m in zip(names, figures, strict=True)]
    side = 0.9 + 0.46 * k + 0.07 * max(map(len, labels))  # the cells are squares
    title = "p values of the differences between rankers"
    words = f"an arrow points to the better one where p < {_LEVELS[0][0]:g}"
    figure, (axes,) = draw.new_figure(max(side, 4.6), side, 1, 1, title, words)
    for i in range(1, k):
        for j in range(i):
            _draw_p(axes, j, i, values[i, j], figures[i] - figures[j])
    axes.set_xticks(range(k - 1), labels[:-1], fontsize=8, rotation=90)
    axes.set_yticks(range(1, k), labels[1:], fontsize=8)
    axes.set(xlim=(-0.5, k - 1.5), ylim=(k - 0.5, 0.5), aspect="equal")
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return figure


def critical_difference_diagram(mean_ranks: ArrayLike, names: Sequence[str], cd: float) -> Figure:
    """Demsar's diagram: rankers at their mean ranks; a bar joins those that do not differ.

    Args:
        mean_ranks: (k,) of `sortnet.lab.significance.friedman`, 1 the best.
        names: of the k rankers.
        cd: of `sortnet.lab.significance.critical_difference`.
    """
    ranks = np.asarray(mean_ranks, dtype=np.float64)
    k = _check_sizes(names, ranks)
    order = np.argsort(ranks, kind="stable")
    bars = alike(ranks[order], cd)
    top = 0.7 + 0.55 * len(bars)  # where the first name is, in rows below the axis
    rows = top + 0.5 + (k + 1) // 2
    words = "a bar joins rankers that do not differ significantly"
    figure, (axes,) = draw.new_figure(7.4, 1.4 + 0.23 * (rows + 1.5), 1, 1, "Mean ranks", words)
    for place, number in enumerate(order):
        left = place < (k + 1) // 2
        at = top + (place if left else k - 1 - place)
        _draw_rank(axes, ranks[number], at, draw.literal(names[number]), left, k)
    for level, (low, high) in enumerate(bars):
        ends = ranks[order[low]] - 0.04, ranks[order[high]] + 0.04
        axes.plot(ends, [0.5 + 0.55 * level] * 2, color=INK, linewidth=3.2, gid="alike",
                  solid_capstyle="butt")  # fmt: skip
    _draw_cd(axes, cd)
    _rank_axis(axes, k, rows)
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
    """A line of y over x for each value of a column, in a band of one standard error.

    Where x are names, marks with error bars in the names' order. The frame has a row for each
    point; the band is as wide as its column `<y>_error`, if it has one. `remark` is below the
    title, such as the conventions of the measure; `log` is the scale of x.
    """
    check(frame, [name for name in (x, y, by) if name], "run the study first")
    groups = [("", frame)] if by is None else list(frame.groupby(by, sort=False, observed=True))
    height = max(4.2, 1.6 + 0.22 * len(groups))
    faint = min(0.15, 1 / len(groups))
    figure, (axes,) = draw.new_figure(7, height, 1, 1, title or f"{y} by {x}", remark)
    names = None if frame[x].dtype.kind in "iufb" else list(dict.fromkeys(frame[x]))
    for k, ((name, points), style) in enumerate(zip(groups, _styles(len(groups)), strict=True)):
        label = {"label": draw.literal(str(name)), "gid": str(name)}
        if names is None:
            points = points.sort_values(x, kind="stable")
            at, band = points[x].tolist(), faint
        else:
            at = [names.index(one) + 0.12 * (k - (len(groups) - 1) / 2) for one in points[x]]
            band = None
        _draw_group(axes, at, points, y, style | label, band)
    axes.set(xlabel=x, ylabel=y, xscale="log" if log and names is None else "linear")
    if frame[x].dtype.kind in "iu" and not log:
        axes.xaxis.set_major_locator(draw.whole_numbers())
    if names is not None:
        long = max(map(len, names)) > 60 // len(names)
        axes.set_xticks(range(len(names)), [draw.literal(one) for one in names],
                        rotation=30 if long else 0, ha="right" if long else "center")  # fmt: skip
        axes.margins(x=0.06)
    axes.margins(y=0.08)
    if by is not None:  # beside the lines: the names of many rankers do not fit below them
        figure.legend(loc="outside right center", title=by, frameon=False, fontsize=8.5,
                      title_fontsize=8.5, handlelength=2.6)  # fmt: skip
    return figure


def _draw_group(
    axes: Axes, at: list[float], points: pd.DataFrame, y: str, look: dict[str, Any],
    band: float | None,
) -> None:  # fmt: skip
    """A line in a band that dark; None: marks with error bars, as between names is nothing."""
    middle, error = points[y].to_numpy(np.float64), None
    if f"{y}_error" in points:
        error = points[f"{y}_error"].fillna(0).to_numpy(np.float64)  # 0 where there is none
    if band is None:
        marks = look | {"linestyle": "none"}
        axes.errorbar(at, middle, yerr=error, capsize=2, elinewidth=1.0, **marks)
        return
    axes.plot(at, middle, **look)
    if error is not None:
        axes.fill_between(at, middle - error, middle + error, color=look["color"],
                          alpha=band, linewidth=0, gid=look["gid"])  # fmt: skip


def alike(ranks: F64, cd: float) -> list[tuple[int, int]]:
    """The longest runs of ascending mean ranks that are no further apart than cd: first and last.

    >>> alike(np.array([1.0, 2.0, 2.5, 4.0]), 1.6)
    [(0, 2), (2, 3)]
    """
    last = np.searchsorted(ranks, ranks + cd, side="right") - 1
    longest = np.diff(last, prepend=-1) > 0  # else within the one before
    return [(int(k), int(last[k])) for k in np.flatnonzero(longest) if last[k] > k]


def _check_sizes(names: Sequence[str], figures: F64, p: F64 | None = None) -> int:
    k = len(names)
    if k < 2:
        raise DataError("nothing to draw: a comparison needs two or more rankers")
    if figures.shape != (k,) or (p is not None and p.shape != (k, k)):
        raise DataError(f"there are {k} names of rankers, and not as many figures")
    return k


def _draw_p(axes: Axes, x: int, y: int, p: float, better: float) -> None:
    """A cell; `better` is by how much the ranker of the row is better than that of the column."""
    significant = bool(p < _LEVELS[0][0])
    passed = [colour for level, colour in _LEVELS if p < level] if significant else []
    colour = passed[-1] if passed else _LEVELS[0][1] if significant else _NOT_SIGNIFICANT
    axes.bar(x, 0.94, 0.94, y - 0.47, color=colour, gid="p")
    text = "–" if np.isnan(p) else "<.001" if p < 0.001 else f"{p:.3f}".lstrip("0")
    if significant:
        text = f"{'←' if better > 0 else '↓'}\n{text}"
    axes.text(x, y, text, ha="center", va="center", fontsize=7.5, linespacing=0.95,
              color="white" if len(passed) == len(_LEVELS) else INK if significant else FAINT,
              fontweight="bold" if significant else "normal")  # fmt: skip


def _draw_rank(axes: Axes, rank: float, row: float, name: str, left: bool, k: int) -> None:
    """A line from the axis down to the ranker's row, and there to its name at the side."""
    side = 0.8 if left else k + 0.2
    axes.plot([rank, rank, side], [0, row, row], color=FAINT, linewidth=0.8, gid=name)
    axes.annotate(
        f"{name}  {rank:.2f}" if left else f"{rank:.2f}  {name}", (side, row),
        (-3 if left else 3, 0), textcoords="offset points", fontsize=8, va="center",
        ha="right" if left else "left", color=INK, annotation_clip=False,
    )  # fmt: skip


def _draw_cd(axes: Axes, cd: float) -> None:
    """The critical difference as a measure above the axis, from rank 1."""
    axes.annotate("", (1 + cd, -2.1), (1, -2.1), annotation_clip=False,
                  arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "color": INK,
                              "shrinkA": 0, "shrinkB": 0})  # fmt: skip
    axes.text(1 + cd / 2, -2.3, f"CD {cd:.2f}", ha="center", va="bottom", fontsize=8, color=INK)


def _rank_axis(axes: Axes, k: int, rows: float) -> None:
    axes.set(xlim=(0.8, k + 0.2), ylim=(rows, -2.9))
    axes.xaxis.set_ticks_position("top")
    axes.spines[:].set_visible(False)
    axes.spines["top"].set(visible=True, position=("data", 0))
    axes.set_xticks(range(1, k + 1))
    axes.set_yticks([])
    axes.grid(visible=False)


def _styles(n: int) -> list[dict[str, Any]]:
    """Styles of n lines: colours and marks first, then dashes."""
    both = [
        {"color": colour, "marker": mark, "linestyle": dash, "markersize": 4.5, "linewidth": 1.4}
        for dash, (colour, mark) in product(_DASHES, zip(_COLOURS, _MARKS, strict=True))
    ]
    return [both[k % len(both)] for k in range(n)]
