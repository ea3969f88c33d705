"""`sortnet experiment`: compare rankers by a protocol, and run the studies of the papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cli.inputs.column_options import training_name_options
from cli.lab.simulated import simulate
from cli.options import (
    SEED,
    Real,
    Whole,
    files,
    folders,
    json_option,
    store_option,
    with_options,
)
from sortnet.core import NamedColumns
from sortnet.files import refuse_folder
from sortnet.lab.tool_conventions import CONVENTIONS

MEASURES = "ndcg@10,map,p@10"
Command = Callable[..., int]
_VALI_SHARE = 0.2  # share of the queries outside the test part that decides when to stop training


def _fit_for_results(ctx: click.Context, param: click.Parameter, out: Path | None) -> Path | None:
    """Check, as a callback of click, that results can be written to the folder `out`."""
    if out is not None:
        refuse_folder(str(out))
    return out


SHARED = (
    click.option(
        "--jobs",
        type=Whole(1),
        default=1,
        help="Number of cells computed at once, in a process each.",
    ),
    click.option(
        "--cluster",
        metavar="URL",
        help="Dask scheduler, dask://HOST:PORT, in place of --jobs; its workers read the "
        "data at the same paths.",
    ),
    click.option("--seed", type=SEED, default=0, help="Random seed of every ranker."),
    click.option("--again", is_flag=True, help="Compute cells again that the store has already."),
    click.option(
        "--out",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        shell_complete=folders,
        callback=_fit_for_results,
        help="Folder for the tables, figures and report; default: none is written.",
    ),
    store_option,
    json_option,
)

# Options that are fields of `Cell`.
_FIELDS_OF_CELLS = ("quality", "relevant_from", "inner", "search", "trials", "seconds")
_LATEX = click.option(
    "--latex",
    "as_latex",
    is_flag=True,
    help="Print the table as LaTeX (booktabs), nothing else.",
)
# Options of the commands that compare rankers on a data set.
_RANKER_OPTIONS = (
    click.option(
        "--rankers",
        metavar="NAMES",
        default="sortnet,lambdamart,ranksvm",
        help="Rankers, separated by commas, or all; NAME:SETTING=VALUE for other settings.",
    ),
    click.option("--measures", metavar="NAMES", default=MEASURES, help="Measures to report."),
    click.option(
        "--convention",
        type=click.Choice(list(CONVENTIONS)),
        default="skip",
        metavar="NAME",
        help=f"Convention of the figures: {', '.join(CONVENTIONS)}.",
    ),
    click.option(
        "--quality",
        help="RankQuality, which chooses settings; default: map for two grades, else ndcg@10.",
    ),
    click.option(
        "--relevant-from", type=Whole(1), default=1, help="Lowest grade that is relevant."
    ),
    click.option(
        "--grid",
        multiple=True,
        metavar="SETTING=VALUES",
        help="Values to try of a setting, such as hidden=10-5,20-5, in place of the rankers' own "
        "grids; repeatable.",
    ),
    click.option(
        "--search",
        type=click.Choice(("grid", "optuna")),
        default="grid",
        help="How settings are searched.",
    ),
    click.option("--trials", type=Whole(1), help="Largest number of settings tried for a ranker."),
    click.option(
        "--seconds", type=Real(0), help="Seconds after which no other settings are tried."
    ),
    _LATEX,
)


@click.group(short_help="Compare rankers; run the papers' studies; simulate annotators.")
def experiment() -> None:
    """Compare rankers on labelled queries by a sound protocol, and run the papers' studies.

    Each cell (a ranker on a fold) is stored when it is done: the same command resumes an
    interrupted comparison. With more rankers, or another convention, finished cells are not
    trained again.

    \b
    Examples:
      sortnet experiment folds letor --rankers sortnet,lambdamart --jobs 2
      sortnet experiment study --list
    """


experiment.add_command(simulate)


def _comparison_options(
    inner: int, *options: Callable[[Command], Command]
) -> Callable[[Command], Command]:
    """Make a decorator that adds the argument and all options of a comparison on a data set.

    Args:
        inner: default of --inner.
        options: further options.
    """
    return with_options(
        click.argument("data", metavar="LETOR_DIR|FILE", shell_complete=files),
        *_RANKER_OPTIONS,
        training_name_options,
        *options,
        click.option(
            "--inner",
            type=Whole(0),
            default=inner,
            help="Parts of an inner cross-validation by query; 0: the validation part chooses.",
        ),
        *SHARED,
    )


@experiment.command(short_help="Compare rankers on the official folds.")
@_comparison_options(0)
def folds(data: str, columns: NamedColumns, seed: int, **options: Any) -> int:
    """Compare rankers on the folds in LETOR_DIR: tuned, refitted, tested on each.

    One FILE of all queries is divided as `sortnet train` divides it.

    \b
    Examples:
      sortnet experiment folds letor --rankers err,ranksvm:C=0.1
      sortnet experiment folds letor --rankers all --jobs 2 --out compared
      sortnet experiment folds letor --rankers all --convention letor4
      sortnet experiment folds bikes/train.csv
    """
    from sortnet.lab.splits import DividedFile, folds_of, is_one_file

    if is_one_file(data):
        return _compare([DividedFile(data, seed, columns=columns)], data, seed=seed, **options)
    return _compare(folds_of(data, columns), data, seed=seed, **options)


@experiment.command(short_help="Compare rankers on random divisions by query.")
@_comparison_options(
    3,
    click.option("--splits", type=Whole(2), default=15, help="Number of random divisions."),
    click.option(
        "--test", type=Real(0.01, 0.9), default=0.33, help="Share of queries to test with."
    ),
)
def holdout(
    data: str, columns: NamedColumns, splits: int, test: float, seed: int, **options: Any
) -> int:
    """Compare rankers on random divisions of the queries in LETOR_DIR, a fold or folder of folds.

    All queries of the first fold, or of one FILE, are divided. A fifth of the queries that are not
    used for testing decides when to stop training.

    \b
    Examples:
      sortnet experiment holdout letor --rankers err,ranksvm
      sortnet experiment holdout letor --rankers directranker,lambdamart --jobs 2
      sortnet experiment holdout bikes/train.csv
    """
    from sortnet.lab.splits import HoldOut, folds_of, is_one_file

    divided = data if is_one_file(data) else folds_of(data)[0].folder
    divisions = [
        HoldOut(divided, number, test, _VALI_SHARE, seed, columns=columns)
        for number in range(1, splits + 1)
    ]
    return _compare(divisions, data, seed=seed, **options)


@experiment.command(short_help="Run a study of the papers.")
@click.argument("name", required=False)
@click.argument("letor_dir", required=False, shell_complete=folders)
@click.option("--list", "listed", is_flag=True, help="Show all studies, and run none.")
@click.option(
    "--size",
    type=click.Choice(("small", "paper")),
    default="small",
    help="small: a minute or two; paper: the sizes of the papers.",
)
@training_name_options
@with_options(*SHARED)
def study(
    name: str | None, letor_dir: str | None, columns: NamedColumns, listed: bool, size: str,
    seed: int, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Run the study NAME, on the folds in LETOR_DIR or on synthetic data; show table and figure.

    \b
    Examples:
      sortnet experiment study --list
      sortnet experiment study noise --size paper --jobs 2 --out noise
      sortnet experiment study hidden letor --out hidden
    """
    from cli.lab.study_outputs import print_studies, run_study
    from sortnet.lab.studies import points_of
    from sortnet.lab.study_points import SIZES

    if listed or name is None:
        print_studies(as_json=as_json)
        return 0
    points = points_of(name, letor_dir, SIZES[size], seed, columns)
    return run_study(name, points, as_json=as_json, **options)


