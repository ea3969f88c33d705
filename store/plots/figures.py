"""Plot a run: every function takes a frame and returns a Figure of Matplotlib.

A function raises a DataError if there is nothing to draw. `split` is `train` or `vali`.

Colour-blind readers can tell the colours apart; in grey print, markers, dashes and hatches differ.
No global state of Matplotlib is changed, and pyplot is not used. `figure.savefig(path)` writes a
file.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sortnet.core import SPLITS
from sortnet.errors import DataError
from store.frames import OBSERVE_FIRST, after_the_first, counted_iterations, measure_names
from store.plots import drawing as draw
from store.plots.drawing import BARS, INK, PARTS, check

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TRAIN_FIRST = "run an iteration first: sortnet train DATA --out MODEL"
# Sizes of the figure of `before_after`.
_FRAME_INCHES = 1.5  # height of title and axis
_RANK_INCHES = 0.2  # height of a rank
_FEWEST_RANKS = 4  # the figure is high enough for this number of ranks
_POINTS_PER_INCH = 72
_LABEL_POINTS = 9.5  # least distance of two labels, in points
_DARK_SHARE = 0.55  # a cell is dark if its value is above this share of the highest value


def pair_growth(iterations: pd.DataFrame) -> Figure:
    """Plot the number of learned pairs, new pairs and the share of wrong comparisons by iteration.

    Each panel has a line for the training part and a line for the validation part.

    Args:
        iterations: frame of `Run.iterations_frame`. Its columns `tp` and `vp` are the numbers of
            training and of validation pairs that were kept so far.
    """
    size_columns = {"train": "tp", "vali": "vp"}
    counts = [
        f"{name}_{split}" for name in ("new", "comparisons", "miscompared") for split in PARTS
    ]
    check(iterations, ("iteration", *size_columns.values(), *counts), TRAIN_FIRST)
    title = _title_of_pairs(iterations.attrs.get("pairs"))
    figure, panels = draw.new_figure(9.6, 3.6, rows=1, columns=3, title=title)
    size_panel, new_panel, wrong_panel = panels
    frame = iterations.copy()
    for split, size in size_columns.items():
        compared = frame[f"comparisons_{split}"]
        has_compared = compared > 0  # without comparisons there is no share
        frame[f"wrong_{split}"] = frame[f"miscompared_{split}"] / compared.where(has_compared)
        draw.line(size_panel, frame, size, split, f"{PARTS[split]} ({size.upper()})")
        draw.line(new_panel, frame, f"new_{split}", split, None)
        draw.line(wrong_panel, frame, f"wrong_{split}", split, None)
    size_panel.set_title("kept so far", fontsize=9)
    size_panel.set_ylabel("pairs")
    new_panel.set_title("new in the iteration", fontsize=9)
    new_panel.set_ylabel("pairs an iteration")
    wrong_panel.set_title("comparisons that were wrong", fontsize=9)
    wrong_panel.yaxis.set_major_formatter(draw.percent())
    for axes in panels:
        axes.margins(y=0.12)  # leaves space for the word that marks the kept iteration
        axes.set_ylim(bottom=0)
        draw.label_iterations(axes, iterations)
    draw.legend(figure, size_panel)
    return figure


def _title_of_pairs(strategy: str | None) -> str:
    """Return the title of `pair_growth`, which names the strategy that chose the pairs.

    Frames of older versions do not have the strategy.
    """
    if strategy is None:
        return "Pairs kept"
    if strategy == "wrong":
        return "Pairs the comparator got wrong"
    return f"Pairs learned from ({strategy})"


def measures(iterations: pd.DataFrame, *, conventions: str | None = None) -> Figure:
    """Plot the measures by iteration, with a panel for each metric.

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
    columns = 2 if len(names) in (2, 4) else 3  # two or four panels fill rows of two
    figure, panels = draw.grid(len(names), columns, "Measures of the ranking", remark)
    for axes, name in zip(panels, names, strict=True):
        for split in SPLITS:
            if f"{split}_{name}" in iterations:
                draw.line(axes, iterations, f"{split}_{name}", split, PARTS[split])
        axes.set_title(name, fontsize=9)
        axes.margins(y=0.12)
        draw.label_iterations(axes, iterations)
    draw.legend(figure, panels[0])
    return figure


