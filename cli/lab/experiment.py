"""`sortnet experiment`: compare rankers, run the studies of the papers, and simulate annotators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import progress, say
from cli.inputs.data_options import training_name_options
from cli.options import (
    SEED,
    Real,
    Whole,
    files,
    folders,
    json_option,
    output_option,
    store_option,
    with_options,
)
from cli.printing.results import Result, print_result, table_of_cells
from sortnet.core import NamedColumns
from sortnet.errors import DataError
from sortnet.files import refuse_folder, rows_of, write_file
from sortnet.lab.tool_conventions import CONVENTIONS
from sortnet.messages import count

if TYPE_CHECKING:
    pass

MEASURES = "ndcg@10,map,p@10"
Command = Callable[..., int]
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


@experiment.command(short_help="Simulate how many questions a good ranking takes.")
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
            from cli.inputs.votes import read_votes
            from sortnet.items import describe, read_items
            from sortnet.lab.recorded_votes import simulate_votes

            if votes_file is None or items_file is None:
                raise click.UsageError(
                    "the protocol votes needs --votes FILE and --items-file FILE"
                )
            items = read_items(items_file, features=())
            votes, group = read_votes(Path(votes_file), items, by)
            described = describe(items, progress=status).features.astype("float64")
            results = simulate_votes(described, votes, strategies, budgets, group=group, **common)
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
    notes = [f"{name}: {text}" for name, text in titles.items()]
    notes.append("ms: milliseconds of choosing a question; mean ± standard error of all seeds")
    print_result(Result("simulated", rows_of(frame), [table], notes), as_json=as_json)
    if plot:
        from store.plots.figures import simulation_figure

        figure = simulation_figure(frame, titles, title)
        file_format = Path(plot).suffix.lower().removeprefix(".")
        write_file(plot, partial(figure.savefig, format=file_format))
        say(f"{plot}: the plot")


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

    divided = data if is_one_file(data) else folds_of(data)[0].data
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
