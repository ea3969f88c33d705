"""Describe the model that a run kept: its ranker, its RankQuality, and why it was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Kept: TypeAlias = Mapping[str, Any]  # the value of `store.Run.kept`: kind, measure, figures, reason
_NAMES = {"sortnet": "the comparator", "posterior": "the posterior"}


def kept_name(model: Kept) -> str:
    """Name the ranker that a run kept.

    >>> kept_name({"kind": "posterior"})
    'the posterior'
    """
    kind = str(model["kind"])
    return _NAMES.get(kind, kind)


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
    return f"{kept_name(model)}: {', '.join(figures)}; {model['reason']}"
