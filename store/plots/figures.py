"""Draw figures of runs, collections and comparisons: a function takes a frame, returns a Figure.

A function raises a DataError if there is nothing to draw. `split` is `train` or `vali`.

Colour-blind readers can tell the colours apart; in grey print, markers, dashes and hatches differ.
No global state of Matplotlib is changed, and pyplot is not used. `figure.savefig(path)` writes a
file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import F64, SPLITS
from sortnet.errors import DataError
from sortnet.tables.values import date_text
from store.frames import OBSERVE_FIRST, after_the_first, counted_iterations, measure_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
BLUE = "#0072B2"
ORANGE = "#D55E00"
INK = "#222222"
FAINT = "#767676"
_COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_MARKS = "os^DvPX"
_DASHES = ("-", "--", "-.", ":")
PARTS = {"train": "training", "vali": "validation", "test": "test"}
NAMED = 40  # the most items of `ranking_intervals` that are drawn with their names
TRAIN_FIRST = "run an iteration first: sortnet train DATA --out MODEL"
LABEL_FIRST = "compare items first: sortnet label NAME"
SMALL = (4.2, 2.9)  # width and height in inches of a figure that is legible on a phone
_CHARACTERS_PER_INCH = 13  # of a title, about
_MOST_NAMES_BELOW = 4  # a legend of more names is beside the panel
_BAND_POINTS = 200  # the most points of a band


def new_figure(
    width: float, height: float, rows: int, columns: int, title: str, remark: str | None = None
) -> tuple[Figure, list[Axes]]:
    """Make a figure with rows and columns of panels.

    Args:
        width: width in inches.
        height: height in inches.
        rows: number of rows of panels.
        columns: number of columns of panels.
        title: title of the figure.
        remark: a text below the title.

    Returns the figure, and its panels row by row.
    """
    import textwrap

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)  # attaches itself to the figure, as pyplot would do with global state
    lines = textwrap.wrap(remark or "", int(width * _CHARACTERS_PER_INCH))
    figure.suptitle(literal("\n".join([title, *lines])), fontsize=10, color=INK)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8)
        axes.xaxis.label.set_fontsize(9)
        axes.yaxis.label.set_fontsize(9)
    return figure, panels


def curves(
    frame: pd.DataFrame,
    x: str,
    y: str,
    by: str | None = None,
    *,
    log: bool = False,
    percent: bool = False,
    title: str = "",
    remark: str | None = None,
    goal: float | None = None,
    size: tuple[float, float] = (7, 4.2),
) -> Figure:
    """Draw y over x as a line for each value of the column `by`, in a band of one standard error.

    If the column x has names in place of numbers, marks with error bars are drawn in place of
    lines. The names keep the order in which they occur.

    Args:
        frame: a row for each point. The column `<y>_error`, if there is one, has standard errors.
        x: name of the column with the horizontal positions.
        y: name of the column with the vertical positions. Points without a value are left out.
        by: name of the column whose values are groups of points. If None, all points are one group.
        log: whether the scale of x is logarithmic.
        percent: whether y is a share that is labelled in percent.
        title: title of the figure. If empty, the title is made of the names of y and x.
        remark: a text below the title, such as the conventions of the measure.
        goal: a value of y to reach, drawn as a line.
        size: width and height in inches.

    >>> import pandas as pd
    >>> points = pd.DataFrame({"pairs": [10, 20], "map": [0.5, 0.75]})
    >>> curves(points, "pairs", "map").get_suptitle()
    'map by pairs'
    """
    check(frame, [name for name in (x, y, by) if name], "run the study first")
    groups = [("", frame)] if by is None else list(frame.groupby(by, sort=False, observed=True))
    width, height = size
    height = max(height, 1.6 + 0.22 * len(groups))  # enough for the lines of the legend
    figure, (axes,) = new_figure(width, height, 1, 1, title or f"{y} by {x}", remark)
    axes.set(xlabel=literal(x), ylabel=literal(y))
    _draw_groups(axes, groups, x, y)
    if log:
        axes.set_xscale("log")
    if percent:
        _percent(axes)
    if goal is not None:
        axes.axhline(goal, color=FAINT, linestyle=":", linewidth=1.4, label="goal", gid="goal")
    axes.margins(y=0.1)
    if by is not None or goal is not None:
        _legend(figure, axes, title=literal(by or "") if len(groups) > _MOST_NAMES_BELOW else None)
    return figure


def label_dates(axes: Axes) -> None:
    """Label the x axis, which has days since 1970, by a few dates."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.xaxis.set_major_formatter(lambda days, position: date_text(round(days)))


