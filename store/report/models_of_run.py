"""Describe the models of a run: the model that it began with, and the model that it kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Kept: TypeAlias = Mapping[str, Any]  # the value of `store.Run.kept`: kind, measure, figures, reason
_NAMES = {"sortnet": "the comparator", "posterior": "the posterior"}


def kept_figure(model: Kept) -> float:
    """Return the value of the measure for the kept model."""
    return float(model["figures"][model["kind"]])


def kept_model(model: Kept) -> str:
    """Describe the kept model: its measure, the measures of the other models, and the reason.

    >>> figures = {"sortnet": 0.75, "posterior": 1.0}
    >>> kept_model({"kind": "posterior", "measure": "accuracy", "figures": figures,
    ...     "reason": "better on the judgements held out"})
    "the posterior: accuracy 1.0000, the comparator's is 0.7500; better on the judgements held out"
    """
    figures = [f"{model['measure']} {kept_figure(model):.4f}"]
    for kind, figure in model["figures"].items():
        if kind != model["kind"]:
            figures.append(f"{_NAMES.get(kind, kind)}'s is {float(figure):.4f}")
    name = _NAMES.get(model["kind"], model["kind"])
    return f"{name}: {', '.join(figures)}; {model['reason']}"


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
