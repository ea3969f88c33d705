"""Paths of the data of a run, remembered so that a command in another folder finds the data."""

from __future__ import annotations

from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import Any


def remembered(path: str) -> dict[str, str]:
    """Return the facts to record about a path or pattern: its text, and the current folder."""
    return {"path": path, "folder": str(Path.cwd())}


def find_data(facts: Mapping[str, Any]) -> str:
    """Return the path of data from the facts that `remembered` recorded.

    A relative path begins at the folder in which it was typed. If there is no such file, perhaps
    because the folder was moved, the path begins at the current folder.

    >>> find_data({"path": "collection:essays#120", "folder": "/data"})
    'collection:essays#120'
    """
    path = str(facts["path"])
    if facts.get("folder") == str(Path.cwd()):
        return path  # the path as typed, so that the record of a resumed run stays the same
    path_from_folder = str(Path(str(facts.get("folder", ""))) / path)
    return path_from_folder if exists(path_from_folder) else path


def exists(path: str) -> bool:
    """Whether a file or folder has this path, or matches it as a pattern."""
    return Path(path).exists() or bool(glob(path))  # noqa: PTH207  # the pattern may be absolute
