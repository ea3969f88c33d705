"""Describe what resumes a run from any folder: its command, and the paths of its data.

`store.training.train_or_resume` resumes the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from store.runs.run import Run


def resume_command(out: str) -> str:
    """Return the command that resumes the run in the folder `out`."""
    return shlex.join(["sortnet", "train", "--resume", "--out", out])


def resume_call(out: str) -> str:
    """Return the Python call that resumes the run in the folder `out` with a judge as argument."""
    return f"store.training.resume({out!r}, judge=...)"


def again(run: Run) -> str | None:
    """Return the command or the Python call that resumes a run; None if the run is done."""
    if run.status == "done" or run.out is None:
        return None
    judge = run.judge
    if judge is not None:
        from store.runs.judge_record import is_stored_whole

        if not all(map(is_stored_whole, judge.values())):
            return resume_call(run.out)
    return resume_command(run.out)


def remembered(path: str) -> dict[str, str]:
    """Return what a run records about a path or pattern: its text, and the current folder."""
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
