"""`sortnet experiment simulate`: how many questions a good ranking takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.options import SEED, Real, Whole, files, json_option, output_option
from cli.output import progress, say
from cli.printing.results import Result, print_result, table_of_cells
from sortnet.errors import DataError
from sortnet.files import rows_of, write_file

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Budgets of the ASAP paper (half a trial, one, three), of features and of recorded votes.
_PAPER = (0.5, 1, 3)
_FEATURES = (25, 50, 100, 200, 400)
_FIGURES = ("spearman", "rmse", "ms")
_VOTES = (25, 50, 100, 200, 400, 800, 1600, 3200)
_USUAL = {
    "ids": ("default", "random", "quicksort", "merge-sort"),
    "features": ("default", "random", "merge-sort"),
    "votes": ("default", "random"),
}
_OF_TOP = ("top", "default", "random", "heapsort", "quicksort", "bubble")


@click.command("simulate", short_help="Simulate how many questions a good ranking takes.")
@click.option(
    "--protocol", type=click.Choice(list(_USUAL)), default="ids",
    help="Items without features, items with features, or recorded votes.",
)  # fmt: skip
@click.option("--items", "n", type=Whole(2, 10_000), default=20, metavar="N",
              help="Number of items.")  # fmt: skip
@click.option("--features", "d", type=Whole(1, 1000), default=5, metavar="D",
              help="Number of features.")  # fmt: skip
@click.option("--outside", type=Real(0, 1, max_open=True), default=0.0, metavar="SHARE",
              help="Share of the scores' variance that the features do not explain.")  # fmt: skip
@click.option("--top", type=Whole(0), default=0, metavar="K",
              help="Number of best items wanted; 0: all, in order.")  # fmt: skip
@click.option("--budget", "budgets", type=Whole(1), multiple=True, metavar="M",
              help="Evaluate the ranking after M questions; repeatable.")  # fmt: skip
@click.option("--strategy", "strategies", multiple=True, metavar="NAME",
              help="Strategy: default, top, sets-3 to sets-6, features, merge, bald, committee, "
              "closest, random, merge-sort, quicksort, heapsort, setwise-heapsort or bubble; "
              "repeatable.")  # fmt: skip
@click.option("--seeds", type=Whole(1), default=30,
              help="Number of repetitions, each with other true scores.")  # fmt: skip
@click.option("--seed", type=SEED, default=0, help="Random seed.")
@click.option("--jobs", type=Whole(1), default=1, help="Number of processes.")
@click.option("--votes", "votes_file", metavar="FILE", shell_complete=files,
              help="Table with two items and an answer per row (protocol votes).")  # fmt: skip
@click.option("--items-file", metavar="FILE", shell_complete=files,
              help="Table of the items (protocol votes).")  # fmt: skip
@click.option("--by", metavar="COLUMN", help="Column of the votes: each of its values is "
              "a separate collection, and the seeds use them in turn.")  # fmt: skip
@output_option("--plot", inputs=["votes_file", "items_file"], help="Plot to write: .png, .svg.")
@json_option
def simulate(
    protocol: str, n: int, d: int, outside: float, top: int, budgets: tuple[int, ...],
    strategies: tuple[str, ...], seeds: int, seed: int, jobs: int, votes_file: str | None,
    items_file: str | None, by: str | None, plot: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Simulate annotators, and show how good the ranking is by number of questions.

    All strategies get the same true scores, and one model is fitted to the answers of each.
    `default` is a session as in `sortnet label`, with hold-out questions and repeats.
    `merge-sort` and the other sorts sort repeatedly. The figures are means over the seeds with
    standard errors. With --top K the figure `top` is the share of the best K items that are ranked
    as such; `top` is a session with the goal 'top K', and heapsort, quicksort and bubble passes
    end when they have the first K. `sets-4` is a session that asks for the best and the worst of
    four items, and setwise-heapsort asks for the best of four.

    ids: true scores between 0 and 5, answers with noise 1.4865 (the protocol of the ASAP paper).
    features: scores that are linear in normal features. votes: questions are answered by the
    recorded votes of a file; the figure is the share of held-out pairs, a fifth of all, that are
    in the order of the majority. Text features are computed as in `sortnet items add`; numeric
    columns of the items' file are left out. --votes is read as `sortnet judgements import` reads
    its FILE, and needs no annotators.

    \b
    Examples:
      sortnet experiment simulate --seeds 100 --plot simulated.png
      sortnet experiment simulate --protocol features --items 100 --outside 0.2
      sortnet experiment simulate --items 50 --top 5
      sortnet experiment simulate --items 50 --strategy default --strategy sets-4
      sortnet experiment simulate --protocol votes --votes votes.tsv --items-file items.tsv
    """
    from sortnet.lab.simulated_annotators import simulate as run
    from sortnet.lab.simulated_annotators import summary

    if plot and Path(plot).suffix.lower() not in _KINDS:
        raise DataError(f"{plot}: plots are written as {', '.join(_KINDS)}")
    if top and protocol == "votes":
        raise click.UsageError("--top is for true scores, which the protocol votes has not")
    names = strategies or (_OF_TOP if top else _USUAL[protocol])
    with progress() as status:
        common: dict[str, Any] = {"seeds": seeds, "seed": seed, "jobs": jobs, "progress": status}
        if protocol == "votes":
            frame = _from_votes(votes_file, items_file, by, names, budgets, common)
        else:
            common |= {"n": n, "top": top} | (
                {"d": d, "outside": outside} if protocol == "features" else {}
            )
            results = run(names, budgets or _usual_budgets(protocol, n, names), **common)
            figures = ("top", *_FIGURES) if top else _FIGURES
            frame = summary(results, figures, ("strategy", "questions"))
    _show(frame, as_json)
    if plot:
        figure = drawn(frame, _title(protocol, n, d, outside, seeds))
        form = Path(plot).suffix.lower().removeprefix(".")
        write_file(plot, lambda path: figure.savefig(path, format=form))
        say(f"{plot}: the plot")


