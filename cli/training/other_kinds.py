"""`sortnet train --ranker KIND`: fit a ranker of another kind than SortNet; no run is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click
from sqlalchemy import URL

from cli.inputs.column_options import named_columns
from cli.output import progress
from cli.printing.conventions import convention_notes, measures
from cli.printing.results import Result, Step, print_result
from cli.training.data_and_origin import say_data
from sortnet.config import Config, Setting, Settings, parse_setting, settings_of
from sortnet.metrics import evaluate
from sortnet.rankers.base import Ranker, fit_ranker, name_of, settings_for
from sortnet.threads import set_threads
from store.report.conventions import conventions_of, metrics_of
from store.training.job import TrainingJob, read_job
from store.training.run_folder import Folder


def values_set(settings: Settings, extra: Sequence[str]) -> dict[str, Any]:
    """The values of settings given as `NAME=VALUE`.

    Raises:
        SortNetError: on a setting that there is not, or no value of one.
        click.BadParameter: on what is no NAME=VALUE.
    """
    given = {}
    for text in extra:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.BadParameter(f"--set takes NAME=VALUE, got {text[:60]!r}")
        given[name.replace("-", "_")] = value
    settings.check_names(given)
    known: Mapping[str, Setting] = settings_of(type(settings))  # type: ignore[arg-type]
    return {name: parse_setting(name, known[name].values, text) for name, text in given.items()}


def fit_other(typed: Mapping[str, Any], given: Mapping[str, Any], folder: Folder, url: URL) -> None:
    """Fit the ranker that the command line asks for, write its folder, and print its measures.

    `typed` are the parameters of the command, `given` the settings among them.
    """
    settings = settings_for(typed["ranker"]).changed(**given)
    settings = settings.changed(**values_set(settings, typed["extra"]))
    with progress() as status:
        set_threads(typed["threads"])
        if not typed["overwrite"]:
            folder.refuse_if_taken()
        # Measured as SortNet would be.
        asked = Config().changed(**{name: settings.flat()[name] for name in settings_of(Settings)})
        job = read_job(
            typed["data"],
            asked,
            columns=named_columns(typed),
            cache=typed["cache"],
            progress=status,
            store=url,
        )
        settings = settings.changed(quality=job.config.quality)
        say_data(job, err=typed["as_json"])
        with folder.held():
            ranker = fit_ranker(job.train, job.vali, settings, progress=status)
            folder.clear()
            replace(ranker, info={**ranker.info, "data": job.data}).save(folder.path)
        _conclude(job, ranker, folder, as_json=typed["as_json"])


def _conclude(job: TrainingJob, ranker: Ranker, folder: Folder, *, as_json: bool) -> None:
    metrics, empty = metrics_of(ranker.config), ranker.config.empty
    figures, conventions = {}, {}
    for name, part in (("train", job.train), ("vali", job.vali)):
        figures[name] = evaluate(part, ranker.order(part), metrics, empty=empty)
        conventions[name] = conventions_of(part, metrics, empty)
    value = {
        "out": str(folder),
        "kind": ranker.config.kind,
        "config": ranker.config.to_json(),
        "info": dict(ranker.info),
        "measures": figures,
    }
    step = Step(job.next_command(str(folder)), is_in_text=True)
    text = [
        *measures(figures, conventions),
        "",
        f"model  {folder}, a ranker of kind {name_of(ranker.config)}; no run is stored",
        f"next   {step.command}",
    ]
    notes = convention_notes(conventions)
    result = Result("training", value, text, notes, step, is_noted_in_text=True)
    print_result(result, as_json=as_json)
