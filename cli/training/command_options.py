"""Make the options and judges of a run from the command line of `sortnet train`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from cli.inputs.data_options import named_columns
from cli.judges.judge_options import (
    DETAILS,
    FIELDS,
    judges_by_annotator,
    judges_from_options,
    option_of,
    refuse_without_server,
)
from cli.judges.judge_results import dry_run_result
from cli.options import command_line
from cli.printing.results import print_result
from cli.training.printed_run import trackers
from cli.training.typed_settings import MachineSettings
from sortnet.core.shard import Group
from store.training.asked_judge import AskedJudge
from store.training.train_or_resume import RunOptions, estimate_judges
from store.training.training_run import Watcher


def checked_judge(ctx: click.Context) -> AskedJudge:
    """Check the options of `sortnet train`, and return the judge that they describe.

    Raises:
        click.UsageError: if some options cannot be given together.
        SortNetError: if a tracker does not exist.
    """
    values = ctx.params
    trackers(values["logs"])  # refuses a misspelt tracker before anything is read
    judge = judge_of_command(ctx)
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
    return judge


def run_options(
    ctx: click.Context, judge: AskedJudge, machine: MachineSettings, watcher: Watcher, group: Group
) -> RunOptions:
    """Collect the options of a run that are not settings of its training.

    Args:
        ctx: the context of `sortnet train`.
        judge: the judge of the run.
        machine: the threads.
        watcher: prints the run.
        group: the processes that train together.
    """
    values = ctx.params
    return RunOptions(
        store=values["store"],
        from_model=values["from_model"],
        columns=named_columns(values),
        threads=machine.threads,
        judge=judge,
        watcher=watcher,
        command=command_line(ctx),
        group=group,
    )


# {field of a judge or parameter of a training: the option that users type}
_OPTIONS = {
    name: option_of(name)
    for name in ("judge", *FIELDS, "dry_run", "question", "judgements", "store")
    if name not in DETAILS
}


def judge_of_command(ctx: click.Context) -> AskedJudge:
    """Make the judges of a run; none if a resumed run asks its stored judges.

    Raises:
        click.UsageError: if some options cannot be given together.
    """
    values = ctx.params
    question = values["question"] or None
    judges = judges_from_options(values)
    for judge in judges:
        refuse_without_server(judge)
    if judges and values["ranker"] != "sortnet":
        raise click.UsageError("only --ranker sortnet asks a judge")
    is_resumed = values["resume"] and not values["dry_run"]
    if question is not None and not judges and not is_resumed:
        raise click.UsageError("--question is for --judge and --model")
    return AskedJudge(judges=judges_by_annotator(judges), question=question, names=_OPTIONS)


def print_dry_run(
    values: Mapping[str, Any], options: RunOptions, settings: Mapping[str, Any]
) -> None:
    """Print a question about a pair of training documents, and what the answers of judges take.

    Args:
        values: the values of all options.
        options: the options of the run.
        settings: the settings of the run.
    """
    runs = estimate_judges(values["data"], options, **settings)
    print_result(dry_run_result(runs), as_json=values["as_json"])