def margins(margins: pd.DataFrame, *, split: str = "vali", most: int = 6) -> Figure:
    """Plot histograms of the margins of pairs that the comparator got right, and got wrong.

    There is a panel for each of at most `most` iterations: the first, the kept and the last
    iteration, and iterations spaced evenly between them.

    Args:
        margins: frame of `Run.margins_frame`.
        split: the split of the pairs.
        most: the most panels.
    """
    check(margins, ("iteration", "split", "outcome", "low", "high", "pairs"), OBSERVE_FIRST)
    frame = draw.of_split(margins, split)
    kept = margins.attrs.get("kept")
    chosen = draw.choose_iterations(frame["iteration"].unique().tolist(), kept, most)
    title = f"Margins of compared {PARTS[split]} pairs with a known order"
    n_columns = 3
    figure, panels = draw.grid(len(chosen), n_columns, title, share=True)
    for axes, iteration in zip(panels, chosen, strict=True):
        _margins_panel(axes, frame[frame["iteration"] == iteration])
        remark = " (kept)" if iteration == kept else ""
        axes.set_title(f"iteration {iteration}{remark}", fontsize=9)
        axes.set_xlabel("|margin|")
    for first_in_row in panels[::n_columns]:
        first_in_row.set_ylabel("pairs")
    draw.legend(figure, panels[0])
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
    frame = draw.of_split(mistakes, split)
    iteration = _iteration_to_draw(frame, iteration, mistakes.attrs.get("kept"))
    of_iteration = frame[frame["iteration"] == iteration]
    wrong_table = _table_by_ranks(of_iteration, "wrong")
    compared_table = _table_by_ranks(of_iteration, "compared")
    n_wrong = wrong_table.to_numpy()
    n_compared = compared_table.to_numpy()
    share = n_wrong / np.where(n_compared > 0, n_compared, np.nan)
    title = f"Mistakes by rank, {PARTS[split]}, iteration {iteration}"
    remark = "colour: share of the pairs compared that were wrong; figures: how many were"
    figure, axes = draw.one_panel(6.4, 5.4, title, remark)
    image = axes.imshow(share, cmap="Blues", vmin=0)
    figure.colorbar(image, ax=axes, format=draw.percent(), shrink=0.8)
    for row, column in np.argwhere(n_compared > 0):
        is_dark = share[row, column] > _DARK_SHARE * np.nanmax(share)
        text = draw.short(int(n_wrong[row, column]))
        axes.text(column, row, text, ha="center", va="center", fontsize=7.5,
                  color="white" if is_dark else INK)  # fmt: skip
    axes.set_xticks(range(len(wrong_table.columns)), list(wrong_table.columns), fontsize=8)
    axes.set_yticks(range(len(wrong_table.index)), list(wrong_table.index), fontsize=8)
    axes.set(xlabel="rank of the lower document", ylabel="rank of the upper document")
    axes.grid(visible=False)
    return figure


def _table_by_ranks(mistakes: pd.DataFrame, column: str) -> pd.DataFrame:
    """Arrange the numbers in a column as a table by the ranks of both documents of a pair.

    A row is a bin of the upper rank, and a column is a bin of the lower rank. Cells without pairs
    are 0.
    """
    return mistakes.pivot(index="upper", columns="lower", values=column).fillna(0)


def _iteration_to_draw(frame: pd.DataFrame, iteration: int | None, kept: int | None) -> int:
    """Return the given iteration; if it is None, the kept or else the last iteration of the frame.

    Raises:
        DataError: if the frame does not have the given iteration.
    """
    iterations: list[int] = frame["iteration"].unique().tolist()
    if iteration is None:
        return kept if kept in iterations else iterations[-1]
    if iteration not in iterations:
        raise DataError(
            f"no iteration {iteration} to draw; there are {iterations[0]} to {iterations[-1]}"
        )
    return iteration