def _usual_budgets(protocol: str, n: int, names: tuple[str, ...]) -> tuple[int, ...]:
    from sortnet.lab.simulated_annotators import most_questions

    trial, most = n * (n - 1) / 2, most_questions(names, n)
    if protocol == "ids":
        budgets = (max(1, round(share * trial)) for share in _PAPER)
        return tuple(sorted({min(budget, most) for budget in budgets}))
    return tuple(m for m in _FEATURES if m <= most) or (most,)


def _from_votes(
    votes_file: str | None, items_file: str | None, by: str | None, names: tuple[str, ...],
    budgets: tuple[int, ...], common: dict[str, Any],
) -> pd.DataFrame:  # fmt: skip
    import numpy as np

    from cli.inputs.votes import read_votes
    from sortnet.items import describe, read_items
    from sortnet.lab.recorded_votes import simulate_votes
    from sortnet.lab.simulated_annotators import summary

    if votes_file is None or items_file is None:
        raise click.UsageError("the protocol votes needs --votes FILE and --items-file FILE")
    items = read_items(items_file, features=())
    known, group = read_votes(Path(votes_file), items, by)
    features = describe(items, progress=common["progress"]).features.astype("float64")
    some = len(known) // 2 if group is None else int(np.bincount(group).min()) // 2
    usual = budgets or tuple(m for m in _VOTES if m <= some) or (max(1, some),)
    results = simulate_votes(features, known, names, usual, group=group, **common)
    return summary(results, ("accuracy",), ("strategy", "questions"))


def _show(frame: pd.DataFrame, as_json: bool) -> None:
    from cli.lab.comparison import mean_text

    cells = frame[["strategy", "questions"]].astype(str)
    for name in _measures(frame):
        pairs = zip(frame[name], frame[f"{name}_se"], strict=True)
        cells[name] = [mean_text(mean, error) for mean, error in pairs]
    if "ms" in frame:
        cells["ms"] = frame["ms"].map("{:.1f}".format)
    table = table_of_cells(cells.columns.tolist(), cells.to_numpy().tolist())
    print_result(Result("simulated", rows_of(frame), text=[table]), as_json=as_json)


def _measures(frame: pd.DataFrame) -> list[str]:
    return [name for name in _LABELS if name in frame]


def _title(protocol: str, n: int, d: int, outside: float, seeds: int) -> str:
    times = f"{seeds} seeds" if seeds > 1 else "one seed"
    if protocol == "ids":
        return f"{n} items without features, {times}"
    if protocol == "votes":
        return f"Pairs predicted from recorded votes, {times}"
    share = f", {outside:.0%} of the variance not explained" if outside else ""
    return f"{n} items with {d} features{share}, {times}"


def drawn(frame: pd.DataFrame, title: str) -> Figure:
    """Draw one panel per measure: mean by questions with a 95 % interval, a line per strategy."""
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    from store.plots.drawing import legend, new_figure

    values = _measures(frame)
    figure, panels = new_figure(3.4 * len(values) + 1, 3.7, 1, len(values), title)
    for axes, value in zip(panels, values, strict=True):
        for number, (name, rows) in enumerate(frame.groupby("strategy", sort=False)):
            style = _STYLES[number % len(_STYLES)]
            x = rows["questions"]
            axes.plot(x, rows[value], label=name, markersize=4, linewidth=1.4, **style)
            axes.fill_between(
                x, rows[f"{value}_low"], rows[f"{value}_high"],
                color=style["color"], alpha=0.15, linewidth=0,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sorted(frame["questions"].unique())))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.set(xlabel="questions", ylabel=_LABELS[value])
    legend(figure, panels[0])
    return figure


_KINDS = (".png", ".svg", ".pdf")
_LABELS = {
    "top": "share of the best items found",
    "spearman": "Spearman, to the truth",
    "rmse": "RMSE of z-scores",
    "accuracy": "share of held-out pairs predicted",
}
# Palette of Okabe and Ito; markers and dashes keep the lines apart in grey print.
_STYLES: tuple[dict[str, Any], ...] = tuple(
    {"color": color, "marker": marker, "linestyle": dash}
    for color, marker, dash in (
        ("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", "-."),
        ("#CC79A7", "D", ":"), ("#222222", "v", "-"), ("#E69F00", "P", "--"),
        ("#56B4E9", "X", "-."), ("#767676", "*", ":"), ("#8C510A", "<", "-"),
    )
)  # fmt: skip
