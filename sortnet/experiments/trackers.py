"""Log every iteration to TensorBoard and MLflow, as callbacks of the loop."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from sortnet.learning.loop import Callback
    from sortnet.learning.state import Iteration, State

_SPLITS = ("train", "vali")
_COUNTS = ("comparisons", "miscompared", "new")
_ALONE = ("tp", "vp", "epochs", "kept_epoch", "train_loss", "vali_loss",
          "seconds_sort", "seconds_train")  # fmt: skip

_FIRST_CONTACT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1", "MLFLOW_HTTP_REQUEST_TIMEOUT": "4"}


def figures(record: Iteration) -> dict[str, float]:
    """The logged values of an iteration: `map/vali`, `new/train`, `tp`, ...; NaN is left out.

    `@`, which trackers do not allow in a name, becomes `_at_`: `ndcg_at_10/vali`.
    """
    row = asdict(record)
    named = {f"{name}/{split}": row[f"{name}_{split}"] for name in _COUNTS for split in _SPLITS}
    named |= {name: row[name] for name in _ALONE} | {"quality": row["quality"]}
    for split, values in record.measures.items():
        named |= {f"{_safe(name)}/{split}": value for name, value in values.items()}
    return {name: float(value) for name, value in named.items() if math.isfinite(value)}


def _safe(name: str) -> str:
    """
    >>> _safe("ndcg@10")
    'ndcg_at_10'
    """
    return re.sub(r"[^\w.-]", "_", name.replace("@", "_at_"))


def tensorboard_callback(folder: str | Path) -> Callback:
    """Write every iteration's figures where `tensorboard --logdir FOLDER` reads them.

    A resumed run writes into the same folder; what was written before for iterations that are
    repeated is removed.

    Args:
        folder: of the event files; made at the first iteration.

    Raises:
        SortNetError: if tensorboard is not installed, or the folder cannot be written.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise _missing("tensorboard") from None
    writer: SummaryWriter | None = None

    def log(record: Iteration, state: State) -> None:
        nonlocal writer
        try:
            writer = writer or SummaryWriter(str(folder), purge_step=record.iteration)
            for name, value in figures(record).items():
                writer.add_scalar(name, value, record.iteration)
            writer.flush()
            if state.finished:
                writer.close()
                writer = None
        except OSError as error:
            raise SortNetError(f"cannot write {folder}: {error.strerror or error}") from None

    return log


def mlflow_callback(
    uri: str | None = None,
    *,
    experiment: str = "sortnet",
    run: str | None = None,
    params: Mapping[str, Any] | None = None,
) -> Callback:
    """Log every iteration's figures as metrics of one MLflow run.

    Args:
        uri: of the tracking server or its folder; None: as MLflow is set up (MLFLOW_TRACKING_URI).
        experiment: created if there is none of that name.
        run: the run's name; a run of that name in the experiment is continued, as a resumed run
            does. None: always a new one.
        params: settings to log once.

    Raises:
        SortNetError: if mlflow is not installed, or cannot log.
    """
    try:
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
    except ImportError:
        raise _missing("mlflow") from None
    client: MlflowClient | None = None
    key = ""

    def log(record: Iteration, state: State) -> None:
        nonlocal client, key
        try:
            if client is None:
                with _impatient():
                    client = MlflowClient(tracking_uri=uri)
                    key = _mlflow_run(client, experiment, run, params or {})
            for name, value in figures(record).items():
                client.log_metric(key, name, value, step=record.iteration)
            if state.finished:
                client.set_terminated(key)
        except MlflowException as error:
            raise SortNetError(f"mlflow: {' '.join(str(error).split())}") from None

    return log


@contextmanager
def _impatient() -> Iterator[None]:
    """Short timeouts for the first request: a misspelt address fails at once, not after minutes.

    Later requests have MLflow's own timeouts, and so has the first if the user has set them.
    """
    ours = {name: value for name, value in _FIRST_CONTACT.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _mlflow_run(client: Any, experiment: str, name: str | None, params: Mapping[str, Any]) -> str:
    """The id of the run to log to: one of that name, or a new one."""
    found = client.get_experiment_by_name(experiment)
    number = client.create_experiment(experiment) if found is None else found.experiment_id
    for known in client.search_runs([number]) if name else ():
        if known.info.run_name == name:
            client.update_run(known.info.run_id, status="RUNNING")
            return str(known.info.run_id)
    made = client.create_run(number, run_name=name)
    for key, value in params.items():
        client.log_param(made.info.run_id, key, value)
    return str(made.info.run_id)


def _missing(extra: str) -> SortNetError:
    return SortNetError(f"logging to {extra} needs it: pip install 'sortnet[{extra}]'")
