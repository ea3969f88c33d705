"""Result of `sortnet label`: the number of answers, and the distance to the goal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cli.printing.results import Result
from store.asking.answer_summary import AnswerSummary, cost_text

_NOT_SHOWN = ("quit", "status", "summary")  # facts that are left out of the JSON


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
    """Write the number of answers and why the labelling ended, the cost if known, and the status.

    If the reason begins with the status, or the status with the reason, only the longer text is
    printed.
    """
    annotator = facts["annotator"]
    name = annotator if criterion is None else f"{annotator}, {criterion}"
    # Of a person nothing else is told.
    summary = facts.get("summary") or AnswerSummary(facts["answered"], facts["in_all"]).text
    answered = f"{name}: {summary}"
    cost = [text for text in [cost_text(facts.get("cost_in_all"))] if text]
    reason = facts["why"]
    status = facts["status"]
    if status.startswith(reason):
        return [answered, *cost, status]
    if reason.startswith(status):
        return [answered, *cost, reason]
    return [f"{answered}; {reason}", *cost, status]
