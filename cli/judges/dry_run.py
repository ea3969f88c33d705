"""Result of `--dry-run`: what judges would be sent, and where; nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from cli.printing.results import Result
from sortnet.judges.estimate import DryRun


def dry_run_result(runs: Sequence[DryRun]) -> Result:
    """Make the result with a question for each judge, and the calls, tokens and cost."""
    text: list[str] = []
    for run in runs:
        text += [f"{run.judge} would be sent to {run.to}:", "", run.question, ""]
        text.append(f"every item once: {run.once}")
        text.append(f"each further 100 questions: {run.hundred}")
        if run.planned is not None:
            text.append(f"{run.planned.pairs:,} answers: {run.planned}")
        text.append("")
    text.append("nothing was sent")
    return Result("dry_run", [asdict(run) for run in runs], text=text)
