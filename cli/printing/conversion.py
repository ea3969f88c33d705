"""Result of `sortnet doctor --convert`: what was brought to the new store, and what was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.printing.results import Result
from sortnet.messages import count

if TYPE_CHECKING:
    from store.database.conversion import Converted


def conversion_result(converted: Converted) -> Result:
    """Make the result with what was brought, and a note about the runs that were not."""
    rows = converted.rows
    brought = {
        "collections": rows["collections"] - converted.criteria,
        "criteria": converted.criteria,
        "items": rows["items"],
        "annotators": rows["annotators"],
        "judgements": rows["judgements"],
        "decisions": rows["decisions"],
        "batches": rows["batches"],
    }
    value = {
        "old": converted.old,
        "new": converted.new,
        "brought": brought,
        "runs_not_converted": converted.runs,
    }
    lines = [f"{converted.new}: brought from {converted.old}"]
    lines += [f"  {n} {name}" for name, n in brought.items()]
    runs = f"runs are not converted: {converted.old} keeps {count(converted.runs, 'run')}"
    return Result("converted", value, text=lines, notes=[runs])
