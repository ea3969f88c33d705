"""The folder of a run, with its model and with the files to resume the run.

See `sortnet.rankers.model_folder` about the files of the model.

model.json, weights-*.safetensors   the best model so far
state.safetensors                   the state after the last iteration
from/                               the model that the run began with, if it has `--from`
run.json                            the run's id, store, settings and data, written once
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortnet.core import SPLITS, Progress
from sortnet.errors import ModelError, SortNetError
from sortnet.files import check_fields, make_folder, parse_document, shown, write_atomically
from sortnet.rankers.load_ranker import load_ranker
from sortnet.rankers.model import Model, as_model, saved_values
from sortnet.rankers.model_folder import read_bytes
from store.database.claims import lock
from store.report.run_texts import from_which
from store.runs.resuming import remembered
from store.service.named_model import load_model

FORMAT_VERSION = 2
_RUN = "sortnet-run"
_RUN_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("run", "store", "command", "settings_sha256"), str),
    "threads": int,
    **dict.fromkeys(("asked", "config", "data"), dict),
}
# {kind of judge: value of `judged_by` in run.json}. The values of programs and models are the names
# of their options in version 0.4.
JUDGED_BY = {"program": "--judge", "language model": "--model", "function": "function"}
_ORIGIN_FIELDS = {"path": str, "folder": str, "run": str | None, "weights_sha256": str}


class Folder:
    """The folder named by `sortnet train --out`, with its record run.json."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.state = self.path / "state.safetensors"
        self.origin = self.path / "from"
        self._run = self.path / "run.json"

    def __str__(self) -> str:
        return str(self.path)

    @property
    def has_model(self) -> bool:
        """Whether the folder has a model, or the state of a run that will write a model."""
        return (self.path / "model.json").exists() or self.state.exists()

    @property
    def is_finished(self) -> bool:
        """Whether the run in the folder has done its last iteration."""
        if not self.state.exists():
            return False
        return bool(saved_values(read_bytes(self.state), self.state)["finished"])

    def refuse_if_taken(self) -> None:
        """Raise a SortNetError if the folder has a model, which a new run would replace."""
        if self.has_model:
            raise SortNetError(
                f"{self} has a model already: resume its run, overwrite it, or choose another "
                "folder (--resume, --overwrite or --out; in Python resume(), overwrite or out)"
            )

    def clear(self) -> None:
        """Remove the record and state of the last run; the model stays until a run replaces it."""
        for path in (self.state, self._run):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.origin, ignore_errors=True)

    def begin(self, record: Mapping[str, Any], origin: Model | None) -> None:
        """Remove the last run, and write the model to begin with and the record of a new run."""
        self.clear()
        if origin is not None:
            origin.save(self.origin)
        self.write_run(record)

    def run(self) -> dict[str, Any] | None:
        """Read and check the record of the run; None if there is no record.

        Raises:
            ModelError: on a damaged record.
        """
        path = self._run
        if not path.exists():
            return None
        record = parse_document(read_bytes(path), path, _RUN, (FORMAT_VERSION,), _RUN_FIELDS)
        # Damaged settings are refused here, before a comparator made by them takes much memory.
        if record["settings_sha256"] != _settings_sha256(record):
            raise ModelError(f"{path}: its settings were changed after it was written")
        check_fields(record["data"], dict.fromkeys(SPLITS, dict), path)
        for facts in record["data"].values():
            check_fields(facts, {"path": str, "fingerprint": str}, path)
        if record["threads"] < 1:
            raise ModelError(f"{path}: threads cannot be {record['threads']}")
        if record.get("judged_by") not in (None, *JUDGED_BY.values()):
            raise ModelError(f"{path}: judged_by cannot be {shown(record['judged_by'])}")
        if "from" in record:
            check_fields(record["from"], _ORIGIN_FIELDS, path)
        return record

    def write_run(self, record: Mapping[str, Any]) -> None:
        """Write the record of the run, with a hash of its settings."""
        document = {
            "format": _RUN,
            "format_version": FORMAT_VERSION,
            **record,
            "settings_sha256": _settings_sha256(record),
        }
        text = json.dumps(document, indent=2) + "\n"
        write_atomically(self._run, lambda path: path.write_text(text, encoding="utf-8"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Create and lock the folder in a `with` block; remove a new folder that stays empty.

        Raises:
            SortNetError: if another process has locked the folder.
        """
        is_new = not self.path.exists()
        make_folder(self.path)
        handle = os.open(self.path, os.O_RDONLY)
        try:
            if not lock(handle):
                raise SortNetError(f"{self}: another sortnet train is running in this folder")
            yield
        finally:
            os.close(handle)
            if is_new:
                with suppress(OSError):  # the folder is not empty
                    self.path.rmdir()


def _settings_sha256(record: Mapping[str, Any]) -> str:
    """Hash a record's settings, as requested and to train with, and the model to begin with."""
    settings = [record[name] for name in ("asked", "config", "from") if name in record]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


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
