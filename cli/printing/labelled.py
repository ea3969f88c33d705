"""Result of `sortnet label`: the number of answers, and the distance to the goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.printing.results import Result

_NOT_SHOWN = ("quit", "status")  # facts that are left out of the JSON


def labelled_result(labelled: Sequence[dict[str, Any]], criterion: str | None = None) -> Result:
    """Result with a row for each annotator and criterion.

    Args:
        labelled: facts of each annotator and criterion.
        criterion: the criterion of the only row, if it has one.
    """
    rows = [
        {name: fact for name, fact in facts.items() if name not in _NOT_SHOWN} for facts in labelled
    ]
    lines = [line for facts in labelled for line in _lines(facts, criterion)]
    # Annotators of the same criterion have the same status. It is printed once, after the last.
    text = [line for number, line in enumerate(lines) if line not in lines[number + 1 :]]
    return Result("labelled", rows, text=text)


def _lines(facts: dict[str, Any], criterion: str | None) -> list[str]:
    """Two lines: the number of answers, with why the labelling ended; the distance to the goal.

    If one of the two texts begins with the other, only the longer text is printed.
    """
    name = facts["annotator"] if criterion is None else f"{facts['annotator']}, {criterion}"
    failed = f", {facts['failed']} failed" if "failed" in facts else ""
    answered = f"{name}: {facts['answered']} answered, {facts['in_all']} in all{failed}"
    why = facts["why"]
    status = facts["status"]
    if status.startswith(why):
        return [answered, status]
    if why.startswith(status):
        return [answered, why]
    return [f"{answered}; {why}", status]
