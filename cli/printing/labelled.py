"""Result of `sortnet label`: the number of answers, and the distance to the goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.printing.results import Result
from sortnet.judges.unanswered import skipped_text

_NOT_SHOWN = ("quit", "status")  # facts that are left out of the JSON


def labelled_result(labelled: Sequence[dict[str, Any]], criterion: str | None = None) -> Result:
    """Make the result with a row for each annotator and criterion.

    Args:
        labelled: the facts about each annotator and criterion.
        criterion: the criterion, if all facts are about the same criterion.
    """
    rows = []
    lines = list[str]()
    for facts in labelled:
        rows.append({name: fact for name, fact in facts.items() if name not in _NOT_SHOWN})
        lines += _lines(facts, criterion)
    # Annotators of the same criterion have the same status line. It is printed once, after the
    # last annotator.
    text = [line for number, line in enumerate(lines) if line not in lines[number + 1 :]]
    return Result("labelled", rows, text=text)


def _lines(facts: dict[str, Any], criterion: str | None) -> list[str]:
    """Write two lines: the number of answers and why the labelling ended, then the status.

    If the reason begins with the status, or the status with the reason, only the longer text is
    printed.
    """
    annotator = facts["annotator"]
    name = annotator if criterion is None else f"{annotator}, {criterion}"
    counts = [f"{facts['answered']} answered", f"{facts['in_all']} in all"]
    if facts.get("skipped"):
        counts.append(skipped_text(facts["skipped"]))
    if "failed" in facts:
        counts.append(f"{facts['failed']} failed")
    answered = f"{name}: {', '.join(counts)}"
    reason = facts["why"]
    status = facts["status"]
    if status.startswith(reason):
        return [answered, status]
    if reason.startswith(status):
        return [answered, reason]
    return [f"{answered}; {reason}", status]
