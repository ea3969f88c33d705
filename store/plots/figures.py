"""Draw figures of runs, collections and comparisons: a function takes a frame, returns a Figure.

A function raises a DataError if there is nothing to draw.

Colour-blind readers can tell the colours apart; in grey print, markers, dashes and hatches differ.
No global state of Matplotlib is changed, and pyplot is not used. `figure.savefig(path)` writes a
file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core import SPLITS
from sortnet.errors import DataError
from sortnet.files import Record
from sortnet.tables.values import date_text
from store.frames import measure_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which colour-blind readers can tell apart.
BLUE = "#0072B2"
INK = "#222222"
FAINT = "#767676"
_COLOURS = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK)
_MARKS = "os^DvPX"
_DASHES = ("-", "--", "-.", ":")
PARTS = {"train": "training", "vali": "validation", "test": "test"}
NAMED = 40  # the most items of `ranking_intervals` that are drawn with their names
TRAIN_FIRST = "run an iteration first: sortnet train DATA --out MODEL"
LABEL_FIRST = "compare items first: sortnet label NAME"
SMALL = (4.2, 2.9)  # width and height in inches of a figure that is legible on a phone
_CHARACTERS_PER_INCH = 13  # characters in an inch of a title, about
_MOST_NAMES_BELOW = 4  # a legend of more names is beside the panel
_MOST_INTERVALS = 200  # the most intervals without names
_PANELS_PER_ROW = 3


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
) -> Figure:
    """Draw a horizontal bar for each name, the first at the top, with a label at its end.

    Args:
        names: the names of the bars.
        lengths: the lengths of the bars.
        labels: the labels of the bars.
        title: title of the figure.
        xlabel: the meaning of the lengths.
        errors: the lengths of the error bars. If None, there are none.

    >>> bars(["ana"], [12], ["12"], title="Answers", xlabel="answers").axes[0].get_xlabel()
    'answers'
    """
    if not names:
        raise DataError("nothing to draw: there are no bars")
    height = 1.3 + 0.24 * max(len(names), 2)
    figure, (axes,) = new_figure(SMALL[0], height, 1, 1, title)
    rows = range(len(names))
    drawn_bars = axes.barh(rows, lengths, 0.7, color=BLUE, xerr=errors, ecolor=FAINT)
    axes.bar_label(drawn_bars, labels, padding=4, fontsize=7.5, color=INK)
    axes.set_yticks(rows, [brief(name) for name in names], fontsize=7.5)
    axes.invert_yaxis()
    axes.margins(x=0.1 + 0.03 * max(map(len, labels)))  # leaves space for the labels
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
    return {
        title: _figure_by_iteration(frame, {"": columns}, title)
        for title, columns in panels.items()
    }


def pair_growth(iterations: pd.DataFrame) -> Figure:
    """Draw the panels of `learning` beside each other.

    Args:
        iterations: frame of `Run.iterations_frame`. Its columns `tp` and `vp` are the numbers of
            training and of validation pairs that were kept so far.
    """
    return _figure_by_iteration(*_learning_panels(iterations), "How the run learned")


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
    panels: dict[str, Mapping[str, str]] = {
        name: {split: f"{split}_{name}" for split in SPLITS} for name in names
    }
    remark = conventions or iterations.attrs.get("conventions") or "conventions not given"
    return _figure_by_iteration(iterations, panels, "Measures of the ranking", remark)


def ranking_intervals(ranking: pd.DataFrame) -> Figure:
    """Draw the rank of each item, and the interval that has the rank with a probability of 90 %.

    Up to 40 items have their names beside them. Of more than 200 items, every second, third or
    further item is drawn.

    Args:
        ranking: the items of one group, with the columns `rank`, `id`, `low` and `high`.
    """
    check(ranking, ("rank", "id", "low", "high"), "add items first: sortnet items add")
    n_items = len(ranking)
    is_named = n_items <= NAMED
    step = -(-n_items // _MOST_INTERVALS)  # rounded up
    drawn_items = ranking.sort_values("rank").iloc[::step]
    rank = drawn_items["rank"]
    remark = "90 % interval of each rank; a dot is the rank"
    if step > 1:
        remark = f"90 % interval of the rank, for one item of {step}; a dot is the rank"
    height = 1.4 + 0.19 * max(n_items, 4) if is_named else SMALL[1]
    figure, (axes,) = new_figure(SMALL[0], height, 1, 1, "How sure each rank is", remark)
    line_width, mark_size = (3.0, 3.5) if is_named else (1.5, 1.2)
    low, high = drawn_items["low"], drawn_items["high"]
    axes.hlines(rank, low, high, color=BLUE, linewidth=line_width, alpha=0.5, gid="interval")
    axes.plot(rank, rank, "o", color=INK, markersize=mark_size, gid="rank")
    axes.set(xlabel="rank", ylim=(n_items + 0.6, 0.4), xlim=(0.5, float(high.max()) + 0.5))
    axes.xaxis.set_major_locator(_whole_numbers())
    if is_named:
        axes.set_yticks(rank, [brief(name) for name in drawn_items["id"].astype(str)], fontsize=7.5)
        axes.grid(visible=False, axis="y")
    else:
        axes.set_ylabel("items, best first")
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
    """Draw the mean rank of each ranker in a bar as long as the critical difference, best first.

    Rankers whose bars do not overlap differ significantly.

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
    remark = f"rankers whose bars overlap do not differ: they are closer than {cd:.2f}"
    height = 1.5 + 0.24 * n_rankers
    figure, (axes,) = new_figure(SMALL[0], height, 1, 1, "Mean ranks", remark)
    rows = range(n_rankers)
    axes.errorbar(ranks[order], rows, xerr=cd / 2, fmt="o", color=BLUE, linewidth=2, gid="ranks")
    axes.set_yticks(rows, [f"{literal(names[ranker])}  {ranks[ranker]:.2f}" for ranker in order])
    axes.set(xlabel="mean rank", ylim=(n_rankers - 0.4, -0.6))
    return figure


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


