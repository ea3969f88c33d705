"""`sortnet experiment context`: compare rankers where an item's rank depends on all other items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.lab.shared_options import SHARED, pop_options
from cli.options import Whole, command_line, with_options

if TYPE_CHECKING:
    from sortnet.lab.entries import Entry


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
def context(problem: str, models: str | None, latex: bool, **options: Any) -> int:
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
    from cli.lab.work import RunOptions
    from sortnet.lab.set_problems import SET_MODELS, models_named

    run_options = RunOptions(**pop_options(options, RunOptions._fields))
    if problem == "sizes":
        return _sizes(models_named(models or ",".join(SET_MODELS)), run_options, latex, **options)
    return _table(problem, models_named(models or "all"), run_options, latex, **options)


def _table(
    problem: str, models: list[Entry], run_options: Any, latex: bool, *,
    splits: int, seed: int, out: Any, as_json: bool, test: int | None, **sizes: int,
) -> int:  # fmt: skip
    """Compare models on sets of one size, as in the tables of the paper.

    Args:
        problem: name of the problem.
        models: the models.
        run_options: options of the computation, as `RunOptions`.
        latex: whether the summary is printed as LaTeX.
        splits: number of draws of the data.
        seed: seed of the draws.
        out: folder for the files; None to write none.
        as_json: whether the summary is printed as JSON.
        test: number of test sets; None for 100,000.
        sizes: further fields of `MadeSets`: `n` and `d`, the sizes of a set, and `train`.

    Returns:
        1 if a cell failed, else 0.
    """
    from cli.lab.run_comparison import OutputOptions, run_comparison
    from sortnet.lab.set_problems import MEASURES, MadeSets, cells_of

    splits_of_sets = [
        MadeSets(problem, number, test=test or 100_000, seed=seed, **sizes)
        for number in range(1, splits + 1)
    ]
    n = sizes["n"]
    d = sizes["d"]
    data = problem
    # Published figures, which are found by the name of the data, are for n = 5 and d = 2.
    if (n, d) != (5, 2):
        data = f"{problem}, n = {n}, d = {d}"
    return run_comparison(
        cells_of(models, splits_of_sets, seed),
        run_options,
        OutputOptions(out, as_json, latex),
        data,
        list(MEASURES),
        convention="skip",
        spread="deviation",
    )


def _sizes(
    models: list[Entry], run_options: Any, latex: bool, *,
    splits: int, seed: int, out: Any, as_json: bool, test: int | None, **sizes: int,
) -> int:  # fmt: skip
    """Test models on sets of many sizes, as in the figure of the paper.

    The arguments are described at `_table`; with `test` None there are 10,000 test sets of a size.
    """
    from cli.lab.study_outputs import run_study
    from sortnet.lab.study_points import set_points

    if latex:
        raise click.UsageError("--latex prints a table: sizes has a figure, --out draws it")
    points = set_points(models, splits, seed, test=test or 10_000, **sizes)
    command = command_line(click.get_current_context())
    return run_study("set-sizes", points, run_options, out, as_json, command)
