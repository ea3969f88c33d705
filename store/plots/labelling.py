"""Plot a collection's labelling: rank intervals, growth of certainty, answers by annotator.

As in `store.plots.figures`, no global state of Matplotlib is changed, and marks or texts repeat the
meaning of colours. A function raises a DataError if the frame has no rows, or lacks a column.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from sortnet.core import F64
from sortnet.errors import DataError
from store.plots import drawing as draw
from store.plots.drawing import BLUE, FAINT, INK, LINES, check

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NAMED = 40  # the most items that are drawn with their names
ANNOTATORS = 20  # the most annotators that have a bar each
_POINTS = 200  # the most points of a band
LABEL_FIRST = "compare items first: sortnet label NAME"
_INTERVAL_TITLE = "How sure each rank is"
_INTERVAL_REMARK = "the 90 % interval of each rank; the mark is the rank itself"


def ranking_intervals(ranking: pd.DataFrame, *, most: int = NAMED) -> Figure:
    """Plot the rank of each item, and the interval that has the rank with a probability of 90 %.

    Up to `most` items are drawn one below the other with their names. More items are drawn as a
    band over the ranks; with more than 200 items, the band shows medians of neighbouring items.

    Args:
        ranking: the items of one group, with the columns `rank`, `id`, `low` and `high`.
        most: the most items that are drawn with their names.
    """
    check(ranking, ("rank", "id", "low", "high"), "add items first: sortnet items add")
    ordered = ranking.sort_values("rank")
    if len(ordered) > most:
        return _interval_band(ordered)
    return _intervals_of_named_items(ordered)


def _interval_band(ordered: pd.DataFrame) -> Figure:
    """Draw the intervals of many items as a band over the ranks, without the items' names."""
    rank = ordered["rank"].to_numpy()
    low = ordered["low"].to_numpy()
    high = ordered["high"].to_numpy()
    remark = _INTERVAL_REMARK
    n_items_a_point = -(-len(ordered) // _POINTS)  # rounded up
    if n_items_a_point > 1:
        rank = _medians(rank, n_items_a_point)
        low = _medians(low, n_items_a_point)
        high = _medians(high, n_items_a_point)
        remark = f"the 90 % interval of the ranks, medians of {n_items_a_point} items each"
    figure, axes = draw.one_panel(7.4, 4.6, _INTERVAL_TITLE, remark)
    axes.fill_between(rank, low, high, color=BLUE, alpha=0.25, linewidth=0, gid="interval")
    axes.plot(rank, low, color=BLUE, linewidth=0.8)
    axes.plot(rank, high, color=BLUE, linewidth=0.8)
    axes.plot(rank, rank, color=INK, linewidth=1.2, gid="rank")
    axes.set(xlabel="items, best first", ylabel="rank", xlim=(1, len(ordered)))
    axes.set_ylim(len(ordered), 1)
    return figure


def _intervals_of_named_items(ordered: pd.DataFrame) -> Figure:
    """Draw the interval of each item on a line with the item's name."""
    rank = ordered["rank"].to_numpy()
    low = ordered["low"].to_numpy()
    high = ordered["high"].to_numpy()
    height = 1.4 + 0.19 * max(len(ordered), 4)
    figure, axes = draw.one_panel(7.4, height, _INTERVAL_TITLE, _INTERVAL_REMARK)
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
    """Return the median of each `size` neighbouring values.

    The last median may be over fewer values.
    """
    starts = range(0, len(values), size)
    return np.array([np.median(values[start : start + size]) for start in starts])


def certainty_growth(fits: pd.DataFrame, *, goal: float | None = None) -> Figure:
    """Plot how the share of pairs in the right order grows with the number of answers.

    One line is the expected share, the other the share of the hold-out answers.

    Args:
        fits: a row for each fit, with the number of `answers` and both shares, `expected` and
            `holdout`. A share may be missing.
        goal: the share to reach, drawn as a line.
    """
    from matplotlib.ticker import PercentFormatter

    check(fits, ("answers", "expected", "holdout"), LABEL_FIRST)
    if len(fits) < 2:
        raise DataError("one fit is no growth: it takes more answers")
    remark = "share in the right order, by the number of answers"
    figure, axes = draw.one_panel(5.6, 3.7, "Growth of certainty", remark)
    # The lines look like the lines of training and validation data in the plots of a run.
    expected_line = ("expected", "expected", LINES["train"])
    holdout_line = ("holdout", "of the hold-out", LINES["vali"])
    for column, label, style in (expected_line, holdout_line):
        points = fits[fits[column].notna()]
        if len(points):
            values = points[column].astype("float64")
            axes.plot(points["answers"], values, label=label, gid=column, **style)
    if goal is not None:
        axes.axhline(goal, color=FAINT, linestyle=":", linewidth=1.4, label="goal", gid="goal")
    axes.set(xlabel="answers", ylabel="share")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.margins(y=0.1)
    draw.legend(figure, axes)
    return figure


def answers_by_annotator(annotators: pd.DataFrame, *, most: int = ANNOTATORS) -> Figure:
    """Plot the number of answers of each annotator as a bar, the highest number first.

    Args:
        annotators: a row for each annotator, with the columns `annotator` and `answers`.
        most: the most annotators with a bar each; all further annotators share one bar.
    """
    check(annotators, ("annotator", "answers"), LABEL_FIRST)
    ordered = annotators.sort_values("answers", ascending=False, kind="stable")
    all_counts = ordered["answers"].tolist()
    counts = all_counts[:most]
    other_counts = all_counts[most:]
    names = [draw.brief(name) for name in ordered["annotator"].head(most).astype(str)]
    if other_counts:
        names.append(f"{len(other_counts)} others")
        counts.append(sum(other_counts))
    rows = np.arange(len(counts))
    height = 1.3 + 0.24 * max(len(counts), 2)
    figure, axes = draw.one_panel(5.6, height, "Who answered how many")
    axes.barh(rows, counts, 0.7, color=BLUE)
    draw.label_bars(axes, rows, counts, [f"{n_answers:,}" for n_answers in counts], fontsize=7.5)
    draw.name_bars(axes, names)
    longest_bar = max(max(counts), 1)
    axes.set(xlabel="answers", xlim=(0, 1.15 * longest_bar))  # leaves space for the labels
    return figure


def calibration_curves(points: pd.DataFrame) -> Figure:
    """Plot how often judges are right, by the probability that they state.

    Args:
        points: a row for each judge and range of the probability, with the columns `judge`, `said`
            and `right`.
    """
    check(points, ("judge", "said", "right"), LABEL_FIRST)
    remark = "share of the preferred items that are right, by the stated probability"
    figure, axes = draw.one_panel(5.6, 3.7, "Stated probabilities", remark)
    axes.plot([0.5, 1], [0.5, 1], color=FAINT, linestyle=":", linewidth=1.4, label="as stated")
    for marker, (judge, curve) in zip(cycle("osD^v"), points.groupby("judge", sort=False)):
        axes.plot(curve["said"], curve["right"], marker=marker, label=draw.brief(str(judge)))
    axes.set(xlabel="stated", ylabel="right", xlim=(0.48, 1.02), ylim=(-0.02, 1.02))
    draw.legend(figure, axes)
    return figure