def bars(
    names: Sequence[str],
    lengths: Sequence[float],
    labels: Sequence[str],
    *,
    title: str,
    xlabel: str,
    errors: Sequence[float] | None = None,
    remark: str | None = None,
    width: float = SMALL[0],
) -> Figure:
    """Draw a horizontal bar for each name, the first at the top, with a label at its end.

    Args:
        names: the names of the bars.
        lengths: the lengths of the bars.
        labels: the labels of the bars.
        title: title of the figure.
        xlabel: the meaning of the lengths.
        errors: the lengths of the error bars. If None, there are none.
        remark: a text below the title.
        width: width in inches.

    >>> bars(["ana"], [12], ["12"], title="Answers", xlabel="answers").axes[0].get_xlabel()
    'answers'
    """
    if not names:
        raise DataError("nothing to draw: there are no bars")
    height = 1.3 + 0.24 * max(len(names), 2)
    figure, (axes,) = new_figure(width, height, 1, 1, title, remark)
    rows = np.arange(len(names))
    axes.barh(rows, lengths, 0.7, color=BLUE, xerr=errors, ecolor=FAINT)
    ends = np.asarray(lengths, np.float64)
    if errors is not None:
        ends = ends + np.asarray(errors)
    for row, end, label in zip(rows, np.maximum(ends, 0), labels, strict=True):
        axes.annotate(label, xy=(end, row), xytext=(4, 0), textcoords="offset points",
                      fontsize=7.5, va="center", color=INK)  # fmt: skip
    axes.set_yticks(rows, [brief(name) for name in names], fontsize=7.5)
    axes.set_ylim(len(names) - 0.4, -0.6)
    space_for_labels = 0.1 + 0.03 * max(map(len, labels))
    axes.set_xlim(right=(1 + space_for_labels) * float(max(ends.max(), 1e-9)))
    axes.locator_params(axis="x", nbins=5)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(xlabel)
    return figure


def learning(iterations: pd.DataFrame) -> dict[str, Figure]:
    """Draw how a run learned: pairs kept, share of wrong comparisons, and RankQuality.

    Args:
        iterations: frame of `Run.iterations_frame`.

    Returns {title: figure} with a panel each, which have a line for each part.
    """
    frame, panels = _learning_panels(iterations)
    figures = {}
    for title, columns in panels.items():
        figure, (axes,) = new_figure(*SMALL, 1, 1, title)
        _draw_by_iteration(axes, frame, columns)
        _legend(figure, axes)
        figures[title] = figure
    return figures


def pair_growth(iterations: pd.DataFrame) -> Figure:
    """Draw the panels of `learning` beside each other.

    Args:
        iterations: frame of `Run.iterations_frame`. Its columns `tp` and `vp` are the numbers of
            training and of validation pairs that were kept so far.
    """
    frame, panels_of_columns = _learning_panels(iterations)
    figure, panels = new_figure(9.6, 3.4, 1, len(panels_of_columns), "How the run learned")
    for axes, (title, columns) in zip(panels, panels_of_columns.items(), strict=True):
        _draw_by_iteration(axes, frame, columns)
        axes.set_title(title, fontsize=9)
    _legend(figure, panels[0])
    return figure


def measures(iterations: pd.DataFrame, *, conventions: str | None = None) -> Figure:
    """Draw the measures by iteration, with a panel for each metric.

    Args:
        iterations: frame of `Run.iterations_frame`, with columns `<split>_<metric>`.
        conventions: the conventions of the measures, for the title. If None, the conventions of the
            frame's run.
    """
    check(iterations, ("iteration",), TRAIN_FIRST)
    names = measure_names(iterations)
    if not names:
        raise DataError(f"no measures to draw: {TRAIN_FIRST}")
    remark = conventions or iterations.attrs.get("conventions") or "conventions not given"
    figure, panels = _grid(len(names), 2, "Measures of the ranking", remark)
    for axes, name in zip(panels, names, strict=True):
        _draw_by_iteration(axes, iterations, {split: f"{split}_{name}" for split in SPLITS})
        axes.set_title(name, fontsize=9)
    _legend(figure, panels[0])
    return figure


