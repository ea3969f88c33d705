"""Make the options and judges of a run from the command line of `sortnet train`."""

from __future__ import annotations

import os

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
from cli.options import command_line
from cli.training.printed_run import trackers
from cli.training.typed_settings import MachineSettings
from sortnet.core.shard import Group
from store.training.asked_judge import AskedJudge
from store.training.train_or_resume import RunOptions
from store.training.training_run import Watcher

# {field of a judge or parameter of a training: the option that users type}
_OPTIONS = {
    name: option_of(name)
    for name in ("judge", *FIELDS, "dry_run", "question", "judgements", "store")
    if name not in DETAILS
}


def checked_judge(ctx: click.Context) -> AskedJudge:
    """Check the options of `sortnet train`, and return the judges that they describe.

    There is no judge if a resumed run asks its stored judges.

    Raises:
        click.UsageError: if some options cannot be given together.
        SortNetError: if a tracker does not exist.
    """
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
