"""A labelling that has ended: the answers about each criterion, and the distance to the goal."""

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
    # Several annotators have the same status: it is kept only where it comes last.
    text = [*reversed(dict.fromkeys(reversed(lines)))]
    return Result("labelled", rows, text=text)


def _lines(facts: dict[str, Any], criterion: str | None) -> list[str]:
    """The number of answers and why the labelling ended; then, the distance to the goal."""
    name = facts["annotator"] if criterion is None else f"{facts['annotator']}, {criterion}"
    failed = f", {facts['failed']} failed" if "failed" in facts else ""
    answered = f"{name}: {facts['answered']} answered, {facts['in_all']} in all{failed}"
    why, status = facts["why"], facts["status"]
    if status.startswith(why):
        return [answered, status]
    if why.startswith(status):
        return [answered, why]
    return [f"{answered}; {why}", status]
