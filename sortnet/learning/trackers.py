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
    """Make a callback that logs each iteration to TensorBoard or MLflow.

    Args:
        where: the tracker and its address: `tensorboard:DIR`, `mlflow` or `mlflow:URI`.
        run: the name of the run in the tracker.
        params: the settings of the run, which MLflow shows.
        say: a function that is called with a message if an iteration cannot be logged. The run
            continues.

    Raises:
        SortNetError: if there is no such tracker, or it is not installed.
    """
    kind, _, place = where.partition(":")
    if kind not in ("tensorboard", "mlflow") or (kind == "tensorboard" and not place):
        raise SortNetError(f"{where!r} is not tensorboard:DIR, mlflow or mlflow:URI")
    if find_spec(kind) is None:
        raise SortNetError(f"--log {kind} needs it: pip install 'sortnet[{kind}]'")
    writers: list[Any] = []  # the writer, when the first iteration has opened it

    def log(record: Iteration, state: State) -> None:
        """Log an iteration; an error becomes a message, and does not end the run."""
        try:
            if not writers:
                if kind == "mlflow":
                    writers.append(_open_mlflow(place, run, params))
                else:
                    from torch.utils.tensorboard import SummaryWriter

                    # TensorBoard hides earlier values of this and later iterations.
                    writers.append(SummaryWriter(place, purge_step=record.iteration))
            (writer,) = writers
            for name, value in _scalars(record).items():
                if math.isfinite(value):
                    writer.add_scalar(name, float(value), record.iteration)
            if state.finished:
                writer.close()
            else:
                writer.flush()
        except Exception as error:
            say(f"iteration {record.iteration} is not in {where}: {one_line(error)}")

    return log


def _scalars(record: Iteration) -> dict[str, float]:
    """Collect the numbers of an iteration's record by name, such as `epochs` or `MAP/vali`.

    Neither tracker allows "@" in a name, so that NDCG@10 becomes `NDCG_at_10`.
    """
    scalars = {}
    for name, value in vars(record).items():
        if isinstance(value, int | float):
            scalars[name] = value
    for part, measures in record.measures.items():
        for name, value in measures.items():
            scalars[f"{name.replace('@', '_at_')}/{part}"] = value
    return scalars


def _open_mlflow(uri: str, run: str, params: dict[str, Any]) -> Any:
    """Open a run in MLflow; return an object with the methods of TensorBoard's `SummaryWriter`.

    Args:
        uri: the URI of MLflow; if empty, MLflow's default.
        run: the name of the run, which is looked up or made in the experiment `sortnet`.
        params: the settings of the run, which MLflow shows.
    """
    from mlflow.tracking import MlflowClient

    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # its default waits for minutes
    client = MlflowClient(tracking_uri=uri or None)
    experiment = client.get_experiment_by_name("sortnet")
    experiment_id = experiment.experiment_id if experiment else client.create_experiment("sortnet")
    runs = client.search_runs([experiment_id], f"attributes.run_name = '{run}'")
    logged_run = runs[0] if runs else client.create_run(experiment_id, run_name=run)
    run_id = logged_run.info.run_id
    for name, value in params.items():
        client.log_param(run_id, name, value)
    return SimpleNamespace(
        add_scalar=lambda name, value, step: client.log_metric(run_id, name, value, step=step),
        flush=lambda: client.update_run(run_id, status="RUNNING"),
        close=lambda: client.update_run(run_id, status="FINISHED"),
    )