def hard_queries(pairs: pd.DataFrame, *, top: int = 20) -> Figure:
    """Plot the `top` queries with the most mistakes from iteration 1 on, as bars.

    Iteration 0 sorts with random weights, so its mistakes tell nothing about a query.

    Args:
        pairs: frame of `Run.pairs_frame`.
        top: the number of queries.
    """
    check(pairs, ("split", "qid", "times", "first_wrong", "last_wrong"), TRAIN_FIRST)
    counted = after_the_first(pairs)
    if counted.empty:
        raise DataError("nothing to draw: no pair was wrong after iteration 0")
    worst = _queries_with_most_mistakes(counted, top)
    labels = [
        f"{_count(n_times, 'time')}, {_count(n_pairs, 'pair')}"
        for n_times, n_pairs in zip(worst["n_times"], worst["n_pairs"], strict=True)
    ]
    names = [draw.brief(name) for name in worst["qid"].astype(str)]
    height = 1.4 + 0.22 * max(len(names), 4)
    figure, axes = draw.one_panel(6.4, height, f"The {len(worst)} hardest queries")
    for split in SPLITS:
        of_split = worst[worst["split"] == split]
        if len(of_split):
            axes.barh(of_split.index, of_split["n_times"], 0.75, label=PARTS[split], **BARS[split])
    draw.label_bars(axes, worst.index, worst["n_times"], labels, fontsize=7)
    draw.name_bars(axes, names)
    iterations = counted_iterations(counted)
    # The label has two lines, because long names of queries leave too little space for one line.
    axes.set(xlabel=f"times wrong, summed over the query's pairs,\n{iterations}", ylabel="query")
    longest_bar = float(worst["n_times"].max())
    axes.set(xlim=(0, longest_bar * 1.25))  # leaves space for the labels at the right
    draw.legend(figure, axes)
    return figure


def _queries_with_most_mistakes(counted: pd.DataFrame, top: int) -> pd.DataFrame:
    """Select the `top` queries whose pairs were wrong most often, the worst query first.

    Args:
        counted: the wrong pairs, as `after_the_first` returns them.
        top: the number of queries.

    Returns a frame with the columns `split`, `qid`, `n_times`, which is the sum of `times` over the
    query's pairs, and `n_pairs`, the number of these pairs.
    """
    times_of_pairs = counted.groupby(["split", "qid"], observed=True)["times"]
    sums = times_of_pairs.agg(["sum", "size"])
    queries = sums.rename(columns={"sum": "n_times", "size": "n_pairs"})
    ordered = queries.sort_values("n_times", ascending=False, kind="stable")
    return ordered.head(top).reset_index()


def _count(number: int, noun: str) -> str:
    """Write a number with its noun, in the plural unless the number is 1."""
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {noun}s"


def cycles(cycles: pd.DataFrame) -> Figure:
    """Plot the share of sampled triples that are cyclic, by iteration.

    Args:
        cycles: frame of `Run.cycles_frame`.
    """
    check(cycles, ("iteration", "split", "share", "sampled"), OBSERVE_FIRST)
    sampled = int(cycles["sampled"].max())
    remark = f"share of {sampled:,} sampled triples; tossing coins: 25 %"
    figure, axes = draw.one_panel(5.6, 3.7, "Circles a before b before c before a", remark)
    for split in SPLITS:
        part = cycles[cycles["split"] == split]
        if len(part):
            draw.line(axes, part, "share", split, PARTS[split])
    axes.set_ylim(0, max(0.01, 1.15 * float(cycles["share"].max())))
    axes.set_ylabel("cyclic triples")
    axes.yaxis.set_major_formatter(draw.percent())
    draw.label_iterations(axes, cycles)
    draw.legend(figure, axes)
    return figure


def before_after(order: pd.DataFrame, *, top: int = 30) -> Figure:
    """Draw the documents of a query in two rankings; a line joins both ranks of a document.

    The style of a line shows the document's grade. Rank 1 is at the top.

    Args:
        order: frame of `store.frames.order_frame`.
        top: the number of documents to draw, the first of the ranking `after`.
    """
    check(order, ("document", "grade", "before", "after"), "give the rankings of a query")
    documents = order.sort_values("after").head(top)
    lowest_rank = int(documents[["before", "after"]].to_numpy().max())
    # The figure has the height of at most `2 * top` ranks. If a document comes from a lower rank,
    # the ranks are drawn closer to each other.
    height_in_ranks = max(min(lowest_rank, 2 * top), _FEWEST_RANKS)
    height = _FRAME_INCHES + _RANK_INCHES * height_in_ranks
    figure, axes = draw.one_panel(5.6, height, *_title_of_order(order, len(documents)))
    styles = draw.grade_styles(order["grade"].unique().tolist())
    for row in documents.to_dict("records"):
        ranks = [row["before"], row["after"]]
        axes.plot([0, 1], ranks, gid=str(row["document"]), **styles[row["grade"]])
    points_per_rank = _POINTS_PER_INCH * (height - _FRAME_INCHES) / lowest_rank
    _label_documents(axes, documents, points_per_rank)
    axes.set_xticks([0, 1], ["before", "after"])
    axes.set(ylabel="rank", xlim=(-0.08, 1.08))
    axes.set_ylim(lowest_rank + 0.7, 0.3)  # 0.7 ranks beyond the lowest rank and above rank 1
    axes.yaxis.set_major_locator(draw.whole_numbers())
    axes.grid(visible=False)
    if len(styles) > 1:
        for grade, style in styles.items():
            axes.plot([], [], label=f"grade {grade}", **style)  # a line for the legend only
        draw.legend(figure, axes)
    return figure


