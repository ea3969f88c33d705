"""Plots of a run: every function takes a frame and returns a matplotlib Figure.

It raises a DataError where there is nothing to draw. `split` is `train` or `vali`.

Colours are distinct for colour-blind readers; markers, dashes and hatches are distinct in grey
print. Nothing is global: no pyplot, no settings changed. `figure.savefig(path)` writes a file.
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


def pair_growth(iterations: pd.DataFrame) -> Figure:
    """The sizes of TP and VP after every iteration of `Run.iterations_frame`, and its new pairs.

    A third panel has the share of the comparisons that were wrong.
    """
    counts = [
        f"{name}_{split}" for name in ("new", "comparisons", "miscompared") for split in PARTS
    ]
    check(iterations, ("iteration", "tp", "vp", *counts), TRAIN_FIRST)
    pairs = iterations.attrs.get("pairs")
    title = {None: "Pairs kept", "wrong": "Pairs the comparator got wrong"}
    figure, (sizes, new, wrong) = draw.new_figure(
        9.6, 3.6, 1, 3, title.get(pairs, f"Pairs learned from ({pairs})")
    )
    shares = iterations.assign(
        **{
            f"wrong_{split}": iterations[f"miscompared_{split}"] / compared.where(compared > 0)
            for split in PARTS
            for compared in [iterations[f"comparisons_{split}"]]
        }
    )
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


def measures(iterations: pd.DataFrame, *, conventions: str | None = None) -> Figure:
    """A panel for each metric that `Run.iterations_frame` has columns of, `<split>_<metric>`.

    `conventions` of the measures are for the title; None: those of the frame's run.
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
    """Margins of pairs that the comparator got right, and wrong, of `Run.margins_frame`.

    One panel per iteration: the first, the kept one, the last, and others evenly between.
    """
    check(margins, ("iteration", "split", "outcome", "low", "high", "pairs"), OBSERVE_FIRST)
    frame = draw.of_split(margins, split)
    chosen = draw.some_of(frame["iteration"].unique().tolist(), margins.attrs.get("kept"), most)
    title = f"Margins of compared {PARTS[split]} pairs with a known order"
    figure, panels = draw.grid(len(chosen), 3, title, share=True)
    for axes, iteration in zip(panels, chosen, strict=True):
        one = frame[frame["iteration"] == iteration]
        _margins_panel(axes, one)
        kept = " (kept)" if iteration == margins.attrs.get("kept") else ""
        axes.set_title(f"iteration {iteration}{kept}", fontsize=9)
        axes.set(xlabel="|margin|", ylabel="pairs" if axes in panels[::3] else "")
    draw.legend(figure, panels[0])
    return figure


