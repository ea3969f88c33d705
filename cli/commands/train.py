"""`sortnet train`: train a model on labelled queries; store the run and its pairs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.console import progress, silent
from cli.inputs.data_options import named_columns, training_name_options
from cli.judges.judge_options import (
    DETAILS,
    FIELDS,
    judge_options,
    judges_by_annotator,
    judges_from_options,
    option_of,
    refuse_without_server,
)
from cli.options import command_line, files, folders, json_option, store_option
from cli.printing.results import print_result
from cli.signals import signals_as_ctrl_c
from cli.training.typed_settings import TrainCommand, setting_options, typed_settings
from sortnet.rankers.registry import settings_for

if TYPE_CHECKING:
    from store.training.asked_judge import AskedJudge

# {field of a judge or parameter of a training: the option that users type}
_OPTIONS = {
    name: option_of(name)
    for name in ("judge", *FIELDS, "dry_run", "question", "judgements", "store")
    if name not in DETAILS
}
# {heading of the help: parameters below it, in the order of the help}
_SECTIONS = {
    "Columns of a table": ("query", "grade", "id", "ignore", "bins"),
    "Settings": (
        *("ranker", "preset", "quality", "comparator", "scaling", "pairs", "max_iter", "epochs"),
        *("seed", "extra"),
    ),
    "A judge in place of grades": (
        *("judge", "model", "server", "question", "judgements", "max_cost", "workers", "dry_run"),
    ),
    "The run": ("out", "resume", "from_model", "overwrite", "store", "logs", "as_json"),
}


@click.command(
    cls=TrainCommand,
    sections=_SECTIONS,
    short_help="Train a model on labelled queries or on judgements.",
)
@click.argument(
    "data", nargs=-1, metavar="FILE | TRAIN VALI | FOLD_DIR | COLLECTION", shell_complete=files
)
@training_name_options
@setting_options
@click.option(
    "--ranker",
    default="sortnet",
    metavar="KIND",
    help="Kind of ranker, such as lambdamart or ranksvm.",
)
@click.option(
    "--preset", type=click.Choice(["paper"]), help="Settings to start from; paper: Algorithm 3.1."
)
@judge_options
@click.option("--question", metavar="TEXT", help="Question to the judge; default: Which is better?")
@click.option(
    "--out",
    "-o",
    default="model",
    metavar="DIR",
    shell_complete=folders,
    help="Model folder to write.",
)
@click.option("--resume", is_flag=True, help="Resume the run in --out with its settings and data.")
@click.option(
    "--from",
    "from_model",
    metavar="MODEL",
    shell_complete=folders,
    help="Begin with this model, for new queries, new answers or more training.",
)
@click.option("--overwrite", is_flag=True, help="Replace the model in --out.")
@store_option
@json_option
@click.option(
    "--log",
    "logs",
    multiple=True,
    metavar="WHERE",
    help="Also log every iteration to tensorboard:DIR, mlflow or mlflow:URI.",
)
@click.pass_context
@signals_as_ctrl_c()
def train(
    ctx: click.Context,
    /,
    data: tuple[str, ...],
    out: str,
    resume: bool,
    overwrite: bool,
    ranker: str,
    as_json: bool,
    logs: tuple[str, ...],
    **_options: Any,  # they are read from `ctx.params`
) -> None:
    """Train a model that ranks, on a table with grades.

    FILE is a table (CSV, TSV, JSON lines or Parquet, also .gz) or LETOR text. Its queries are
    divided into parts for training, validation and test (60, 20, 20 %). Other data are two files
    TRAIN VALI, a FOLD_DIR with train.txt and vali.txt (or .csv ...), or the judgements of a
    COLLECTION of sortnet items (collection:NAME if there is a path NAME).

    The comparator sorts the documents of every query. The pairs that it compared are judged by
    their grades, and stored. The comparator learns from all stored pairs, and sorts again. The
    model is the best of ten iterations by the validation part. It remembers columns and parts:
    sortnet evaluate MODEL FILE --part test and sortnet rank MODEL NEW need no more options.

    Without grades, a program or a language model is asked which of two documents is better, as by
    sortnet label, --judgements N times. Each answer is stored at once. sortnet settings judge
    lists what a program reads and answers, and the keys of FILE.toml.

    \b
    Examples:
      sortnet train shop.csv --query search --grade stars --ignore orders
      sortnet train shop.csv --query none --grade orders --bins 5
      sortnet train letor/Fold1 --out m --quality ndcg@10 --set committee=5
      sortnet train essays --out judged
      sortnet train essays.csv --query none --judge judge.toml --judgements 60
      sortnet train --resume --out m
    """
    from cli.printing.labelling import dry_run_result
    from cli.training.printed_run import PrintedRun, kind_result
    from store.training.train_or_resume import RunOptions, estimate_judges, fit_kind
    from store.training.train_or_resume import resume as resume_run
    from store.training.train_or_resume import train as train_run
    from store.training.training_run import joined

    judge = _checked_judge(ctx)
    defaults = settings_for(ranker)
    settings, threads = typed_settings(ctx, defaults)
    # Only the first of several processes prints.
    with joined() as group, silent(group.rank > 0), progress() as status:
        watcher = PrintedRun(status, logs, as_json=as_json)
        options = RunOptions(
            store=ctx.params["store"],
            from_model=ctx.params["from_model"],
            columns=named_columns(ctx.params),
            threads=threads,
            judge=judge,
            watcher=watcher,
            command=command_line(ctx),
            group=group,
        )
        if ranker != "sortnet":
            kind = defaults.changed(**settings)
            job, fitted = fit_kind(data, out, kind, overwrite=overwrite, options=options)
            print_result(kind_result(job, fitted, Path(out)), as_json=as_json)
            return
        if ctx.params["dry_run"]:
            estimates = estimate_judges(data, options, **settings)
            print_result(dry_run_result(estimates), as_json=as_json)
        elif resume:
            resume_run(out, data, options=options, **settings)
        else:
            train_run(data, out, overwrite=overwrite, options=options, **settings)


def _checked_judge(ctx: click.Context) -> AskedJudge:
    """Check the options of `sortnet train`, and return the judges that they describe.

    There is no judge if a resumed run asks its stored judges.

    Raises:
        click.UsageError: if some options cannot be given together.
        SortNetError: if a tracker does not exist.
    """
    from cli.training.printed_run import trackers
    from store.training.asked_judge import AskedJudge

    values = ctx.params
    trackers(values["logs"])  # refuses a misspelt tracker before anything is read
    judges = judges_from_options(values)
    for judge in judges:
        refuse_without_server(judge)
    if judges and values["ranker"] != "sortnet":
        raise click.UsageError("only --ranker sortnet asks a judge")
    question = values["question"] or None
    is_resumed = values["resume"] and not values["dry_run"]
    if question is not None and not judges and not is_resumed:
        raise click.UsageError("--question is for --judge and --model")
    asked = AskedJudge(judges=judges_by_annotator(judges), question=question, names=_OPTIONS)
    if values["ranker"] != "sortnet":
        if any(values[name] for name in ("resume", "preset", "logs", "from_model")):
            options = "--resume, --from, --preset and --log"
            raise click.UsageError(f"{options} are for --ranker sortnet only")
        if os.environ.get("WORLD_SIZE", "1") != "1":
            fault = "is fitted by one process: leave torchrun out"
            raise click.UsageError(f"{values['ranker']} {fault}")
    elif values["resume"] and values["overwrite"] and not values["dry_run"]:
        raise click.UsageError(
            "--resume continues a run and --overwrite starts again: give one of them"
        )
    return asked
