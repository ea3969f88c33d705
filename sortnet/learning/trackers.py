"""Log every iteration to TensorBoard or MLflow, as a callback of the loop."""

import math
import os
import warnings
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import one_line
from sortnet.learning.iterations import Callback, Iteration, State


def tracker(where: str, run: str, params: dict[str, Any], say: Any = warnings.warn) -> Callback:
    """A callback that logs each iteration to `tensorboard:DIR`, `mlflow` or `mlflow:URI`.

    Args:
        where: the tracker and its place.
        run: name of the run in the tracker.
        params: settings of the run, which MLflow shows.
        say: called with a message where an iteration cannot be logged; the run continues.

    Raises:
        SortNetError: if there is no such tracker, or it is not installed.
    """
    kind, _, place = where.partition(":")
    if kind not in ("tensorboard", "mlflow") or (kind == "tensorboard" and not place):
        raise SortNetError(f"{where!r} is not tensorboard:DIR, mlflow or mlflow:URI")
    if find_spec(kind) is None:
        raise SortNetError(f"--log {kind} needs it: pip install 'sortnet[{kind}]'")
    opened: list[Any] = []

    def log(record: Iteration, state: State) -> None:
        try:
            if not opened:
                opened.append(_open(kind, place, run, params, record.iteration))
            for name, value in _scalars(record).items():
                if math.isfinite(value):
                    opened[0].add_scalar(name, float(value), record.iteration)
            if state.finished:
                opened[0].close()
            else:
                opened[0].flush()
        except Exception as error:
            say(f"iteration {record.iteration} is not in {where}: {one_line(error)}")

    return log


def _scalars(record: Iteration) -> dict[str, float]:
    """The numbers of an iteration's record by name; neither tracker allows "@" in a name."""
    scalars = {
        name: value for name, value in vars(record).items() if isinstance(value, int | float)
    }
    for part, measures in record.measures.items():
        for name, value in measures.items():
            scalars[f"{name.replace('@', '_at_')}/{part}"] = value
    return scalars


def _open(kind: str, place: str, run: str, params: dict[str, Any], first: int) -> Any:
    """A writer with `add_scalar`, `flush` and `close`, for iterations from `first` on."""
    if kind == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(place, purge_step=first)  # repeated iterations are logged again
    from mlflow.tracking import MlflowClient

    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # its default waits for minutes
    client = MlflowClient(tracking_uri=place or None)
    experiment = client.get_experiment_by_name("sortnet")
    number = experiment.experiment_id if experiment else client.create_experiment("sortnet")
    runs = client.search_runs([number], f"attributes.run_name = '{run}'")
    logged_run = runs[0] if runs else client.create_run(number, run_name=run)
    key = logged_run.info.run_id
    for name, value in params.items():
        client.log_param(key, name, value)
    return SimpleNamespace(
        add_scalar=lambda name, value, i: client.log_metric(key, name, value, step=i),
        flush=lambda: client.update_run(key, status="RUNNING"),
        close=lambda: client.update_run(key, status="FINISHED"),
    )
