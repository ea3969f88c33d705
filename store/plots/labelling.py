"""Plots of a collection's labelling: intervals of the ranking, growth of certainty, annotators.

As in `store.plots.figures`, nothing is global, and marks or texts repeat the meaning of colours.
A frame without rows, or without a column that is drawn, is a DataError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sortnet.core import F64
from sortnet.errors import DataError
from store.plots import drawing as draw
from store.plots.drawing import BLUE, FAINT, INK, LINES, check

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NAMED = 40  # items that are shown with their names, at most
ANNOTATORS = 20  # that have their own bar, at most
_POINTS = 200  # of a band, at most
LABEL_FIRST = "compare items first: sortnet label NAME"


def ranking_intervals(ranking: pd.DataFrame, *, most: int = NAMED) -> Figure:
    """The rank of each item, with the interval that contains it with a probability of 90 %.

    The frame has columns `rank`, `id`, `low` and `high`, of one group. Each of up to `most` items
    is named on its own line. The intervals of more items are a band over the ranks; the band of
    more than 200 items has medians of neighbours.
    """
    check(ranking, ("rank", "id", "low", "high"), "add items first: sortnet items add")
    ordered = ranking.sort_values("rank")
    rank, low, high = (ordered[name].to_numpy() for name in ("rank", "low", "high"))
    remark = "the 90 % interval of each rank; the mark is the rank itself"
    if len(ordered) > most:
        size = -(-len(ordered) // _POINTS)
        if size > 1:
            rank, low, high = (_medians(values, size) for values in (rank, low, high))
            remark = f"the 90 % interval of the ranks, medians of {size} items each"
        figure, (axes,) = draw.new_figure(7.4, 4.6, 1, 1, "How sure each rank is", remark)
        axes.fill_between(rank, low, high, color=BLUE, alpha=0.25, linewidth=0, gid="interval")
        axes.plot(rank, low, color=BLUE, linewidth=0.8)
        axes.plot(rank, high, color=BLUE, linewidth=0.8)
        axes.plot(rank, rank, color=INK, linewidth=1.2, gid="rank")
        axes.set(xlabel="items, best first", ylabel="rank", xlim=(1, len(ordered)))
        axes.set_ylim(len(ordered), 1)
        return figure
    height = 1.4 + 0.19 * max(len(ordered), 4)
    figure, (axes,) = draw.new_figure(7.4, height, 1, 1, "How sure each rank is", remark)
    axes.hlines(rank, low, high, color=BLUE, linewidth=3.0, alpha=0.5, gid="interval")
    axes.plot(rank, rank, "o", color=INK, markersize=3.5, gid="rank")
    names = [draw.brief(name) for name in ordered["id"].astype(str)]
    axes.set_yticks(rank, names, fontsize=7.5)
    axes.set(xlabel="rank", xlim=(0.5, float(high.max()) + 0.5))
    axes.set_ylim(len(ordered) + 0.6, 0.4)
    axes.xaxis.set_major_locator(draw.whole_numbers())
    axes.grid(visible=False, axis="y")
    return figure


def _medians(values: F64, size: int) -> F64:
    """The medians of `size` neighbours each; the last median may be of fewer values."""
    starts = range(0, len(values), size)
    return np.array([np.median(values[start : start + size]) for start in starts])


def certainty_growth(fits: pd.DataFrame, *, goal: float | None = None) -> Figure:
    """Lines over the number of answers: the share expected to be right, and of the hold-out.

    The frame has columns `answers`, `expected` and `holdout`, whose values may be missing; `goal`
    is the share of the goal.
    """
    from matplotlib.ticker import PercentFormatter

    check(fits, ("answers", "expected", "holdout"), LABEL_FIRST)
    if len(fits) < 2:
        raise DataError("one fit is no growth: it takes more answers")
    figure, (axes,) = draw.new_figure(
        5.6, 3.7, 1, 1, "Growth of certainty", "share in the right order, by the number of answers"
    )
    for column, split, label in (
        ("expected", "train", "expected"),
        ("holdout", "vali", "of the hold-out"),
    ):
        points = fits[fits[column].notna()]
        if len(points):
            values = points[column].astype("float64")
            axes.plot(points["answers"], values, label=label, gid=column, **LINES[split])
    if goal is not None:
        axes.axhline(goal, color=FAINT, linestyle=":", linewidth=1.4, label="goal", gid="goal")
    axes.set(xlabel="answers", ylabel="share")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.margins(y=0.1)
    draw.legend(figure, axes)
    return figure


def answers_by_annotator(annotators: pd.DataFrame, *, most: int = ANNOTATORS) -> Figure:
    """Bars of the numbers of answers that annotators gave, the most first.

    The frame has columns `annotator` and `answers`; annotators after the first `most` are one bar.
    """
    check(annotators, ("annotator", "answers"), LABEL_FIRST)
    ordered = annotators.sort_values("answers", ascending=False, kind="stable")
    names = [draw.brief(name) for name in ordered["annotator"].astype(str)][:most]
    all_counts = ordered["answers"].tolist()
    counts, other_counts = all_counts[:most], all_counts[most:]
    if other_counts:
        names.append(f"{len(other_counts)} others")
        counts.append(sum(other_counts))
    places = np.arange(len(counts))
    figure, (axes,) = draw.new_figure(
        5.6, 1.3 + 0.24 * max(len(counts), 2), 1, 1, "Who answered how many"
    )
    axes.barh(places, counts, 0.7, color=BLUE)
    for place, number in zip(places, counts, strict=True):
        axes.annotate(f"{number:,}", (number, place), (4, 0), textcoords="offset points",
                      fontsize=7.5, va="center", color=INK)  # fmt: skip
    axes.set_yticks(places, names, fontsize=7.5)
    axes.set(xlabel="answers", xlim=(0, 1.15 * max(max(counts), 1)))
    axes.set_ylim(len(counts) - 0.4, -0.6)
    axes.xaxis.set_major_locator(draw.whole_numbers())
    axes.grid(visible=False, axis="y")
    return figure
