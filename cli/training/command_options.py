"""Make the options of a run from the command line of `sortnet train`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click

from cli.inputs.column_options import named_columns
from cli.options import command_line
from cli.training.command_judge import judge_of_command
from cli.training.printed_run import trackers
from cli.training.typed_settings import MachineSettings
from sortnet.core.shard import Group
from sortnet.files import refuse_folder
from store.training.asked_judge import AskedJudge
from store.training.origin import refuse_own_folder
from store.training.run_folder import Folder
from store.training.train_or_resume import RunOptions
from store.training.training_run import Watcher

_OPTIONS_OF_RUNS = ("resume", "preset", "logs", "from_model")


def checked_judge(ctx: click.Context) -> AskedJudge:
    """Check the options of `sortnet train`, and return the judge that they describe.

    Raises:
        click.UsageError: if some options cannot be given together.
        SortNetError: if a folder cannot be used, or a tracker does not exist.
    """
    values = ctx.params
    refuse_folder(values["out"])
    trackers(values["logs"])  # refuses a misspelt tracker before anything is read
    judge = judge_of_command(ctx)
    refuse_own_folder(values["from_model"], Folder(values["out"]))
    if values["ranker"] != "sortnet":
        _refuse_options_of_runs(values)
    elif values["resume"] and values["overwrite"] and not values["dry_run"]:
        raise click.UsageError(
            "--resume continues a run and --overwrite starts again: give one of them"
        )
    return judge


def _refuse_options_of_runs(values: Mapping[str, Any]) -> None:
    """Raise UsageError for options about stored runs, since other rankers store no run."""
    if any(values[name] for name in _OPTIONS_OF_RUNS):
        raise click.UsageError("--resume, --from, --preset and --log are for --ranker sortnet only")
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise click.UsageError(f"{values['ranker']} is fitted by one process: leave torchrun out")


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
