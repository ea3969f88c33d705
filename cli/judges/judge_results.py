"""Results about judges: what a dry run would send, and how `sortnet doctor` found a judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from cli.printing.results import Result
from sortnet.judges.budget import amount
from sortnet.judges.trial import EXPECTED, DryRun, JudgeCheck
from sortnet.messages import count


def dry_run_result(runs: Sequence[DryRun]) -> Result:
    """Make the result with a question for each judge, and the calls, tokens and cost."""
    text: list[str] = []
    for run in runs:
        text += [f"a question to {_name(run)}:", "", run.question, ""]
        text.append(f"every item once: {run.once}")
        text.append(f"each further 100 questions: {run.hundred}")
        if run.planned is not None:
            text.append(f"{run.planned.pairs:,} answers: {run.planned}")
        text.append("")
    text.append("nothing was sent")
    return Result("dry_run", [asdict(run) for run in runs], text=text)


def _name(judge: DryRun | JudgeCheck) -> str:
    """Name a judge, with its server; the name of a program is its command."""
    return judge.judge if judge.judge == judge.to else f"{judge.judge} at {judge.to}"


def judge_check_result(check: JudgeCheck) -> Result:
    """Make the result of asking a judge one question."""
    name = _name(check)
    if check.fault is not None:
        return Result("judge", asdict(check), text=[f"{name}: {' '.join(check.fault.split())}"])
    probability = "none" if check.p is None else f"{check.p:.3g}"
    text = [
        f"{name} answered in {check.milliseconds:,} ms",
        f"answer       {check.answer}",
        f"probability  {probability}",
    ]
    if check.calls:
        cost = "not known" if check.cost is None else amount(check.cost)
        tokens = count(check.tokens_in + check.tokens_out, "token")
        text += [
            f"JSON schema  {'yes' if check.structured else 'no'}",
            f"calls        {check.calls}, {tokens}",
            f"cost         {cost}",
        ]
    notes = [f"the answer to an easy question is {check.answer}, not {EXPECTED}"]
    return Result("judge", asdict(check), text=text, notes=notes[check.answer == EXPECTED :])
