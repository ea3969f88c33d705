"""`--log`: the figures of every iteration also for TensorBoard and MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sortnet.learning.loop import Callback
    from store import Run


class Log(NamedTuple):
    """Where figures go: `tensorboard` into a folder, `mlflow` to a URI or as it is set up."""

    kind: str
    place: str | None


class LogType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """tensorboard:DIR, mlflow or mlflow:URI; refused at once where it is not installed."""

    name = "log"

    def convert(self, value: Any, param: Any, ctx: Any) -> Log:
        if isinstance(value, Log):
            return value
        kind, _, place = str(value).partition(":")
        if kind not in ("tensorboard", "mlflow") or (kind == "tensorboard" and not place):
            self.fail(f"{value!r} is none of tensorboard:DIR, mlflow and mlflow:URI", param, ctx)
        if find_spec(kind) is None:
            raise SortNetError(f"--log {kind} needs it: pip install 'sortnet[{kind}]'")
        return Log(kind, place or None)


def callbacks_of(logs: Sequence[Log], run: Run) -> list[Callback]:
    """A callback for each; in MLflow the run has its id in the store as its name."""
    if not logs:
        return []
    from sortnet.experiments.trackers import mlflow_callback, tensorboard_callback

    return [
        tensorboard_callback(log.place or ".")
        if log.kind == "tensorboard"
        else mlflow_callback(log.place, run=run.id, params=_params(run))
        for log in logs
    ]


def _params(run: Run) -> dict[str, Any]:
    """The settings, those of the training among the others."""
    values = {name: value for name, value in run.config.items() if name != "tuning"}
    training: dict[str, Any] = values.pop("training", {})
    return {**values, **training, "command": run.command}