def cycles(cycles: pd.DataFrame) -> Figure:
    """Draw the share of sampled triples that are cyclic, by iteration.

    Args:
        cycles: frame of `Run.cycles_frame`.
    """
    check(cycles, ("iteration", "split", "share", "sampled"), OBSERVE_FIRST)
    sampled = int(cycles["sampled"].max())
    frame = cycles.assign(part=cycles["split"].map(PARTS))
    remark = f"share of {sampled:,} sampled triples; tossing coins: 25 %"
    title = "Circles a before b before c before a"
    return curves(frame, "iteration", "share", "part", percent=True, title=title, remark=remark)


def margins(margins: pd.DataFrame, *, split: str = "vali", most: int = 6) -> Figure:
    """Draw histograms of the margins of pairs that the comparator got right, and got wrong.

    There is a panel for each of at most `most` iterations, spaced evenly.

    Args:
        margins: frame of `Run.margins_frame`.
        split: the split of the pairs.
        most: the most panels.
    """
    check(margins, ("iteration", "split", "outcome", "low", "high", "pairs"), OBSERVE_FIRST)
    frame = _of_split(margins, split)
    iterations = frame["iteration"].unique()
    positions = np.linspace(0, len(iterations) - 1, min(most, len(iterations)))
    chosen = iterations[np.unique(positions.round().astype(int))]
    title = f"Margins of compared {PARTS[split]} pairs with a known order"
    figure, panels = _grid(len(chosen), 3, title)
    for axes, iteration in zip(panels, chosen, strict=True):
        _draw_margins(axes, frame[frame["iteration"] == iteration])
        axes.set_title(f"iteration {iteration}", fontsize=9)
    _legend(figure, panels[0])
    return figure


def mistakes_by_rank(
    mistakes: pd.DataFrame, *, iteration: int | None = None, split: str = "vali"
) -> Figure:
    """Draw the share of compared pairs that were wrong, as a table by the two ranks of a pair.

    Args:
        mistakes: frame of `Run.mistakes_frame`.
        iteration: the iteration. If None, the kept iteration, and the last iteration if none was
            kept.
        split: the split of the pairs.

    Raises:
        DataError: on an unknown iteration.
    """
    check(mistakes, ("iteration", "split", "upper", "lower", "compared", "wrong"), OBSERVE_FIRST)
    frame = _of_split(mistakes, split)
    iterations = frame["iteration"].unique().tolist()
    if iteration is None:
        kept_iteration = mistakes.attrs.get("kept")
        iteration = kept_iteration if kept_iteration in iterations else iterations[-1]
    if iteration not in iterations:
        last = iterations[-1]
        raise DataError(f"no iteration {iteration} to draw; there are {iterations[0]} to {last}")
    table = frame[frame["iteration"] == iteration].pivot(index="upper", columns="lower")
    n_wrong = table["wrong"].fillna(0).to_numpy()
    n_compared = table["compared"].fillna(0).to_numpy()
    share = n_wrong / np.where(n_compared > 0, n_compared, np.nan)
    title = f"Mistakes by rank, {PARTS[split]}, iteration {iteration}"
    remark = "colour: share of the pairs compared that were wrong; figures: how many were"
    figure, (axes,) = new_figure(6.4, 5.4, 1, 1, title, remark)
    image = axes.imshow(share, cmap="Blues", vmin=0)
    figure.colorbar(image, ax=axes, format=_percent_format(), shrink=0.8)
    for row, column in np.argwhere(n_compared > 0):
        is_dark = share[row, column] > 0.55 * np.nanmax(share)
        axes.text(column, row, f"{n_wrong[row, column]:.0f}", ha="center", va="center",
                  fontsize=7.5, color="white" if is_dark else INK)  # fmt: skip
    axes.set_xticks(range(len(share)), list(table["wrong"].columns))
    axes.set_yticks(range(len(share)), list(table.index))
    axes.set(xlabel="rank of the lower document", ylabel="rank of the upper document")
    axes.grid(visible=False)
    return figure


