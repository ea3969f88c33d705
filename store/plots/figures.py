"""Plots of a run: every function takes a frame and returns a matplotlib Figure.

A function raises a DataError if there is nothing to draw. `split` is `train` or `vali`.

Colours are distinct for colour-blind readers; markers, dashes and hatches are distinct in grey
print. Nothing is global: no pyplot, no settings changed. `figure.savefig(path)` writes a file.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
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
# Sizes of the picture of a ranking before and after.
_FRAME_INCHES = 1.5  # height of title and axis
_RANK_INCHES = 0.2  # height of a rank
_POINTS_PER_INCH = 72
_LABEL_POINTS = 9.5  # least distance of two labels


def pair_growth(iterations: pd.DataFrame) -> Figure:
    """The sizes of TP and VP, the new pairs and the share wrong, of every iteration.

    Args:
        iterations: frame of `Run.iterations_frame`.
    """
    counts = [
        f"{name}_{split}" for name in ("new", "comparisons", "miscompared") for split in PARTS
    ]
    check(iterations, ("iteration", "tp", "vp", *counts), TRAIN_FIRST)
    title = _title_of_pairs(iterations.attrs.get("pairs"))
    figure, (sizes, new, wrong) = draw.new_figure(9.6, 3.6, 1, 3, title)
    shares = iterations.copy()
    for split in PARTS:
        compared = iterations[f"comparisons_{split}"]
        miscompared = iterations[f"miscompared_{split}"]
        shares[f"wrong_{split}"] = miscompared / compared.where(compared > 0)
    for split, size in (("train", "tp"), ("vali", "vp")):
        draw.line(sizes, iterations, size, split, f"{PARTS[split]} ({size.upper()})")
        draw.line(new, iterations, f"new_{split}", split, None)
        draw.line(wrong, shares, f"wrong_{split}", split, None)
    sizes.set_title("kept so far", fontsize=9)
    sizes.set_ylabel("pairs")
    new.set_title("new in the iteration", fontsize=9)
    new.set_ylabel("pairs an iteration")
    wrong.set_title("comparisons that were wrong", fontsize=9)
    wrong.yaxis.set_major_formatter(draw.percent())
    for axes in (sizes, new, wrong):
        axes.margins(y=0.12)  # room for the word that marks the kept iteration
        axes.set_ylim(bottom=0)
        draw.by_iteration(axes, iterations)
    draw.legend(figure, sizes)
    return figure


def _title_of_pairs(strategy: str | None) -> str:
    """The title of `pair_growth`, by the strategy that chose the pairs, if it is known."""
    if strategy is None:
        return "Pairs kept"
    if strategy == "wrong":
        return "Pairs the comparator got wrong"
    return f"Pairs learned from ({strategy})"


def measures(iterations: pd.DataFrame, *, conventions: str | None = None) -> Figure:
    """A panel for each metric of `Run.iterations_frame`, whose columns are `<split>_<metric>`.

    `conventions` of the measures are for the title; None: the conventions of the frame's run.
    """
    check(iterations, ("iteration",), TRAIN_FIRST)
    names = measure_names(iterations)
    if not names:
        raise DataError(f"no measures to draw: {TRAIN_FIRST}")
    conventions = conventions or iterations.attrs.get("conventions") or "conventions not given"
    columns = 2 if len(names) in (2, 4) else 3
    figure, panels = draw.grid(len(names), columns, "Measures of the ranking", conventions)
    for axes, name in zip(panels, names, strict=True):
        for split in SPLITS:
            if f"{split}_{name}" in iterations:
                draw.line(axes, iterations, f"{split}_{name}", split, PARTS[split])
        axes.set_title(name, fontsize=9)
        axes.margins(y=0.12)
        draw.by_iteration(axes, iterations)
    draw.legend(figure, panels[0])
    return figure


def margins(margins: pd.DataFrame, *, split: str = "vali", most: int = 6) -> Figure:
    """Histograms of margins of `Run.margins_frame`: pairs that the comparator got right, and wrong.

    A panel for each of at most `most` iterations: the first, the kept and the last iteration, and
    iterations evenly between.
    """
    check(margins, ("iteration", "split", "outcome", "low", "high", "pairs"), OBSERVE_FIRST)
    frame = draw.of_split(margins, split)
    kept = margins.attrs.get("kept")
    chosen = draw.some_of(frame["iteration"].unique().tolist(), kept, most)
    title = f"Margins of compared {PARTS[split]} pairs with a known order"
    figure, panels = draw.grid(len(chosen), 3, title, share=True)
    for axes, iteration in zip(panels, chosen, strict=True):
        _margins_panel(axes, frame[frame["iteration"] == iteration])
        remark = " (kept)" if iteration == kept else ""
        axes.set_title(f"iteration {iteration}{remark}", fontsize=9)
        axes.set(xlabel="|margin|", ylabel="pairs" if axes in panels[::3] else "")
    draw.legend(figure, panels[0])
    return figure


def mistakes_by_rank(
    mistakes: pd.DataFrame, *, iteration: int | None = None, split: str = "vali"
) -> Figure:
    """The share of compared pairs that were wrong, by their two ranks, of `Run.mistakes_frame`.

    `iteration` None is the kept iteration, else the last; an unknown iteration is a DataError.
    """
    check(mistakes, ("iteration", "split", "upper", "lower", "compared", "wrong"), OBSERVE_FIRST)
    frame = draw.of_split(mistakes, split)
    numbers = frame["iteration"].unique().tolist()
    if iteration is None:
        kept = mistakes.attrs.get("kept")
        iteration = kept if kept in numbers else numbers[-1]
    if iteration not in numbers:
        raise DataError(
            f"no iteration {iteration} to draw; there are {numbers[0]} to {numbers[-1]}"
        )
    of_iteration = frame[frame["iteration"] == iteration]
    table_of = partial(of_iteration.pivot, index="upper", columns="lower")
    wrong_table = table_of(values="wrong").fillna(0)
    n_wrong = wrong_table.to_numpy()
    n_compared = table_of(values="compared").fillna(0).to_numpy()
    title = f"Mistakes by rank, {PARTS[split]}, iteration {iteration}"
    remark = "colour: share of the pairs compared that were wrong; figures: how many were"
    figure, (axes,) = draw.new_figure(6.4, 5.4, 1, 1, title, remark)
    share = n_wrong / np.where(n_compared > 0, n_compared, np.nan)
    image = axes.imshow(share, cmap="Blues", vmin=0)
    figure.colorbar(image, ax=axes, format=draw.percent(), shrink=0.8)
    for row, column in np.argwhere(n_compared > 0):
        is_dark = share[row, column] > 0.55 * np.nanmax(share)
        axes.text(
            column, row, draw.short(int(n_wrong[row, column])), ha="center", va="center",
            fontsize=7.5, color="white" if is_dark else INK,
        )  # fmt: skip
    axes.set_xticks(range(len(wrong_table.columns)), list(wrong_table.columns), fontsize=8)
    axes.set_yticks(range(len(wrong_table.index)), list(wrong_table.index), fontsize=8)
    axes.set(xlabel="rank of the lower document", ylabel="rank of the upper document")
    axes.grid(visible=False)
    return figure


def hard_queries(pairs: pd.DataFrame, *, top: int = 20) -> Figure:
    """The queries with the most mistakes from iteration 1 on, of `Run.pairs_frame`.

    Iteration 0 sorts with random weights: its mistakes say nothing about a query.
    """
    check(pairs, ("split", "qid", "times", "first_wrong", "last_wrong"), TRAIN_FIRST)
    counted = after_the_first(pairs)
    if counted.empty:
        raise DataError("nothing to draw: no pair was wrong after iteration 0")
    grouped = counted.groupby(["split", "qid"], observed=True)["times"].agg(["sum", "size"])
    worst = grouped.sort_values("sum", ascending=False, kind="stable").head(top).reset_index()
    labels = [
        f"{_count(n_times, 'time')}, {_count(n_pairs, 'pair')}"
        for n_times, n_pairs in zip(worst["sum"], worst["size"], strict=True)
    ]
    names = worst["qid"].astype(str).tolist()
    height = 1.4 + 0.22 * max(len(names), 4)
    figure, (axes,) = draw.new_figure(6.4, height, 1, 1, f"The {len(worst)} hardest queries")
    for split in SPLITS:
        of_part = worst[worst["split"] == split]
        if len(of_part):
            axes.barh(of_part.index, of_part["sum"], 0.75, label=PARTS[split], **BARS[split])
    for row, n_times, label in zip(worst.index, worst["sum"], labels, strict=True):
        axes.annotate(label, (n_times, row), (4, 0), textcoords="offset points", fontsize=7,
                      va="center", color=INK)  # fmt: skip
    axes.set_yticks(worst.index, [draw.brief(name) for name in names], fontsize=7.5)
    iterations = counted_iterations(counted)
    # Long names of queries leave no room for this label in a single line.
    axes.set(xlabel=f"times wrong, summed over the query's pairs,\n{iterations}", ylabel="query")
    axes.set(xlim=(0, float(worst["sum"].max()) * 1.25), ylim=(len(names) - 0.4, -0.6))
    axes.xaxis.set_major_locator(draw.whole_numbers())
    axes.grid(visible=False, axis="y")
    draw.legend(figure, axes)
    return figure


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def cycles(cycles: pd.DataFrame) -> Figure:
    """The share of the sampled triples that are cyclic, of `Run.cycles_frame`."""
    check(cycles, ("iteration", "split", "share", "sampled"), OBSERVE_FIRST)
    sampled = int(cycles["sampled"].max())
    remark = f"share of {sampled:,} sampled triples; tossing coins: 25 %"
    figure, (axes,) = draw.new_figure(
        5.6, 3.7, 1, 1, "Circles a before b before c before a", remark
    )
    for split in SPLITS:
        part = cycles[cycles["split"] == split]
        if len(part):
            draw.line(axes, part, "share", split, PARTS[split])
    axes.set_ylim(0, max(0.01, 1.15 * float(cycles["share"].max())))
    axes.set_ylabel("cyclic triples")
    axes.yaxis.set_major_formatter(draw.percent())
    draw.by_iteration(axes, cycles)
    draw.legend(figure, axes)
    return figure


def before_after(order: pd.DataFrame, *, top: int = 30) -> Figure:
    """The documents of a query in two rankings, with their grades, joined by lines.

    The frame is of `store.frames.order_frame`; `top` counts documents of the ranking after.
    """
    check(order, ("document", "grade", "before", "after"), "give the rankings of a query")
    documents = order.sort_values("after").head(top)
    title = "Before and after"
    if "qid" in order.attrs:
        title += f", query {draw.literal(str(order.attrs['qid']))}"
    remark = None
    if len(documents) < len(order):
        remark = f"the first {len(documents)} of {len(order)} documents"
    lowest_rank = int(documents[["before", "after"]].to_numpy().max())
    n_lines = max(min(lowest_rank, 2 * top), 4)
    height = _FRAME_INCHES + _RANK_INCHES * n_lines
    figure, (axes,) = draw.new_figure(5.6, height, 1, 1, title, remark)
    styles = draw.grade_styles(order["grade"].unique().tolist())
    points_per_rank = _POINTS_PER_INCH * (height - _FRAME_INCHES) / lowest_rank
    least_distance = _LABEL_POINTS / points_per_rank
    label_rank = 0.0  # where the label of the document above stands
    for row in documents.to_dict("records"):
        before, after = row["before"], row["after"]
        axes.plot([0, 1], [before, after], gid=str(row["document"]), **styles[row["grade"]])
        # A label that would cover the label above moves down, and a line leads to it.
        label_rank = max(after, label_rank + least_distance)
        is_moved = label_rank != after
        label = f"{after}. {draw.brief(str(row['document']))}"
        shift = (18 if is_moved else 8, (after - label_rank) * points_per_rank)
        axes.annotate(label, (1, after), textcoords="offset points", xytext=shift, fontsize=7.5,
                      va="center", color=INK,
                      arrowprops=draw.LEADER if is_moved else None)  # fmt: skip
    axes.set_xticks([0, 1], ["before", "after"])
    axes.set(ylabel="rank", xlim=(-0.08, 1.08))
    axes.set_ylim(lowest_rank + 0.7, 0.3)
    axes.yaxis.set_major_locator(draw.whole_numbers())
    axes.grid(visible=False)
    if len(styles) > 1:
        for grade, style in styles.items():
            axes.plot([], [], label=f"grade {grade}", **style)
        draw.legend(figure, axes)
    return figure


def seconds(iterations: pd.DataFrame) -> Figure:
    """Wall-clock seconds of sorting and training in each iteration of `Run.iterations_frame`."""
    check(iterations, ("iteration", "seconds_sort", "seconds_train"), TRAIN_FIRST)
    total = float(iterations[["seconds_sort", "seconds_train"]].sum().sum())
    remark = f"{total:,.1f} seconds in all"
    figure, (axes,) = draw.new_figure(5.6, 3.7, 1, 1, "Time of an iteration", remark)
    number = iterations["iteration"].to_numpy()
    sort = iterations["seconds_sort"].fillna(0).to_numpy()
    train = iterations["seconds_train"].fillna(0).to_numpy()
    axes.bar(number, train, 0.7, label="training", **BARS["train"])
    axes.bar(number, sort, 0.7, bottom=train, label="sorting", **BARS["vali"])
    axes.set_ylabel("seconds")
    axes.margins(y=0.12)
    draw.by_iteration(axes, iterations)
    draw.legend(figure, axes)
    return figure


def _margins_panel(axes: Axes, margins_of_iteration: pd.DataFrame) -> None:
    styles = {
        "right": {"color": draw.BLUE, "fill": True, "alpha": 0.35},
        "wrong": {"color": draw.ORANGE, "fill": False, "linewidth": 1.8},
    }
    for outcome, style in styles.items():
        bins = margins_of_iteration[margins_of_iteration["outcome"] == outcome]
        axes.stairs(bins["pairs"], np.arange(len(bins) + 1), label=outcome, gid=outcome, **style)  # type: ignore[arg-type]
    low = bins["low"].to_numpy()  # the same for both outcomes
    ticks = np.arange(1, len(low), 4)
    axes.set_xticks(ticks, [str(Fraction(low[tick])) for tick in ticks])
