"""A labelling that has ended: the answers of each criterion, and how far the goal is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.printing.results import Result

_NOT_SHOWN = ("quit", "status")  # facts that are no columns


def labelled_result(labelled: Sequence[dict[str, Any]], criterion: str | None = None) -> Result:
    """A row for each criterion that was labelled, or for the only question.

    Args:
        criterion: the criterion of the only row, if it has one.
    """
    rows = [
        {name: fact for name, fact in facts.items() if name not in _NOT_SHOWN} for facts in labelled
    ]
    lines = [line for facts in labelled for line in _lines(facts, criterion)]
    text = [*reversed(dict.fromkeys(reversed(lines)))]  # the status of several annotators once
    return Result("labelled", rows, text=text)


def _lines(facts: dict[str, Any], criterion: str | None) -> list[str]:
    """Count the answers and say why the labelling ended; then, how far the goal is."""
    who = facts["annotator"] if criterion is None else f"{facts['annotator']}, {criterion}"
    failed = f", {facts['failed']} failed" if "failed" in facts else ""
    answered = f"{who}: {facts['answered']} answered, {facts['in_all']} in all{failed}"
    why, status = facts["why"], facts["status"]
    if status.startswith(why):
        return [answered, status]
    if why.startswith(status):
        return [answered, why]
    return [f"{answered}; {why}", status]
