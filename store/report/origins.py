"""Describe the model that a run began with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def from_which(facts: Mapping[str, Any]) -> str:
    """Name the folder of the model that a run began with, and the run that trained the model.

    Args:
        facts: the folder `path` of the model, and the id `run` of its run, if they are recorded.

    >>> from_which({"path": "old", "run": "3f2a5b"}), from_which({"path": "old", "run": None})
    ('old (run 3f2a5b)', 'old')
    """
    path = facts.get("path") or "a model"
    run = facts.get("run")
    return f"{path} (run {run})" if run else str(path)
