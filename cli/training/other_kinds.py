"""`sortnet train --ranker KIND`: fit a ranker of another kind than SortNet; no run is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from cli.output import print_json, put
from cli.printing.conventions import conventions_of, measures, metrics_of
from cli.training.job import TrainingJob
from cli.training.run_folder import Folder
from sortnet.config import Config, Setting, Settings, settings_of
from sortnet.experiments.entries import value_of
from sortnet.metrics import evaluate
from sortnet.rankers.base import Ranker, fit_ranker, name_of
from sortnet.types import Progress


def values_set(settings: Settings, extra: Sequence[str]) -> dict[str, Any]:
    """The values of settings given as `NAME=VALUE`.

    Raises:
        SortNetError: on a setting that there is not, or no value of one.
        click.BadParameter: on what is no NAME=VALUE.
    """
    given = dict(_split(text) for text in extra)
    settings.check_names(given)
    known: Mapping[str, Setting] = settings_of(type(settings))  # type: ignore[arg-type]
    return {name: value_of(name, known[name].values, text) for name, text in given.items()}


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"--set takes NAME=VALUE, got {text[:60]!r}")
    return name.replace("-", "_"), value


def asked_of(settings: Settings) -> Config:
    """How SortNet would be measured: as the ranker of these settings is."""
    return Config().changed(**{name: settings.flat()[name] for name in settings_of(Settings)})


def fit_and_save(
    job: TrainingJob, settings: Settings, folder: Folder, progress: Progress, *, as_json: bool
) -> None:
    """Fit the ranker, write its folder, and print its measures and the next step."""
    settings = settings.changed(quality=job.config.quality)
    with folder.held():
        ranker = fit_ranker(job.train, job.vali, settings, progress=progress)
        folder.clear()
        ranker.save(folder.path)
    _conclude(job, ranker, folder, as_json=as_json)


def _conclude(job: TrainingJob, ranker: Ranker, folder: Folder, *, as_json: bool) -> None:
    metrics, empty = metrics_of(ranker.config), ranker.config.empty
    parts = {"train": job.train, "vali": job.vali}
    figures = {
        name: evaluate(part, ranker.order(part), metrics, empty=empty)
        for name, part in parts.items()
    }
    said = {name: conventions_of(part, metrics, empty) for name, part in parts.items()}
    if as_json:
        about = {"out": str(folder), "kind": ranker.config.kind, "config": ranker.config.to_json()}
        print_json({**about, "info": dict(ranker.info), "measures": figures, "conventions": said})
        return
    for text in measures(figures, said):
        put(text)
    put(f"\nmodel  {folder}, a ranker of kind {name_of(ranker.config)}; no run is stored")
    put(f"next   {job.next_command(str(folder))}")
