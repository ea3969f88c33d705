"""`sortnet experiment simulate`: how many questions a good ranking takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import progress, say
from cli.options import SEED, Real, Whole, files, json_option, output_option
from cli.printing.results import Result, print_result, table_of_cells
from sortnet.errors import DataError
from sortnet.files import rows_of, write_file
from sortnet.messages import count

if TYPE_CHECKING:
    import pandas as pd

# {protocol: strategies that are simulated if the user names none}
_USUAL = {
    "ids": ("default", "random", "quicksort", "merge-sort"),
    "features": ("default", "random", "merge-sort"),
    "votes": ("default", "random"),
}
# Strategies that are simulated with --top if the user names none.
_USUAL_OF_TOP = ("top", "default", "random", "heapsort", "quicksort", "bubble")
_PLOT_SUFFIXES = (".png", ".svg", ".pdf")
# {measure: its title in the plot}
_TITLES = {
    "top": "share of the best items found",
    "spearman": "Spearman, to the truth",
    "rmse": "RMSE of z-scores",
    "accuracy": "share of held-out pairs predicted",
}


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
              help="Strategy: default, informative, random, top, sets-3 to sets-6, merge-sort, "
              "quicksort, heapsort, setwise-heapsort or bubble; repeatable.")  # fmt: skip
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
    protocol: str, strategies: tuple[str, ...], budgets: tuple[int, ...], top: int, seeds: int,
    seed: int, jobs: int, n: int, d: int, outside: float, votes_file: str | None,
    items_file: str | None, by: str | None, plot: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Simulate annotators, and show how good the ranking is by number of questions.

    All strategies get the same true scores, and one model is fitted to the answers of each.
    `default` is a session as in `sortnet label`, with hold-out questions and repeats; `merge-sort`
    and the other sorts sort repeatedly; `sets-4` asks for the best and the worst of four items,
    setwise-heapsort for the best of four. With --top K the figure `top` is the share of the best K
    items that are ranked among the first K, and the strategy `top` has the goal 'top K'. The
    figures are means over the seeds with standard errors.

    ids: true scores between 0 and 5, answers with noise 1.4865 (the protocol of the ASAP paper).
    features: scores that are linear in normal features. votes: questions are answered by the
    recorded votes of a file; the figure is the share of held-out pairs, a fifth of all, that are in
    the order of the majority. --votes is read as by `sortnet judgements import`, and the texts of
    --items-file as by `sortnet items add`. Sorts and `top` are for true scores only.

    \b
    Examples:
      sortnet experiment simulate --seeds 100 --plot simulated.png
      sortnet experiment simulate --protocol features --items 100 --outside 0.2
      sortnet experiment simulate --items 50 --top 5
      sortnet experiment simulate --items 50 --strategy default --strategy sets-4
      sortnet experiment simulate --protocol votes --votes votes.tsv --items-file items.tsv
    """
    from sortnet.lab import simulated_annotators as annotators
    from sortnet.lab.summaries import mean_texts

    if plot and Path(plot).suffix.lower() not in _PLOT_SUFFIXES:
        raise DataError(f"{plot}: plots are written as {', '.join(_PLOT_SUFFIXES)}")
    if top and protocol == "votes":
        raise click.UsageError("--top is for true scores, which the protocol votes has not")
    strategies = strategies or (_USUAL_OF_TOP if top else _USUAL[protocol])
    title = f"Protocol {protocol}, {count(seeds, 'seed')}"
    with progress() as status:
        common: dict[str, Any] = {"seeds": seeds, "seed": seed, "jobs": jobs, "progress": status}
        if protocol == "votes":
            results = _by_votes(votes_file, items_file, by, strategies, budgets, common)
        else:
            title += f", {n} items"
            features: dict[str, Any] = (
                {"d": d, "outside": outside} if protocol == "features" else {}
            )
            results = annotators.simulate(strategies, budgets, n=n, top=top, **features, **common)
    titles = {name: text for name, text in _TITLES.items() if name in results}
    frame = annotators.summary(results, [*titles, "ms"], ("strategy", "questions"))
    cells = frame[["strategy", "questions"]].astype(str)
    for name in titles:
        cells[name] = mean_texts(frame[name], frame[f"{name}_se"])
    cells["ms"] = frame["ms"].map("{:.1f}".format)
    table = table_of_cells(cells.columns.tolist(), cells.to_numpy().tolist())
    print_result(Result("simulated", rows_of(frame), text=[table]), as_json=as_json)
    if plot:
        from store.plots.figures import simulation_figure

        figure = simulation_figure(frame, titles, title)
        file_format = Path(plot).suffix.lower().removeprefix(".")
        write_file(plot, partial(figure.savefig, format=file_format))
        say(f"{plot}: the plot")


def _by_votes(
    votes_file: str | None, items_file: str | None, by: str | None, strategies: Sequence[str],
    budgets: Sequence[int], options: dict[str, Any],
) -> pd.DataFrame:  # fmt: skip
    """Simulate annotators who answer by the recorded votes of a file.

    Args:
        votes_file: table of votes.
        items_file: table of the items.
        by: column of the votes whose values divide them into collections; or None.
        strategies: names of strategies.
        budgets: numbers of questions; if empty, the usual numbers.
        options: further arguments of `sortnet.lab.recorded_votes.simulate_votes`.

    Raises:
        UsageError: if the file of votes or of items is not given.
    """
    from cli.inputs.votes import read_votes
    from sortnet.items import describe, read_items
    from sortnet.lab.recorded_votes import simulate_votes

    if votes_file is None or items_file is None:
        raise click.UsageError("the protocol votes needs --votes FILE and --items-file FILE")
    items = read_items(items_file, features=())
    votes, group = read_votes(Path(votes_file), items, by)
    features = describe(items, progress=options["progress"]).features.astype("float64")
    return simulate_votes(features, votes, strategies, budgets, group=group, **options)
