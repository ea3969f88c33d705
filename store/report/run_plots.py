"""Draw the plots of a run's page, and describe them for people who do not see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pandas as pd

from sortnet.errors import DataError
from sortnet.files import rows_of
from store import Run
from store.frames import after_the_first, counted_iterations
from store.plots import figures
from store.report import iteration_table
from store.report.svg import Picture, picture


class Plot(NamedTuple):
    """A plot of the page.

    Attributes:
        function: the name of the function in `store.plots.figures` that draws the plot.
        frame_method: the name of the method of `Run` that returns the data of the plot.
        title: the title.
        caption: the caption.
        describe: a function that writes the alternative text of the plot from its data, which has
            one row or more. The tables of the page have all the figures.
    """

    function: str
    frame_method: str
    title: str
    caption: str
    describe: Callable[[pd.DataFrame], str]


def draw_plots(
    run: Run, pairs: pd.DataFrame, page_plots: Sequence[Plot]
) -> tuple[list[Picture], list[str]]:
    """Draw the plots for which the run has data.

    Args:
        run: the run.
        pairs: frame of `Run.pairs_frame`, which the page has read already.
        page_plots: the plots of the page.

    Returns:
        The pictures; and a line for each plot for which the run has no data.
    """
    pictures: list[Picture] = []
    notes: list[str] = []
    frames = {"pairs_frame": pairs}  # by method; a frame of several plots is read once
    for plot in page_plots:
        if plot.frame_method not in frames:
            frames[plot.frame_method] = getattr(run, plot.frame_method)()
        frame = frames[plot.frame_method]
        try:
            figure = getattr(figures, plot.function)(frame)
        except DataError as error:
            notes.append(f"{plot.title}: {error}")
        else:
            description = "" if frame.empty else plot.describe(frame)
            alt = f"{plot.title}. {description}"
            pictures.append(picture(plot.title, plot.caption, alt, figure))
    return pictures, notes


def _describe_pair_growth(iterations: pd.DataFrame) -> str:
    """Write the alternative text of the plot of pairs kept."""
    rows = rows_of(iterations)
    first = rows[0]
    last = rows[-1]
    first_wrong = iteration_table.wrong_share(first, "train")
    last_wrong = iteration_table.wrong_share(last, "train")
    return (
        f"TP: {first['tp']} to {last['tp']} pairs. VP: {first['vp']} to {last['vp']} pairs. "
        f"Wrong of the training comparisons: {first_wrong} to {last_wrong}."
    )


def _describe_measures(iterations: pd.DataFrame) -> str:
    """Write the alternative text of the plot of measures."""
    return f"Lines over {len(iterations)} iterations{_clause_about_kept(iterations)}."


def _describe_margins(margins: pd.DataFrame) -> str:
    """Write the alternative text of the plot of margins."""
    kept = _clause_about_kept(margins)
    return f"Histograms, an iteration each, of validation pairs{kept}."


def _describe_mistakes(mistakes: pd.DataFrame) -> str:
    """Write the alternative text of the plot of mistakes by rank."""
    return f"Heat map, of validation pairs{_clause_about_kept(mistakes)}."


def _describe_hard_queries(pairs: pd.DataFrame) -> str:
    """Write the alternative text of the plot of hard queries."""
    counted_pairs = after_the_first(pairs)
    times = counted_pairs.groupby(["split", "qid"], observed=True)["times"].sum().reset_index()
    worst = times.nlargest(1, "times").iloc[0].to_dict()
    return (
        f"Bars. The pairs of query {worst['qid']} were wrong {worst['times']} times "
        f"{counted_iterations(counted_pairs)}."
    )


def _describe_cycles(cycles: pd.DataFrame) -> str:
    """Write the alternative text of the plot of cycles."""
    share_of_cycles = cycles.iloc[-1].to_dict()["share"]
    return f"Lines; {share_of_cycles:.2%} of the validation triples in the last iteration."


def _describe_seconds(iterations: pd.DataFrame) -> str:
    """Write the alternative text of the plot of seconds."""
    n_seconds = float(iterations[["seconds_sort", "seconds_train"]].sum().sum())
    return f"Bars over {len(iterations)} iterations, {n_seconds:.1f} seconds in all."


def _clause_about_kept(frame: pd.DataFrame) -> str:
    """Name the kept iteration in a clause, or return an empty text if the frame names none."""
    kept = frame.attrs.get("kept")
    return "" if kept is None else f"; iteration {kept} was kept"


PLOTS = (
    Plot("pair_growth", "iterations_frame", "Pairs kept",
         "TP and VP are the training and validation pairs kept so far: those learned from, and "
         "those that sorting the validation queries compared; with --pairs wrong the mis-compared "
         "ones. A good run finds ever fewer new ones, and a falling share of its comparisons is "
         "wrong.",
         _describe_pair_growth),
    Plot("measures", "iterations_frame", "Measures",
         "Measures of the training and validation queries in every iteration; the best is marked, "
         "unless another ranker was kept.",
         _describe_measures),
    Plot("margins", "margins_frame", "Margins, right and wrong",
         "How confident the comparator was. Wrong pairs with a large margin are the most "
         "persistent ones: check their labels.",
         _describe_margins),
    Plot("mistakes_by_rank", "mistakes_frame", "Where in the ranking the mistakes are",
         "Mistakes in the upper left cost the most: they are at the top of the ranking.",
         _describe_mistakes),
    Plot("hard_queries", "pairs_frame", "Hard queries",
         "Each bar counts how often pairs of the query were wrong, from iteration 1 on: iteration "
         "0 sorts with random weights.",
         _describe_hard_queries),
    Plot("cycles", "cycles_frame", "Cycles",
         "A comparator need not be transitive: the share of cyclic triples.",
         _describe_cycles),
    Plot("seconds", "iterations_frame", "Seconds", "Wall-clock time of sorting and training.",
         _describe_seconds),
)  # fmt: skip
LABELLING_PLOTS = (
    Plot("measures", "iterations_frame", "Pairs in the right order",
         "Expected of all pairs, and of the hold-out questions, by the number of judgements.",
         _describe_measures),
    Plot("seconds", "iterations_frame", "Seconds", "Wall-clock time of a fit.",
         _describe_seconds),
)  # fmt: skip
