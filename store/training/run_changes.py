"""Refuse to resume a run with other settings or data than it was started with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from sortnet.config import Config
from sortnet.errors import SortNetError
from store.training.job import TrainingJob
from store.training.run_folder import Folder


def differences(config: Config, before: Config) -> list[str]:
    """List the settings whose values have changed, such as `lr 0.01, not 0.005`."""
    values_before = before.flat()
    return [
        f"{name} {value}, not {values_before[name]}"
        for name, value in config.flat().items()
        if value != values_before[name]
    ]


def _named_columns(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns named by the user, without edges of bins, which depend on the data."""
    columns = data["train"].get("columns", {})
    return {name: value for name, value in columns.items() if name != "edges"}


def refuse_changes(job: TrainingJob, record: Mapping[str, Any], folder: Folder) -> None:
    """Refuse settings or data that differ from the settings or data at the start of the run."""
    changed = differences(job.config, Config.from_json(record["asked"]))
    for split, facts in job.data.items():
        recorded = record["data"].get(split, facts)  # a part without a record has not changed
        if facts["fingerprint"] == recorded["fingerprint"]:
            continue
        name = "data" if job.is_divided else f"{split} data"
        change = f"{name} {facts['path']} (its content differs from {recorded['path']})"
        if change not in changed:  # the parts of a divided file make the same text
            changed.append(change)
    if _named_columns(job.data) != _named_columns(record["data"]):
        changed.append("other columns are named")
    if changed:
        raise SortNetError(
            f"cannot resume the run in {folder}, it was started otherwise: {'; '.join(changed)}"
            f"{_how_to_train_on(folder)}"
        )


def _how_to_train_on(folder: Folder) -> str:
    """Return a hint at the command that trains the run's model further.

    The hint is empty if the run has written no model yet.
    """
    if not (folder.path / "model.json").exists():
        return ""
    return f"; train on: sortnet train DATA --from {shlex.quote(str(folder))} --out NEW"
