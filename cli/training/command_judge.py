"""Make the judge that the options of `sortnet train` describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from cli.judges.estimates import print_estimate, print_prompt
from cli.judges.judge_options import (
    NAMES,
    is_asked,
    judge_from_options,
    only_shows,
    refuse_together,
)
from sortnet.judges import LanguageModel
from sortnet.judges.request import parse_request
from store.training.asked_judge import AskedJudge
from store.training.train_or_resume import RunOptions
from store.training.training_estimate import estimate

_NO_ATTRIBUTES = ("show_prompt", "estimate", "question")  # options that no field of a judge holds


def _typed_option(name: str) -> str:
    """Convert the name of a parameter to the option that users type, such as `--judge`."""
    return "--" + name.removeprefix("store_").replace("_", "-")


# {field of a judge or parameter of a training: the option that users type}
_OPTIONS = {name: _typed_option(name) for name in (*NAMES, "question", "judgements", "store")}
_OPTIONS["logprobs"] = _typed_option("no_logprobs")


def judge_of_command(ctx: click.Context) -> AskedJudge:
    """Make the judge of a new run, or the changes to the judge of a resumed run.

    Raises:
        click.UsageError: if some options cannot be given together.
    """
    values = ctx.params
    default = click.core.ParameterSource.DEFAULT
    typed_names = {
        name for name in (*NAMES, "question") if ctx.get_parameter_source(name) != default
    }
    _refuse_unrelated(values, typed_names)
    changes: dict[str, Any] | None = None
    if values["resume"]:
        changes = _changes_of_judge(values, typed_names)
    judge = None if only_shows(values) else judge_from_options(values)
    return AskedJudge(
        judge=judge, question=values["question"] or None, changes=changes, names=_OPTIONS
    )


def _changes_of_judge(values: Mapping[str, Any], typed_names: set[str]) -> dict[str, Any]:
    """Return {field of a judge: new value} for the options that were typed."""
    changes = {name: values[name] for name in typed_names.difference(_NO_ATTRIBUTES)}
    if "request" in changes:
        changes["request"] = parse_request(changes["request"])
    if "no_logprobs" in changes:
        changes["logprobs"] = not changes.pop("no_logprobs")
    return changes


def _refuse_unrelated(values: Mapping[str, Any], typed_names: set[str]) -> None:
    """Raise UsageError if options of a judge are given without a judge, or contradict others."""
    if is_asked(values) or only_shows(values):
        refuse_together(values)
        if values["ranker"] != "sortnet":
            raise click.UsageError("only --ranker sortnet asks a judge")
    elif typed_names and not values["resume"]:
        option = _typed_option(min(typed_names))
        instead = ""
        if option == "--patience":
            instead = "; the setting of a training is --set patience=N"
        raise click.UsageError(f"{option} is for --judge and --model{instead}")


def show_prompt_or_estimate(
    values: Mapping[str, Any], options: RunOptions, settings: Mapping[str, Any]
) -> None:
    """Print the prompt about a pair of training documents, or estimate calls and tokens.

    Args:
        values: the values of all options.
        options: the options of the run.
        settings: the settings of the run.
    """
    # Neither the prompt nor the estimate depends on the model's name, so any name will do.
    model = judge_from_options({**values, "model": values["model"] or "model", "judge": None})
    assert isinstance(model, LanguageModel)
    estimated = estimate(
        values["data"], judge=model, question=options.judge.question, options=options, **settings
    )
    if values["show_prompt"]:
        print_prompt(estimated.prompt, as_json=values["as_json"])
    elif estimated.calls is None:
        raise click.UsageError("--estimate needs --judgements N, the number of answers")
    else:
        print_estimate(estimated.calls, as_json=values["as_json"])
