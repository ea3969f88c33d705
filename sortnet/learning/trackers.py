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
    """Log to `tensorboard:DIR`, `mlflow` or `mlflow:URI`, there in `run`; what fails is said."""
    kind, _, place = where.partition(":")
    if kind not in ("tensorboard", "mlflow") or (kind == "tensorboard" and not place):
        raise SortNetError(f"{where!r} is not tensorboard:DIR, mlflow or mlflow:URI")
    if find_spec(kind) is None:
        raise SortNetError(f"--log {kind} needs it: pip install 'sortnet[{kind}]'")
    opened: list[Any] = []

    def log(record: Iteration, state: State) -> None:
        row = {k: v for k, v in vars(record).items() if isinstance(v, int | float)}
        for part, named in record.measures.items():  # neither takes an "@" in a name
            row |= {f"{name.replace('@', '_at_')}/{part}": value for name, value in named.items()}
        try:
            if not opened:
                opened.append(_open(kind, place, run, params, record.iteration))
            for name in (name for name, value in row.items() if math.isfinite(value)):
                opened[0].add_scalar(name, float(row[name]), record.iteration)
            opened[0].close() if state.finished else opened[0].flush()
        except Exception as error:
            say(f"iteration {record.iteration} is not in {where}: {one_line(error)}")

    return log


def _open(kind: str, place: str, run: str, params: dict[str, Any], first: int) -> Any:
    if kind == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(place, purge_step=first)  # what is done again is logged again
    from mlflow.tracking import MlflowClient

    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # its own waits are minutes
    client = MlflowClient(tracking_uri=place or None)
    found = client.get_experiment_by_name("sortnet")
    number = found.experiment_id if found else client.create_experiment("sortnet")
    known = client.search_runs([number], f"attributes.run_name = '{run}'")  # one to resume
    key = (known or [client.create_run(number, run_name=run)])[0].info.run_id
    for name, value in params.items():
        client.log_param(key, name, value)
    return SimpleNamespace(
        add_scalar=lambda name, value, i: client.log_metric(key, name, value, step=i),
        flush=lambda: client.update_run(key, status="RUNNING"),
        close=lambda: client.update_run(key, status="FINISHED"),
    )