@experiment.command(short_help="Compare rankers where the order depends on the whole set.")
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
@_LATEX
@with_options(*SHARED)
def context(
    problem: str, models: str | None, splits: int, train: int, test: int | None, n: int, d: int,
    seed: int, as_latex: bool, **options: Any,
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
    from cli.lab.comparison import run_comparison
    from cli.lab.study_outputs import run_study
    from sortnet.lab.set_generators import MEASURES, SET_MODELS, MadeSets, cells_of, models_named
    from sortnet.lab.study_points import set_points

    sizes = {"train": train, "n": n, "d": d}
    if problem == "sizes":
        if as_latex:
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
        cells, data, list(MEASURES), "skip", spread="deviation", as_latex=as_latex, **options
    )


def _compare(
    splits: Sequence[Any], data: str, *, rankers: str, grid: Sequence[str], measures: str,
    convention: str, seed: int, **options: Any,
) -> int:  # fmt: skip
    """Compare rankers, each of which is fitted and tested on all divisions of the data.

    Args:
        splits: the divisions, see `sortnet.lab.splits`.
        data: path of the data.
        rankers: names of rankers, separated by commas.
        grid: texts such as `hidden=10-5,20-5`; without texts, each ranker keeps its own grid.
        measures: names of measures, separated by commas.
        convention: name of the convention of the figures.
        seed: seed of the rankers.
        options: the remaining options of the command: fields of `Cell`, and arguments of
            `run_comparison`.

    Returns:
        1 if a cell failed, else 0.
    """
    from cli.lab.comparison import run_comparison
    from sortnet.lab.cells import Cell
    from sortnet.lab.entries import entries_named, grid_of
    from sortnet.metrics import as_metrics

    entries = entries_named(rankers)
    if grid:
        entries = [replace(entry, grids=(grid_of(entry.kind, grid),)) for entry in entries]
    fields = {name: options.pop(name) for name in _FIELDS_OF_CELLS}
    cells = [Cell(entry, split, seed, **fields) for split in splits for entry in entries]
    names = [metric.name for metric in as_metrics(filter(None, measures.split(",")))]
    return run_comparison(cells, data, names, convention, **options)
