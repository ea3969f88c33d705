"""`sortnet train --from MODEL`: the model that a run begins with.

The run keeps a copy in its folder, so that it is resumed whatever becomes of MODEL.
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
from store.report.origins import from_which
from store.runs.remembered_data import remembered
from store.service.named_model import load_model
from store.training.run_folder import Folder


@dataclass(frozen=True, eq=False)
class Origin:
    """The model that a run begins with, and the facts that its record has of it.

    Attributes:
        model: with the weights.
        facts: `path` and `folder` as typed, the `run` that made it (None: none of a store), and
            `weights_sha256`.
    """

    model: Model
    facts: dict[str, Any]


def refuse_own_folder(path: str | None, folder: Folder) -> None:
    """Refuse to write the new model into the folder of the model to begin with."""
    if path is not None and Path(path).resolve() == folder.path.resolve():
        raise SortNetError(
            f"{path}: the run is to begin with this model, and would replace it: give another "
            "folder with --out"
        )


def find_origin(
    path: str | None, folder: Folder, known: Mapping[str, Any] | None, progress: Progress
) -> Origin | None:
    """The model that a new or a resumed run begins with; None: random weights.

    Args:
        path: MODEL, as typed.
        folder: the folder of the run, which has a copy of the model of a resumed run.
        known: the record of the run to resume.

    Raises:
        ModelError: if the model is of another kind than SortNet, or the folder is damaged.
        SortNetError: if the run to resume began with another model.
    """
    typed = None if path is None else as_model(load_model(path, progress), path)
    if known is None:
        if typed is None:
            return None
        run = typed.info.get("run")
        return Origin(
            typed, {**remembered(str(path)), "run": run, "weights_sha256": typed.weights_sha256()}
        )
    facts = known.get("from")
    expected = None if facts is None else facts["weights_sha256"]
    if typed is not None and typed.weights_sha256() != expected:
        began = "random weights" if facts is None else f"other weights, of {from_which(facts)}"
        raise SortNetError(f"cannot resume the run in {folder} from {path}: it began with {began}")
    if facts is None:
        return None
    model = as_model(load_ranker(folder.origin), folder.origin)
    if model.weights_sha256() != expected:
        raise ModelError(f"{folder.origin}: not the model that the run began with")
    return Origin(model, facts)
