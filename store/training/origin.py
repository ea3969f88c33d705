"""The model that a run begins with, from `sortnet train --from MODEL`.

The run keeps a copy of the model in its folder, so that it can be resumed without MODEL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortnet.core import Progress
from sortnet.errors import ModelError, SortNetError
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.sortnet import Model, as_model
from store.report.models_of_run import from_which
from store.runs.remembered_data import remembered
from store.service.named_model import load_model
from store.training.run_folder import Folder


@dataclass(frozen=True, eq=False)
class Origin:
    """The model that a run begins with, and the facts about it in the record of the run.

    Attributes:
        model: the model, with its weights.
        facts: the `path` as typed and the `folder` in which it was typed, the id of the `run` that
            made the model (None if no run of a store did), and `weights_sha256`.
    """

    model: Model
    facts: dict[str, Any]


def refuse_own_folder(path: str | None, folder: Folder) -> None:
    """Refuse to replace the model that the training begins with by the new model."""
    if path is not None and Path(path).resolve() == folder.path.resolve():
        raise SortNetError(
            f"{path}: the run is to begin with this model, and would replace it: give another "
            "folder with --out"
        )


def find_origin(
    path: str | None, folder: Folder, record: Mapping[str, Any] | None, progress: Progress
) -> Origin | None:
    """Find the model that a new or a resumed run begins with.

    Return None if the run begins with random weights.

    Args:
        path: the argument MODEL of `--from`; None if it was not given.
        folder: the folder of the run, where a resumed run has a copy of the model.
        record: the record of the run to resume; None for a new run.
        progress: called with a line about each step.

    Raises:
        ModelError: if the model is of another kind than SortNet, or the folder is damaged.
        SortNetError: if the run to resume began with another model.
    """
    named_model = None if path is None else as_model(load_model(path, progress), path)
    if record is not None:
        facts = record.get("from")
        recorded_hash = None if facts is None else facts["weights_sha256"]
        if named_model is not None and named_model.weights_sha256() != recorded_hash:
            began = f"other weights, of {from_which(facts)}" if facts else "random weights"
            raise SortNetError(
                f"cannot resume the run in {folder} from {path}: it began with {began}"
            )
        if facts is None:
            return None
        model = as_model(load_ranker(folder.origin), folder.origin)
        if model.weights_sha256() != recorded_hash:
            raise ModelError(f"{folder.origin}: not the model that the run began with")
        return Origin(model, facts)
    if named_model is None:
        return None
    facts = {
        **remembered(str(path)),
        "run": named_model.info.get("run"),
        "weights_sha256": named_model.weights_sha256(),
    }
    return Origin(named_model, facts)
