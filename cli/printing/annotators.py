"""Annotators of a collection: a row for each, and the gold pairs that they are scored by."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.printing.results import Column, Result, Step, Table
from sortnet.messages import count, printable

if TYPE_CHECKING:
    from sortnet.preference.annotator_reports import AnnotatorReport, Measured
    from store.service.annotators import AnnotatorReports, GoldPairs

_ABOUT = (
    "reliability: 1 for the average annotator, 0 for coin tosses, below 0 for the worse item; "
    "90 % intervals in brackets",
    "with others, with self: share of answers that are the same / expected of average annotators",
)


def annotators_result(annotators: AnnotatorReports) -> Result:
    """A row for each annotator; the next step excludes an annotator whose answers do harm."""
    name, reports = annotators.collection, annotators.reports
    if not reports:
        command = f"sortnet label {shlex.quote(name)}"
        return Result("annotators", [], next=Step(command, f"no annotators yet: {command}"))
    rows, commands = [], []
    for report in reports:
        is_harmful = report.name in annotators.harmful
        rows.append(asdict(report) | {"exclude": is_harmful})
        if is_harmful:
            words = ["exclude", name, report.name, "--reason", report.verdict]
            commands.append(shlex.join(["sortnet", "annotators", *map(printable, words)]))
    sentence = "\n".join(f"next: {command}" for command in commands)
    step = Step(commands[0], sentence) if commands else None
    return Result("annotators", rows, text=[Table(_COLUMNS, reports)], notes=_ABOUT, next=step)


def gold_line(gold: GoldPairs) -> str:
    """The number of gold pairs, and the share of the questions that are about them."""
    pairs = count(gold.n_pairs, "gold pair")
    share = f"{gold.rate:.0%} of the questions"
    return f"{gold.collection}: {pairs}; {share}, as far as there are some"


def _measured(value: Measured | None) -> str:
    return "-" if value is None else f"{value.value:.2f} [{value.low:.2f},{value.high:.2f}]"


def _shares(observed: float | None, expected: float | None) -> str:
    return "-" if observed is None else f"{observed:.2f} / {expected:.2f}"


def _seconds(report: AnnotatorReport) -> str:
    return "-" if report.median_seconds is None else f"{report.median_seconds:.1f}"


_COLUMNS = [
    Column("annotator", lambda report: printable(report.name)),
    Column("answers", lambda report: str(report.answers)),
    Column("reliability", lambda report: _measured(report.reliability)),
    Column("side bias", lambda report: _measured(report.side_bias)),
    Column("with others", lambda report: _shares(report.agreement, report.expected_agreement)),
    Column("with self", lambda report: _shares(report.consistency, report.expected_consistency)),
    Column("gold", lambda report: _measured(report.gold)),
    Column("seconds", _seconds),
    Column("state", lambda report: f"{report.state} model" if report.model else report.state),
    Column("verdict", lambda report: report.verdict or "-"),
]