def _title_of_order(order: pd.DataFrame, n_drawn: int) -> tuple[str, str | None]:
    """Write the title of `before_after`, and a remark if only some documents are drawn.

    Args:
        order: the frame of the plot.
        n_drawn: the number of documents that are drawn.
    """
    title = "Before and after"
    if "qid" in order.attrs:
        title += f", query {draw.literal(str(order.attrs['qid']))}"
    if n_drawn == len(order):
        return title, None
    return title, f"the first {n_drawn} of {len(order)} documents"


def _label_documents(axes: Axes, documents: pd.DataFrame, points_per_rank: float) -> None:
    """Write the rank and the name of each document beside its rank `after`.

    A label that would cover the label above is moved down, and a line leads to it.
    """
    least_distance = _LABEL_POINTS / points_per_rank  # in ranks
    label_rank = 0.0  # vertical position of the last label, as a rank
    for row in documents.to_dict("records"):
        after = row["after"]
        label_rank = max(after, label_rank + least_distance)
        is_moved = label_rank != after
        label = f"{after}. {draw.brief(str(row['document']))}"
        points_right = 18 if is_moved else 8
        points_up = (after - label_rank) * points_per_rank
        axes.annotate(label, (1, after), textcoords="offset points",
                      xytext=(points_right, points_up), fontsize=7.5, va="center", color=INK,
                      arrowprops=draw.LEADER if is_moved else None)  # fmt: skip


def seconds(iterations: pd.DataFrame) -> Figure:
    """Plot the wall-clock seconds of sorting and training in each iteration, as bars.

    Args:
        iterations: frame of `Run.iterations_frame`.
    """
    check(iterations, ("iteration", "seconds_sort", "seconds_train"), TRAIN_FIRST)
    total = float(iterations[["seconds_sort", "seconds_train"]].sum().sum())
    remark = f"{total:,.1f} seconds in all"
    figure, axes = draw.one_panel(5.6, 3.7, "Time of an iteration", remark)
    number = iterations["iteration"].to_numpy()
    sort = iterations["seconds_sort"].fillna(0).to_numpy()
    train = iterations["seconds_train"].fillna(0).to_numpy()
    axes.bar(number, train, 0.7, label="training", **BARS["train"])
    axes.bar(number, sort, 0.7, bottom=train, label="sorting", **BARS["vali"])
    axes.set_ylabel("seconds")
    axes.margins(y=0.12)
    draw.label_iterations(axes, iterations)
    draw.legend(figure, axes)
    return figure


def _margins_panel(axes: Axes, margins_of_iteration: pd.DataFrame) -> None:
    """Draw the histograms of an iteration's right and wrong pairs over each other."""
    styles = {
        "right": {"color": draw.BLUE, "fill": True, "alpha": 0.35},
        "wrong": {"color": draw.ORANGE, "fill": False, "linewidth": 1.8},
    }
    for outcome, style in styles.items():
        bins = margins_of_iteration[margins_of_iteration["outcome"] == outcome]
        edges = np.arange(len(bins) + 1)  # all bins are drawn with the width 1
        axes.stairs(bins["pairs"], edges, label=outcome, gid=outcome, **style)  # type: ignore[arg-type]
    low = bins["low"].to_numpy()  # the bins are the same for both outcomes
    # Each bin is twice as wide as the bin before. The lower bound of every fourth bin is written
    # below the axis, as a fraction.
    ticks = np.arange(1, len(low), 4)
    axes.set_xticks(ticks, [str(Fraction(low[tick])) for tick in ticks])
