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
    values_of_judges,
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
    """Make the judges of a new run, or the changes to the judges of a resumed run.

    Raises:
        click.UsageError: if some options cannot be given together.
    """
    values = ctx.params
    question = values["question"] or None
    names_judge = bool(values["judge"] or values["model"])
    is_resumed = values["resume"] and not values["dry_run"]
    judges = judges_from_options(values) if names_judge or not is_resumed else []
    changes: dict[str, Any] = {}
    if judges:
        for judge in judges:
            refuse_without_server(judge)
        if values["ranker"] != "sortnet":
            raise click.UsageError("only --ranker sortnet asks a judge")
    elif is_resumed:
        (of_judge,) = values_of_judges(values)
        changes = {name: of_judge[name] for name in FIELDS if of_judge.get(name)}
    elif question is not None:
        raise click.UsageError("--question is for --judge and --model")
    by_annotator = judges_by_annotator(judges)
    return AskedJudge(judges=by_annotator, question=question, changes=changes, names=_OPTIONS)


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
