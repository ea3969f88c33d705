"""`sortnet experiment simulate`: how many questions a good ranking takes."""

from __future__ import annotations

from typing import Any

import click

from cli.console import progress, say
from cli.lab.simulation import USUAL, Simulation
from cli.lab.simulation_outputs import check_plot, simulated_result, write_plot
from cli.options import SEED, Real, Whole, files, json_option, output_option
from cli.printing.results import print_result


@click.command("simulate", short_help="Simulate how many questions a good ranking takes.")
@click.option(
    "--protocol", type=click.Choice(list(USUAL)), default="ids",
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
def simulate(plot: str | None, as_json: bool, **options: Any) -> None:
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
    check_plot(plot)
    simulation = Simulation(**options)
    with progress() as status:
        frame = simulation.run(status)
    print_result(simulated_result(frame), as_json=as_json)
    if plot:
        write_plot(frame, simulation.title, plot)
        say(f"{plot}: the plot")
