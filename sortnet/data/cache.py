"""Parsed files kept as memory-mapped arrays, so that the second read is nearly free.

    folder/<name>-<hash of path and options>/<hash of the file's state>/{meta.json, *.npy}

A file that changed has another state and so another folder. Folders are written atomically.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sortnet.core import NamedColumns, Queries
from sortnet.errors import ModelError
from sortnet.files import data_files, reading, sample_hash
from sortnet.tables.roles import LabelledColumns

FORMAT = 2
_ARRAYS = ("features", "grades", "offsets", "qids", "rows", "docids")
_LARGE = ("features", "docids")
_ABANDONED_AFTER = 24 * 3600.0


def default_cache_dir() -> Path:
    """Where a user's caches belong: `$XDG_CACHE_HOME/sortnet`, by default `~/.cache/sortnet`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "sortnet"


def cached(
    path: Path, folder: Path, options: dict[str, Any], parse: Callable[[], Queries]
) -> Queries:
    """Read the Queries of a file, or of several, from the cache, or parse and cache them.

    What a describer made of texts is not cached. A file's state is its size, its modification time
    and a hash of samples of its content;
    `options` are those of the parser. A cache that cannot be written is ignored. The features are
    mapped read-only: their pages are page cache.

    Raises:
        DataError: if the file cannot be read or parsed.
    """
    known: list[Any] = [FORMAT]
    with reading(path):
        for each in data_files(path):
            stat = each.stat()
            known += [stat.st_size, stat.st_mtime_ns, sample_hash(each)]
    state = _hash(known)
    home = folder / f"{path.name}-{_hash([os.fspath(path.resolve()), options])}"
    kept = _load(home / state, str(path))
    if kept is not None:
        return kept
    queries = parse()
    if queries.describer is not None:
        return queries
    with suppress(OSError):
        _save(queries, home, state)
        return _load(home / state, str(path)) or queries  # what was parsed takes memory
    return queries


def _hash(what: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=8).hexdigest()


def _load(folder: Path, source: str) -> Queries | None:
    """The arrays of a folder; None if any is missing or damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        arrays: dict[str, Any] = dict.fromkeys(_ARRAYS)
        for name, sample in meta["arrays"].items():
            file = folder / f"{name}.npy"
            if sample_hash(file) != sample:
                return None
            # Copy on write counts as memory of the process, all of it, so large arrays are not.
            mode: Literal["r", "c"] = "r" if name in _LARGE else "c"
            arrays[name] = np.load(file, mmap_mode=mode, allow_pickle=False).view(np.ndarray)
        names = meta["feature_names"]
        columns = NamedColumns.from_json(meta["columns"], folder)
        roles = None if meta["roles"] is None else _roles(meta["roles"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ModelError):
        return None
    return Queries(
        **arrays,
        feature_names=names and tuple(names),
        source=source,
        columns=columns,
        roles=roles,
    )


def _roles(values: dict[str, Any]) -> LabelledColumns:
    """The roles of a table's columns out of JSON, which has lists for tuples."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        fields[name] = tuple(value) if isinstance(value, list) else value
    return LabelledColumns(**fields)


def _save(queries: Queries, home: Path, state: str) -> None:
    """Write a temporary folder, rename it into place, and remove older states."""
    home.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=home))
    try:
        samples = {}
        for name in _ARRAYS:
            if getattr(queries, name) is not None:
                np.save(temporary / f"{name}.npy", getattr(queries, name), allow_pickle=False)
                samples[name] = sample_hash(temporary / f"{name}.npy")
        meta = {
            "arrays": samples,
            "feature_names": queries.feature_names,
            "columns": queries.columns.to_json(),
            "roles": queries.roles and vars(queries.roles),
        }
        (temporary / "meta.json").write_text(json.dumps(meta))
        shutil.rmtree(home / state, ignore_errors=True)  # only a damaged one can be there
        temporary.rename(home / state)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for other in home.iterdir():
        writing = other.name.startswith(".writing-")
        with suppress(OSError):
            abandoned = time.time() - other.stat().st_mtime > _ABANDONED_AFTER
            if other.name != state and (abandoned or not writing):
                shutil.rmtree(other, ignore_errors=True)