def hard_queries(pairs: pd.DataFrame, *, top: int = 20) -> Figure:
    """Draw the `top` queries with the most mistakes from iteration 1 on, as bars.

    Iteration 0 sorts with random weights, so its mistakes tell nothing about a query.

    Args:
        pairs: frame of `Run.pairs_frame`.
        top: the number of queries.
    """
    check(pairs, ("split", "qid", "times", "first_wrong", "last_wrong"), TRAIN_FIRST)
    counted = after_the_first(pairs)
    if counted.empty:
        raise DataError("nothing to draw: no pair was wrong after iteration 0")
    worst = hardest_queries(counted).head(top)
    labels = [
        f"{n_times:,} × in {n_pairs:,} pairs, {PARTS[split]}"
        for split, n_times, n_pairs in zip(
            worst["split"], worst["times"], worst["pairs"], strict=True
        )
    ]
    return bars(
        worst["qid"].astype(str).tolist(),
        worst["times"].tolist(),
        labels,
        title=f"The {len(worst)} hardest queries",
        xlabel="times wrong, summed over the query's pairs",
        remark=counted_iterations(counted),
        width=6.4,
    )


def hardest_queries(counted: pd.DataFrame) -> pd.DataFrame:
    """Sum up the mistakes of each query, the query with the most mistakes first.

    Args:
        counted: the wrong pairs, as `store.frames.after_the_first` returns them.

    Returns a frame with the columns `split`, `qid`, `times`, the sum of `times` over the query's
    pairs, and `pairs`, the number of these pairs.
    """
    times_of_pairs = counted.groupby(["split", "qid"], observed=True)["times"]
    sums = times_of_pairs.agg(["sum", "size"])
    queries = sums.rename(columns={"sum": "times", "size": "pairs"})
    return queries.sort_values("times", ascending=False, kind="stable").reset_index()


