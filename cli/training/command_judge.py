"""Make the judges that the options of `sortnet train` describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cli.judges.judge_options import (
    DETAILS,
    FIELDS,
    judges_by_annotator,
    judges_from_options,
    option_of,
    refuse_without_server,
)
from cli.judges.judge_results import dry_run_result
from cli.printing.results import print_result
from store.training.asked_judge import AskedJudge
from store.training.train_or_resume import RunOptions
from store.training.training_estimate import estimate_judges

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