def _draw_groups(axes: Axes, groups: Sequence[tuple[Any, pd.DataFrame]], x: str, y: str) -> None:
    """Draw a line for each group of points in a band of its errors, or marks if x has names."""
    if groups[0][1][x].dtype.kind not in "iufb":  # neither numbers nor truth values
        _draw_over_names(axes, groups, x, y)
        return
    for number, (name, points) in enumerate(groups):
        style = _style(number, str(name))
        ordered = points.sort_values(x, kind="stable")
        values = ordered[y].astype("float64")
        axes.plot(ordered[x], values, **style)
        if f"{y}_error" in ordered:
            error = ordered[f"{y}_error"].fillna(0)
            axes.fill_between(ordered[x], values - error, values + error, color=style["color"],
                              alpha=0.12, linewidth=0, gid=style["gid"])  # fmt: skip
    if groups[0][1][x].dtype.kind in "iu":
        axes.xaxis.set_major_locator(_whole_numbers())


def _draw_over_names(
    axes: Axes, groups: Sequence[tuple[Any, pd.DataFrame]], x: str, y: str
) -> None:
    """Draw marks with error bars, for each group of points, over the names in the column x."""
    names = list(dict.fromkeys(name for _, points in groups for name in points[x]))
    for number, (name, points) in enumerate(groups):
        # The groups stand side by side, so that their error bars do not cover each other.
        shift = 0.12 * (number - (len(groups) - 1) / 2)
        style = {**_style(number, str(name)), "linestyle": "none"}
        errors = points.get(f"{y}_error")
        axes.errorbar(points[x].map(names.index) + shift, points[y], errors, **style)
    labels = [brief(str(name)) for name in names]
    axes.set_xticks(range(len(names)), labels, rotation=20, ha="right")
    axes.margins(x=0.06)


def _style(number: int, name: str) -> Record:
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


def _learning_panels(
    iterations: pd.DataFrame,
) -> tuple[pd.DataFrame, dict[str, Mapping[str, str]]]:
    """Return a frame of iterations, and {title of a panel: {split: column}} of `learning`."""
    counts = [f"{name}_{split}" for name in ("comparisons", "miscompared") for split in SPLITS]
    check(iterations, ("iteration", "tp", "vp", *counts), TRAIN_FIRST)
    n_compared = {split: iterations[f"comparisons_{split}"] for split in SPLITS}
    shares = {
        # Without comparisons there is no share.
        f"wrong_{split}": iterations[f"miscompared_{split}"]
        / counts_of_split.where(counts_of_split > 0)
        for split, counts_of_split in n_compared.items()
    }
    panels: dict[str, Mapping[str, str]] = {
        "Pairs kept": {"train": "tp", "vali": "vp"},
        "Comparisons that were wrong": {split: f"wrong_{split}" for split in SPLITS},
    }
    for name in measure_names(iterations)[:1]:  # the RankQuality is the first measure
        panels[name] = {split: f"{split}_{name}" for split in SPLITS}
    return iterations.assign(**shares), panels


def _figure_by_iteration(
    frame: pd.DataFrame,
    panels: Mapping[str, Mapping[str, str]],
    title: str,
    remark: str | None = None,
) -> Figure:
    """Draw columns of a frame over the iterations, and mark the iteration that was kept.

    Args:
        frame: the iterations; `attrs["kept"]` is the iteration whose comparator the run kept.
        panels: {title of a panel: {split: column}}; a column that the frame does not have is left
            out.
        title: title of the figure.
        remark: a text below the title.
    """
    n_columns = min(len(panels), _PANELS_PER_ROW)
    n_rows = -(-len(panels) // n_columns)  # rounded up
    width, height = SMALL if len(panels) == 1 else (3.2 * n_columns, 0.9 + 2.5 * n_rows)
    figure, all_axes = new_figure(width, height, n_rows, n_columns, title, remark)
    kept_iteration = frame.attrs.get("kept")
    for axes, (panel_title, columns) in zip(all_axes, panels.items(), strict=False):
        for number, (split, column) in enumerate(columns.items()):
            if column in frame:
                style = {**_style(number, PARTS[split]), "gid": column}
                axes.plot(frame["iteration"], frame[column].astype("float64"), **style)
        axes.set_title(panel_title, fontsize=9)
        axes.set_xlabel("iteration")
        axes.xaxis.set_major_locator(_whole_numbers())
        if "wrong_train" in columns.values():
            _percent(axes)
        if kept_iteration is not None:
            axes.axvline(kept_iteration, color=FAINT, linestyle=":", linewidth=1.2, zorder=0,
                         label="kept", gid="kept")  # fmt: skip
    for surplus in all_axes[len(panels) :]:  # the last row may have fewer panels than columns
        surplus.remove()
    _legend(figure, all_axes[0])
    return figure


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
    from matplotlib.ticker import PercentFormatter

    axes.yaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=" %"))


def _whole_numbers() -> Any:
    """Return a locator that puts the ticks of an axis at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])