def mistakes_by_rank(
    mistakes: pd.DataFrame, *, iteration: int | None = None, split: str = "vali"
) -> Figure:
    """The share wrong of the pairs compared at two ranks, of `Run.mistakes_frame`.

    `iteration` None is the kept one, else the last; an unknown one is a DataError, too.
    """
    check(mistakes, ("iteration", "split", "upper", "lower", "compared", "wrong"), OBSERVE_FIRST)
    frame = draw.of_split(mistakes, split)
    known = frame["iteration"].unique().tolist()
    if iteration is None:
        kept = mistakes.attrs.get("kept")
        iteration = kept if kept in known else known[-1]
    if iteration not in known:
        raise DataError(f"no iteration {iteration} to draw; there are {known[0]} to {known[-1]}")
    one = frame[frame["iteration"] == iteration]
    wrong, compared = (
        one.pivot(index="upper", columns="lower", values=name).fillna(0)
        for name in ("wrong", "compared")
    )
    title = f"Mistakes by rank, {PARTS[split]}, iteration {iteration}"
    remark = "colour: share of the pairs compared that were wrong; figures: how many were"
    figure, (axes,) = draw.new_figure(6.4, 5.4, 1, 1, title, remark)
    made, missed = compared.to_numpy(), wrong.to_numpy()
    share = missed / np.where(made > 0, made, np.nan)
    image = axes.imshow(share, cmap="Blues", vmin=0)
    figure.colorbar(image, ax=axes, format=draw.percent(), shrink=0.8)
    for row, column in np.argwhere(made > 0):
        dark = share[row, column] > 0.55 * np.nanmax(share)
        axes.text(
            column, row, draw.short(int(missed[row, column])), ha="center", va="center",
            fontsize=7.5, color="white" if dark else INK,
        )  # fmt: skip
    axes.set_xticks(range(len(wrong.columns)), list(wrong.columns), fontsize=8)
    axes.set_yticks(range(len(wrong.index)), list(wrong.index), fontsize=8)
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
        f"{_counted(n_times, 'time')}, {_counted(n_pairs, 'pair')}"
        for n_times, n_pairs in zip(worst["sum"], worst["size"], strict=True)
    ]
    names = worst["qid"].astype(str).tolist()
    height = 1.4 + 0.22 * max(len(names), 4)
    figure, (axes,) = draw.new_figure(6.4, height, 1, 1, f"The {len(worst)} hardest queries")
    for split in SPLITS:
        of = worst[worst["split"] == split]
        if len(of):
            axes.barh(of.index, of["sum"], 0.75, label=PARTS[split], **BARS[split])
    for at, value, label in zip(worst.index, worst["sum"], labels, strict=True):
        axes.annotate(label, (value, at), (4, 0), textcoords="offset points", fontsize=7,
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


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cycles(cycles: pd.DataFrame) -> Figure:
    """The share of cyclic triples among the sampled ones, of `Run.cycles_frame`."""
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
    """A query's documents in two rankings, with their grades; lines that cross changed places.

    The frame is of `store.frames.order_frame`; `top` counts documents of the ranking after.
    """
    check(order, ("document", "grade", "before", "after"), "give the rankings of a query")
    shown = order.sort_values("after").head(top)
    query = f", query {draw.literal(str(order.attrs['qid']))}" if "qid" in order.attrs else ""
    more = f"the first {len(shown)} of {len(order)} documents" if len(shown) < len(order) else None
    lowest = int(shown[["before", "after"]].to_numpy().max())
    height = 1.5 + 0.2 * max(min(lowest, 2 * top), 4)
    figure, (axes,) = draw.new_figure(5.6, height, 1, 1, f"Before and after{query}", more)
    styles = draw.grade_styles(order["grade"].unique().tolist())
    at, per_rank = 0.0, 72 * (height - 1.5) / lowest  # points
    columns = (shown[name].tolist() for name in ("document", "grade", "before", "after"))
    for document, grade, before, after in zip(*columns, strict=True):
        axes.plot([0, 1], [before, after], gid=str(document), **styles[grade])
        at = max(after, at + 9.5 / per_rank)  # below the label above
        aside, leader = (8, None) if at == after else (18, draw.LEADER)
        label = f"{after}. {draw.brief(str(document))}"
        axes.annotate(label, (1, after), textcoords="offset points",
                      xytext=(aside, (after - at) * per_rank), fontsize=7.5, va="center",
                      color=INK, arrowprops=leader)  # fmt: skip
    axes.set_xticks([0, 1], ["before", "after"])
    axes.set(ylabel="rank", xlim=(-0.08, 1.08))
    axes.set_ylim(lowest + 0.7, 0.3)
    axes.yaxis.set_major_locator(draw.whole_numbers())
    axes.grid(visible=False)
    if len(styles) > 1:
        for grade, style in styles.items():
            axes.plot([], [], label=f"grade {grade}", **style)
        draw.legend(figure, axes)
    return figure


def seconds(iterations: pd.DataFrame) -> Figure:
    """Wall-clock seconds of every iteration of `Run.iterations_frame`: sorting and training."""
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


def _margins_panel(axes: Axes, one: pd.DataFrame) -> None:
    styles = {
        "right": {"color": draw.BLUE, "fill": True, "alpha": 0.35},
        "wrong": {"color": draw.ORANGE, "fill": False, "linewidth": 1.8},
    }
    for outcome, style in styles.items():
        part = one[one["outcome"] == outcome]
        axes.stairs(part["pairs"], np.arange(len(part) + 1), label=outcome, gid=outcome, **style)  # type: ignore[arg-type]
    low = part["low"].to_numpy()
    ticks = np.arange(1, len(low), 4)
    axes.set_xticks(ticks, [str(Fraction(low[tick])) for tick in ticks])
