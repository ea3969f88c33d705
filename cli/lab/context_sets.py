"""`sortnet experiment context`: compare rankers where an item's rank depends on all other items."""

from __future__ import annotations

from typing import Any

import click

from cli.lab.shared_options import SHARED
from cli.options import Whole, with_options


@click.command(short_help="Compare rankers where the order depends on the whole set.")
@click.argument("problem", type=click.Choice(("medoid", "hypervolume", "sizes")))
@click.option(
    "--models",
    metavar="NAMES",
    help="Rankers, separated by commas, or all; NAME:SETTING=VALUE for other settings; default: "
    "all, for sizes the rankers that see the set.",
)
@click.option("--splits", type=Whole(1), default=10, help="Number of draws of all sets.")
@click.option(
    "--train", type=Whole(2), default=10_000, help="Sets to learn from; a tenth validates."
)
@click.option(
    "--test",
    type=Whole(1),
    help="Sets to test with; default: 100000, for sizes 10000 of each size.",
)
@click.option("--n", type=Whole(2), default=5, help="Objects of a set.")
@click.option("--d", type=Whole(1), default=2, help="Features of an object.")
@click.option("--latex", is_flag=True, help="Print the table as LaTeX (booktabs), nothing else.")
@with_options(*SHARED)
def context(
    problem: str, models: str | None, splits: int, train: int, test: int | None, n: int, d: int,
    seed: int, latex: bool, **options: Any,
) -> int:  # fmt: skip
    """Compare rankers on synthetic sets whose order depends on all their objects.

    medoid: points ranked by their distance to the medoid; hypervolume: points of a front ranked by
    their contributions to the hypervolume; sizes: medoid sets of 3 to 24 objects, ranked by models
    trained on sets of --n. Each cell (a ranker on a draw) is stored when it is done: the same
    command resumes. --out writes the figures of every test set.

    \b
    Examples:
      sortnet experiment context medoid --models ranknet,err --splits 2 --test 500
      sortnet experiment context hypervolume --jobs 2 --out hypervolume
      sortnet experiment context sizes --splits 5 --out sizes
    """
    from cli.lab.run_comparison import run_comparison
    from cli.lab.study_outputs import run_study
    from sortnet.lab.set_problems import MEASURES, SET_MODELS, MadeSets, cells_of, models_named
    from sortnet.lab.study_points import set_points

    sizes = {"train": train, "n": n, "d": d}
    if problem == "sizes":
        if latex:
            raise click.UsageError("--latex prints a table: sizes has a figure, --out draws it")
        entries = models_named(models or ",".join(SET_MODELS))
        points = set_points(entries, splits, seed, test=test or 10_000, **sizes)
        return run_study("set-sizes", points, **options)
    all_sets = [
        MadeSets(problem, number, test=test or 100_000, seed=seed, **sizes)
        for number in range(1, splits + 1)
    ]
    data = problem
    # Published figures, which are found by the name of the data, are for n = 5 and d = 2.
    if (n, d) != (5, 2):
        data = f"{problem}, n = {n}, d = {d}"
    cells = cells_of(models_named(models or "all"), all_sets, seed)
    return run_comparison(
        cells, data, list(MEASURES), "skip", spread="deviation", latex=latex, **options
    )
