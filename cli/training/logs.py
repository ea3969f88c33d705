"""`--log`: the figures of every iteration also for TensorBoard and MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import click

from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sortnet.learning.loop import Callback
    from store import Run


class Log(NamedTuple):
    """A log target: `tensorboard` with a folder, `mlflow` with a URI or its own configuration."""

    kind: str
    place: str | None


def log(value: str) -> Log:
    """tensorboard:DIR, mlflow or mlflow:URI; fails at once if the package is not installed."""
    kind, _, place = value.partition(":")
    if kind not in ("tensorboard", "mlflow") or (kind == "tensorboard" and not place):
        raise click.BadParameter(f"{value!r} is not tensorboard:DIR, mlflow or mlflow:URI")
    if find_spec(kind) is None:
        raise SortNetError(f"--log {kind} needs it: pip install 'sortnet[{kind}]'")
    return Log(kind, place or None)


def callbacks_of(logs: Sequence[Log], run: Run) -> list[Callback]:
    """A callback for each target; an MLflow run is named by the run's id in the store."""
    if not logs:
        return []
    from sortnet.experiments.trackers import mlflow_callback, tensorboard_callback

    params = {**run.config, **run.config.get("training", {}), "command": run.command}
    for name in ("tuning", "training"):
        params.pop(name, None)
    return [
        tensorboard_callback(log.place or ".")
        if log.kind == "tensorboard"
        else mlflow_callback(log.place, run=run.id, params=params)
        for log in logs
    ]
