"""Make the judge that the options of `sortnet train` describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cli.judges.judge_options import (
    FIELDS,
    NAMES,
    is_judge_file,
    judge_from_options,
    option_of,
    refuse_without_server,
)
from cli.judges.judge_results import dry_run_result
from cli.printing.results import print_result
from store.training.asked_judge import AskedJudge
from store.training.train_or_resume import RunOptions
from store.training.training_estimate import estimate

# {field of a judge or parameter of a training: the option that users type}
_OPTIONS = {name: option_of(name) for name in (*NAMES, "question", "judgements", "store")}


def judge_of_command(ctx: click.Context) -> AskedJudge:
    """Make the judge of a new run, or the changes to the judge of a resumed run.

    Raises:
        click.UsageError: if some options cannot be given together.
    """
    values = ctx.params
    source = values["judge"]
    question = values["question"] or None
    names_judge = source is not None or bool(values["model"])
    is_resumed = values["resume"] and not values["dry_run"]
    judge = None
    if names_judge or not is_resumed:
        judge = judge_from_options(values)
    if judge is not None:
        if not is_resumed:
            refuse_without_server(judge)
        if values["ranker"] != "sortnet":
            raise click.UsageError("only --ranker sortnet asks a judge")
    elif question is not None and not is_resumed:
        raise click.UsageError("--question is for --judge and --model")
    changes: dict[str, Any] | None = None
    if is_resumed and not (source and is_judge_file(source)):
        # The stored judge of the run is changed; a file describes another judge as a whole.
        changes = {name: values[name] for name in ("judge", *FIELDS) if values[name]}
    return AskedJudge(judge=judge, question=question, changes=changes, names=_OPTIONS)


def print_dry_run(
    values: Mapping[str, Any], options: RunOptions, settings: Mapping[str, Any]
) -> None:
    """Print a question about a pair of training documents, and what the answers would take.

    Args:
        values: the values of all options.
        options: the options of the run.
        settings: the settings of the run.
    """
    judge = judge_from_options(values)
    assert judge is not None  # `judge_of_command` has refused a dry run without a judge
    run = estimate(
        values["data"], judge=judge, question=options.judge.question, options=options, **settings
    )
    print_result(dry_run_result([run]), as_json=values["as_json"])