def ranking_intervals(ranking: pd.DataFrame, *, most: int = NAMED) -> Figure:
    """Draw the rank of each item, and the interval that has the rank with a probability of 90 %.

    Up to `most` items are drawn one below the other with their names. More items are drawn as a
    band over the ranks; with more than 200 items, the band shows medians of neighbouring items.

    Args:
        ranking: the items of one group, with the columns `rank`, `id`, `low` and `high`.
        most: the most items that are drawn with their names.
    """
    check(ranking, ("rank", "id", "low", "high"), "add items first: sortnet items add")
    ordered = ranking.sort_values("rank")
    n_items = len(ordered)
    is_named = n_items <= most
    n_items_a_point = 1 if is_named else -(-n_items // _BAND_POINTS)  # rounded up
    points = np.arange(n_items) // n_items_a_point
    medians = ordered[["rank", "low", "high"]].groupby(points).median()
    rank, low, high = (medians[name].to_numpy() for name in ("rank", "low", "high"))
    remark = "90 % interval of each rank; a dot is the rank"
    if n_items_a_point > 1:
        remark = f"90 % interval, medians of {n_items_a_point} items each"
    height = 1.4 + 0.19 * max(n_items, 4) if is_named else SMALL[1]
    figure, (axes,) = new_figure(SMALL[0], height, 1, 1, "How sure each rank is", remark)
    if is_named:
        axes.hlines(rank, low, high, color=BLUE, linewidth=3.0, alpha=0.5, gid="interval")
        axes.plot(rank, rank, "o", color=INK, markersize=3.5, gid="rank")
        axes.set_yticks(rank, [brief(name) for name in ordered["id"].astype(str)], fontsize=7.5)
        axes.set(xlabel="rank", xlim=(0.5, float(high.max()) + 0.5), ylim=(n_items + 0.6, 0.4))
        axes.xaxis.set_major_locator(_whole_numbers())
        axes.grid(visible=False, axis="y")
    else:
        axes.fill_between(rank, low, high, color=BLUE, alpha=0.25, linewidth=0, gid="interval")
        axes.plot(rank, rank, color=INK, linewidth=1.2, gid="rank")
        axes.set(xlabel="items, best first", ylabel="rank", xlim=(1, n_items), ylim=(n_items, 1))
    return figure


def certainty_growth(fits: pd.DataFrame, *, goal: float | None = None) -> Figure:
    """Draw how the share of pairs in the right order grows with the number of answers.

    One line is the expected share, the other the share of the hold-out answers.

    Args:
        fits: a row for each fit, with the number of `answers` and both shares, `expected` and
            `holdout`. A share may be missing.
        goal: the share to reach, drawn as a line.
    """
    check(fits, ("answers", "expected", "holdout"), LABEL_FIRST)
    if len(fits) < 2:
        raise DataError("one fit is no growth: it takes more answers")
    lines = fits.rename(columns={"holdout": "hold-out predicted"})
    points = lines.melt("answers", ["expected", "hold-out predicted"], "line", "share")
    return curves(points.dropna(), "answers", "share", "line", percent=True, goal=goal,
                  title="Growth of certainty", size=SMALL)  # fmt: skip


def calibration_curves(points: pd.DataFrame) -> Figure:
    """Draw how often judges are right, by the probability that they state.

    Args:
        points: a row for each judge and range of the probability, with the columns `judge`,
            `stated` and `right`.
    """
    remark = "share of the preferred items that are right, by the stated probability"
    figure = curves(points, "stated", "right", "judge", title="Stated probabilities", remark=remark,
                    size=SMALL)  # fmt: skip
    (axes,) = figure.axes
    axes.plot([0.5, 1], [0.5, 1], color=FAINT, linestyle=":", linewidth=1.4)
    axes.set(xlim=(0.48, 1.02), ylim=(-0.02, 1.02))
    return figure


def simulation_figure(frame: pd.DataFrame, measures: Mapping[str, str], title: str) -> Figure:
    """Draw a panel for each measure, with a line and a standard error for each strategy.

    Args:
        frame: a row for each `strategy` and number of `questions`. Each measure has a column of its
            name, and a column `<measure>_se` with the standard errors.
        measures: {name of the measure: title of its panel}.
        title: title of the figure.
    """
    figure, panels = new_figure(3.4 * len(measures) + 1, 3.7, 1, len(measures), title)
    errors = {f"{measure}_se": f"{measure}_error" for measure in measures}
    groups = list(frame.rename(columns=errors).groupby("strategy", sort=False))
    for axes, (measure, measure_title) in zip(panels, measures.items(), strict=True):
        _draw_groups(axes, groups, "questions", measure)
        axes.set(xscale="log", xlabel="questions", ylabel=measure_title)
    _legend(figure, panels[0])
    return figure


def critical_difference_diagram(mean_ranks: ArrayLike, names: Sequence[str], cd: float) -> Figure:
    """Draw Demsar's diagram: a mark at each ranker's mean rank, the best ranker at the top.

    A bar joins rankers that do not differ significantly.

    Args:
        mean_ranks: (k,) mean ranks of k rankers, as `sortnet.lab.significance.friedman` returns
            them; 1 is the best.
        names: names of the k rankers.
        cd: the critical difference, see `sortnet.lab.significance.critical_difference`.
    """
    ranks = np.asarray(mean_ranks, dtype=np.float64)
    n_rankers = len(names)
    if n_rankers < 2 or ranks.shape != (n_rankers,):
        raise DataError(
            f"nothing to draw: {n_rankers} names of rankers and {ranks.size} mean ranks"
        )
    order = np.argsort(ranks, kind="stable")
    ordered = ranks[order]
    runs = indistinguishable_runs(ordered, cd)
    remark = f"a bar joins rankers that do not differ: closer than {cd:.2f}"
    height = 1.5 + 0.24 * n_rankers
    figure, (axes,) = new_figure(SMALL[0], height, 1, 1, "Mean ranks", remark)
    axes.plot(ordered, range(n_rankers), "o", color=BLUE, gid="ranks")
    for number, (first, last) in enumerate(runs, start=1):
        # Bars stand side by side, to the right of the last rank.
        x = n_rankers + 0.3 * number
        axes.plot([x, x], [first - 0.2, last + 0.2], color=INK, linewidth=3.2, gid="alike",
                  solid_capstyle="butt")  # fmt: skip
    labels = [f"{literal(names[ranker])}  {ranks[ranker]:.2f}" for ranker in order]
    axes.set_yticks(range(n_rankers), labels)
    axes.set_ylim(n_rankers - 0.4, -0.6)
    axes.set(xlabel="mean rank", xlim=(0.8, n_rankers + 0.3 * (len(runs) + 1)))
    axes.xaxis.set_major_locator(_whole_numbers())
    return figure


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


def check(frame: pd.DataFrame, columns: Sequence[str], next_step: str) -> None:
    """Raise a DataError if a frame lacks a column that is drawn, or has no rows."""
    missing = [name for name in columns if name not in frame]
    if missing:
        raise DataError(f"the frame has no column {str(missing[0])!r}, of which this plot is made")
    if frame.empty:
        raise DataError(f"nothing to draw, the frame has no rows: {next_step}")


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


def _grid(
    n_panels: int, most_in_row: int, title: str, remark: str | None = None
) -> tuple[Figure, list[Axes]]:
    """Make a figure with a number of panels, at most `most_in_row` in a row."""
    n_columns = min(n_panels, most_in_row)
    n_rows = -(-n_panels // n_columns)  # rounded up
    width = max(2.9 * n_columns, 5)
    figure, panels = new_figure(width, 1.4 + 2.2 * n_rows, n_rows, n_columns, title, remark)
    for surplus in panels[n_panels:]:  # the last row may have fewer panels than columns
        surplus.remove()
    return figure, panels[:n_panels]


def _draw_groups(axes: Axes, groups: Sequence[tuple[Any, pd.DataFrame]], x: str, y: str) -> None:
    """Draw a line for each group of points in a band of its errors, or marks if x has names."""
    x_names = None
    if groups[0][1][x].dtype.kind not in "iufb":  # neither numbers nor truth values
        x_names = list(dict.fromkeys(name for _, points in groups for name in points[x]))
        _label_names(axes, x_names)
    for number, (name, points) in enumerate(groups):
        style = _style(number, str(name))
        if x_names is None:
            points = points.sort_values(x, kind="stable")
            positions = points[x].to_numpy(np.float64)
            axes.plot(positions, points[y].to_numpy(np.float64), **style)
        else:
            # The groups stand side by side, so that their error bars do not cover each other.
            shift = 0.12 * (number - (len(groups) - 1) / 2)
            positions = np.array([x_names.index(value) + shift for value in points[x]])
            axes.plot(positions, points[y].to_numpy(np.float64), **{**style, "linestyle": "none"})
        if f"{y}_error" in points:
            error = points[f"{y}_error"].fillna(0)
            ends = (
                (points[y] - error).to_numpy(np.float64),
                (points[y] + error).to_numpy(np.float64),
            )
            if x_names is None:
                axes.fill_between(positions, *ends, color=style["color"], alpha=0.12, linewidth=0,
                                  gid=style["gid"])  # fmt: skip
            else:
                axes.vlines(positions, *ends, color=style["color"], linewidth=1.0)
    if x_names is None and groups[0][1][x].dtype.kind in "iu":
        axes.xaxis.set_major_locator(_whole_numbers())


def _style(number: int, name: str) -> dict[str, Any]:
    """Return the style of a line; the colours, marks and dashes of 28 lines tell them apart."""
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKS[number % len(_MARKS)],
        "linestyle": _DASHES[(number % len(_COLOURS) + number // len(_COLOURS)) % len(_DASHES)],
        "markersize": 4,
        "linewidth": 1.4,
        "label": literal(name),
        "gid": name,
    }


def _label_names(axes: Axes, names: Sequence[str]) -> None:
    """Label the horizontal axis with names, aslant if they do not fit beside each other."""
    n_characters_a_name = 60 // len(names)  # the axis is about 60 characters long
    is_aslant = max(len(str(name)) for name in names) > n_characters_a_name
    axes.set_xticks(
        range(len(names)),
        [brief(str(name)) for name in names],
        rotation=30 if is_aslant else 0,
        ha="right" if is_aslant else "center",
    )
    axes.margins(x=0.06)


def _learning_panels(
    iterations: pd.DataFrame,
) -> tuple[pd.DataFrame, dict[str, Mapping[str, str]]]:
    """Return a frame of iterations, and {title of a panel: {split: column}} of `learning`."""
    counts = [f"{name}_{split}" for name in ("comparisons", "miscompared") for split in SPLITS]
    check(iterations, ("iteration", "tp", "vp", *counts), TRAIN_FIRST)
    frame = iterations.copy()
    for split in SPLITS:
        compared = frame[f"comparisons_{split}"]
        has_compared = compared > 0  # without comparisons there is no share
        frame[f"wrong_{split}"] = frame[f"miscompared_{split}"] / compared.where(has_compared)
    panels: dict[str, Mapping[str, str]] = {
        "Pairs kept": {"train": "tp", "vali": "vp"},
        "Comparisons that were wrong": {split: f"wrong_{split}" for split in SPLITS},
    }
    for name in measure_names(iterations)[:1]:  # the RankQuality is the first measure
        panels[name] = {split: f"{split}_{name}" for split in SPLITS}
    return frame, panels


def _draw_by_iteration(axes: Axes, frame: pd.DataFrame, columns: Mapping[str, str]) -> None:
    """Draw a column for each split over the iterations, and mark the iteration that was kept.

    Args:
        axes: the panel.
        frame: the iterations; `attrs["kept"]` is the iteration whose comparator the run kept.
        columns: {split: column}; a column that the frame does not have is left out.
    """
    for number, (split, column) in enumerate(columns.items()):
        if column in frame:
            style = {**_style(number, PARTS[split]), "gid": column}
            axes.plot(frame["iteration"], frame[column].astype("float64"), **style)
    if any(column.startswith("wrong_") for column in columns.values()):
        _percent(axes)
    axes.margins(y=0.14)  # leaves space for the word that marks the kept iteration
    axes.set_xlabel("iteration")
    axes.xaxis.set_major_locator(_whole_numbers())
    kept_iteration = frame.attrs.get("kept")
    if kept_iteration is not None:
        axes.axvline(
            kept_iteration, color=FAINT, linestyle=":", linewidth=1.2, zorder=0, gid="kept"
        )
        # The word stands at the top of the panel, a few points to the right of the line.
        axes.annotate("kept", xy=(kept_iteration, 1), xycoords=axes.get_xaxis_transform(),
                      xytext=(4, -1), textcoords="offset points", fontsize=7.5, va="top",
                      color=FAINT)  # fmt: skip


def _draw_margins(axes: Axes, margins_of_iteration: pd.DataFrame) -> None:
    """Draw the histograms of an iteration's right and wrong pairs over each other."""
    styles: dict[str, dict[str, Any]] = {
        "right": {"color": BLUE, "fill": True, "alpha": 0.35},
        "wrong": {"color": ORANGE, "fill": False, "linewidth": 1.8},
    }
    for outcome, style in styles.items():
        bins = margins_of_iteration[margins_of_iteration["outcome"] == outcome]
        edges = np.arange(len(bins) + 1)  # all bins are drawn with the width 1
        axes.stairs(bins["pairs"], edges, label=outcome, gid=outcome, **style)
    low = bins["low"].to_numpy()  # the bins are the same for both outcomes
    # Each bin is twice as wide as the bin before. The lower bound of every fourth bin is written
    # below the axis, as a fraction.
    ticks = np.arange(1, len(low), 4)
    axes.set_xticks(ticks, [str(Fraction(low[tick])) for tick in ticks])
    axes.set(xlabel="|margin|", ylabel="pairs")


def _of_split(frame: pd.DataFrame, split: str) -> pd.DataFrame:
    """Return the rows of a split; raise a DataError if the frame has no such rows."""
    rows = frame[frame["split"] == split]
    if rows.empty:
        raise DataError(f"nothing to draw of {str(split)!r}; the frame has {', '.join(SPLITS)}")
    return rows


def _legend(figure: Figure, axes: Axes, title: str | None = None) -> None:
    """Put the legend below all panels, or beside them if it has many names."""
    handles, labels = axes.get_legend_handles_labels()
    is_below = len(labels) <= _MOST_NAMES_BELOW
    figure.legend(
        handles, labels, loc="outside lower center" if is_below else "outside right center",
        ncols=len(labels) if is_below else 1, title=title, frameon=False, fontsize=8.5,
        title_fontsize=8.5, handlelength=2.6,
    )  # fmt: skip


def _percent(axes: Axes) -> None:
    """Label the vertical axis, which has shares from 0 to 1, in percent."""
    axes.yaxis.set_major_formatter(_percent_format())


def _percent_format() -> Any:
    """Return a formatter that writes shares, 0 to 1, in percent."""
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda share, _: f"{100 * share:.3g} %")


def _whole_numbers() -> Any:
    """Return a locator that puts the ticks of an axis at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
