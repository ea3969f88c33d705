"""Log every iteration to TensorBoard or MLflow, as a callback of the loop."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from sortnet.errors import SortNetError
from sortnet.files import one_line

if TYPE_CHECKING:
    from sortnet.learning.loop import Callback
    from sortnet.learning.state import Iteration, State

Write: TypeAlias = Callable[[dict[str, float], int, bool], None]  # figures, iteration, the last one


def check_tracker(where: str) -> str:
    """The same; `tensorboard:DIR`, `mlflow` or `mlflow:URI`, whose package is installed.

    Raises:
        SortNetError: if it is neither, or not installed.
    """
    kind, _, place = where.partition(":")
    if kind not in ("tensorboard", "mlflow") or (kind == "tensorboard" and not place):
        raise SortNetError(f"{where!r} is not tensorboard:DIR, mlflow or mlflow:URI")
    if find_spec(kind) is None:
        raise SortNetError(f"--log {kind} needs it: pip install 'sortnet[{kind}]'")
    return where


def tracker(where: str, run: str, params: Mapping[str, Any]) -> Callback:
    """A callback that logs the figures of every iteration; that of a resumed run continues.

    Args:
        where: as `check_tracker` has it; `mlflow` alone: as MLFLOW_TRACKING_URI says.
        run: the name of MLflow's run, in the experiment `sortnet`.
        params: settings that MLflow gets once.

    Raises:
        SortNetError: by the callback, whatever the tracker raises.
    """
    kind, _, place = where.partition(":")
    write: Write | None = None

    def log(record: Iteration, state: State) -> None:
        nonlocal write
        try:
            if write is None and kind == "tensorboard":
                write = _tensorboard(place, record.iteration)
            write = write or _mlflow(place, run, params)
            write(figures(record), record.iteration, state.finished)
        except Exception as error:
            raise SortNetError(f"cannot log to {where}: {one_line(error)}") from None

    return log


def figures(record: Iteration) -> dict[str, float]:
    """The numbers of an iteration: `map/vali`, `new_train`, `tp`, ...; NaN is left out.

    `@`, which trackers do not allow in a name, becomes `_at_`: `ndcg_at_10/vali`.
    """
    row: dict[str, Any] = {k: v for k, v in asdict(record).items() if isinstance(v, int | float)}
    for split, values in record.measures.items():
        row |= {f"{name.replace('@', '_at_')}/{split}": value for name, value in values.items()}
    return {name: float(value) for name, value in row.items() if math.isfinite(value)}


def _tensorboard(folder: str, first: int) -> Write:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(folder, purge_step=first)  # what is done again is logged again

    def write(values: dict[str, float], iteration: int, last: bool) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, iteration)
        writer.close() if last else writer.flush()

    return write


def _mlflow(uri: str, run: str, params: Mapping[str, Any]) -> Write:
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # its own waits are minutes
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri or None)
    experiment = client.get_experiment_by_name("sortnet")
    number = experiment.experiment_id if experiment else client.create_experiment("sortnet")
    known = [one for one in client.search_runs([number]) if one.info.run_name == run]
    key = (known[0] if known else client.create_run(number, run_name=run)).info.run_id
    for name, value in () if known else params.items():
        client.log_param(key, name, value)

    def write(values: dict[str, float], iteration: int, last: bool) -> None:
        for name, value in values.items():
            client.log_metric(key, name, value, step=iteration)
        client.update_run(key, status="FINISHED" if last else "RUNNING")

    return write
