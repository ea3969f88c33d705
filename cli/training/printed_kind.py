"""Fit a ranker of another kind than SortNet (`sortnet train --ranker`), and print its measures."""

from __future__ import annotations

import click

from cli.console import progress
from cli.inputs.column_options import named_columns
from cli.printing.results import Block, Facts, Result, Step, print_result
from cli.printing.runs import measures
from cli.training.printed_data import say_data
from cli.training.typed_settings import typed_settings
from sortnet.core import Progress
from sortnet.rankers.registry import name_of, settings_for
from store.training.fit_kind import FittedKind, fit_kind
from store.training.job import TrainingJob
from store.training.origin import Origin
from store.training.train_or_resume import RunOptions
from store.training.training_run import Watcher


class PrintedKind(Watcher):
    """Prints the data that a ranker is fitted on.

    Args:
        progress: shows the current step.
        as_json: whether the result is printed as JSON, and the data on stderr.
    """

    def __init__(self, progress: Progress, *, as_json: bool) -> None:
        self._progress = progress
        self._as_json = as_json

    def progress(self, text: str) -> None:
        self._progress(text)

    def starting(self, job: TrainingJob, origin: Origin | None, *, is_new: bool) -> None:
        say_data(job, err=self._as_json)


def fit_and_print(ctx: click.Context) -> None:
    """Fit the ranker that the command line asks for, and print its measures."""
    values = ctx.params
    defaults = settings_for(values["ranker"])
    changes, machine = typed_settings(ctx, defaults)
    settings = defaults.changed(**changes)
    with progress() as status:
        options = RunOptions(
            store=values["store"],
            columns=named_columns(values),
            threads=machine.threads,
            watcher=PrintedKind(status, as_json=values["as_json"]),
        )
        fitted = fit_kind(
            values["data"], values["out"], settings, overwrite=values["overwrite"], options=options
        )
        print_result(_result(fitted), as_json=values["as_json"])


def _result(fitted: FittedKind) -> Result:
    """Make the result of a fit: the measures of the ranker, its settings, and its folder."""
    ranker = fitted.ranker
    folder = fitted.folder
    value = {
        "out": str(folder),
        "kind": ranker.config.kind,
        "config": ranker.config.to_json(),
        "info": dict(ranker.info),
        "measures": fitted.measures,
    }
    step = Step(fitted.job.next_command(str(folder)))
    model = f"{folder}, a ranker of kind {name_of(ranker.config)}; no run is stored"
    text: list[Block] = [measures(fitted.measures), "", Facts({"model": model})]
    return Result("training", value, text, fitted.conventions, step)
