"""Cache of parsed files as memory-mapped arrays, so that a file is parsed only once.

    folder/<name>-<hash of path and options>/<hash of the file's state>/{meta.json, *.npy}

The state is the size, time and content of the file, so a changed file has another folder. Folders
are written atomically.
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
from sortnet.files import data_files, reading, sample_hash, user_folder
from sortnet.tables.roles import Columns

FORMAT = 3
_ARRAYS = ("features", "grades", "offsets", "qids", "rows", "docids", "origins")
_LARGE = ("features", "docids")
_ABANDONED_AFTER = 24 * 3600.0  # seconds after which a temporary folder is left from a killed run


def default_cache_dir() -> Path | None:
    """Return the user's cache folder: `$XDG_CACHE_HOME/sortnet`, by default `~/.cache/sortnet`.

    A user without a home folder has none.
    """
    folder = user_folder("XDG_CACHE_HOME", ".cache")
    return None if folder is None else folder / "sortnet"


def cached(
    path: Path, folder: Path, options: dict[str, Any], parse: Callable[[], Queries]
) -> Queries:
    """Read Queries from the cache, or parse their file and store them in the cache.

    A file's state is its size, its modification time and a hash of samples of its content.
    Features that a describer makes are not cached. A cache that cannot be written is ignored. The
    features are mapped read-only, so the operating system can free their memory.

    Args:
        path: the file, or several files as `data_files` lists them.
        folder: the cache folder.
        options: options of the parser. Queries are found again only with equal options.
        parse: parses the file.

    Raises:
        DataError: if the file cannot be read or parsed.
    """
    state = _state_of_files(path)
    key = _hash([os.fspath(path.resolve()), options])
    home = folder / f"{path.name}-{key}"
    cached_queries = _load(home / state, str(path))
    if cached_queries is not None:
        return cached_queries
    queries = parse()
    if queries.describer is not None:
        return queries
    with suppress(OSError):
        _save(queries, home, state)
        # The mapped arrays take less memory than the arrays that were parsed.
        return _load(home / state, str(path)) or queries
    return queries


def _state_of_files(path: Path) -> str:
    """Compute a hash of the state of a file, or of several files, and of the cache's format.

    Raises:
        DataError: if a file cannot be read.
    """
    states: list[Any] = [FORMAT]
    with reading(path):
        for file in data_files(path):
            stat = file.stat()
            states += [stat.st_size, stat.st_mtime_ns, sample_hash(file)]
    return _hash(states)


def _hash(values: list[Any]) -> str:
    text = json.dumps(values, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _load(folder: Path, source: str) -> Queries | None:
    """Load the Queries in a cache folder; None if an array is missing or damaged."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        arrays: dict[str, Any] = dict.fromkeys(_ARRAYS)
        for name, sample in meta["arrays"].items():
            file = folder / f"{name}.npy"
            if sample_hash(file) != sample:
                return None
            # All pages of a copy-on-write map count as memory of the process, so large arrays are
            # mapped read-only.
            mode: Literal["r", "c"] = "r" if name in _LARGE else "c"
            arrays[name] = np.load(file, mmap_mode=mode, allow_pickle=False).view(np.ndarray)
        names = meta["feature_names"]
        columns = NamedColumns.from_json(meta["columns"], folder)
        roles = None if meta["roles"] is None else _parse_roles(meta["roles"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError, ModelError):
        return None
    return Queries(
        **arrays,
        feature_names=None if names is None else tuple(names),
        source=source,
        columns=columns,
        roles=roles,
        dates=() if roles is None else roles.dates,
    )


def _parse_roles(values: dict[str, Any]) -> Columns:
    """Convert the JSON object of a table's column roles, in which tuples have become lists."""
    fields: dict[str, Any] = {}
    for name, value in values.items():
        fields[name] = tuple(value) if isinstance(value, list) else value
    return Columns(**fields)


def _save(queries: Queries, home: Path, state: str) -> None:
    """Write the Queries to the folder `home/state`, and remove the folders of earlier states.

    Args:
        queries: the queries.
        home: folder of the file that was parsed, with a folder for each of the file's states.
        state: hash of the present state of the file.
    """
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
            "roles": None if queries.roles is None else vars(queries.roles),
        }
        (temporary / "meta.json").write_text(json.dumps(meta))
        shutil.rmtree(home / state, ignore_errors=True)  # a folder of this state is damaged
        temporary.rename(home / state)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _remove_other_states(home, state)


def _remove_other_states(home: Path, state: str) -> None:
    """Remove the folders of other states, and temporary folders that are abandoned."""
    for entry in home.iterdir():
        if entry.name == state:
            continue
        with suppress(OSError):
            is_abandoned = time.time() - entry.stat().st_mtime > _ABANDONED_AFTER
            is_temporary = entry.name.startswith(".writing-")
            is_being_written = is_temporary and not is_abandoned
            if not is_being_written:
                shutil.rmtree(entry, ignore_errors=True)
