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
from pathlib import Path
from typing import Any

from sortnet.core import SPLITS
from sortnet.errors import ModelError, SortNetError
from sortnet.files import check_fields, make_folder, parse_document, shown, write_atomically
from sortnet.rankers.model import saved_values
from sortnet.rankers.model_folder import read_bytes
from sortnet.rankers.sortnet import Model
from store.database.claims import lock

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
                f"{self} has a model already: --resume resumes its run, --overwrite replaces it, "
                "--out chooses another folder"
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
        _check_record(record, path)
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


def _check_record(record: Mapping[str, Any], path: Path) -> None:
    """Raise a ModelError if the record of a run is damaged.

    Args:
        record: the record, which has the fields of `_RUN_FIELDS`.
        path: the path of the record, for messages.
    """
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


def _settings_sha256(record: Mapping[str, Any]) -> str:
    """Hash a record's settings, as requested and to train with, and the model to begin with."""
    settings = [record[name] for name in ("asked", "config", "from") if name in record]
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
