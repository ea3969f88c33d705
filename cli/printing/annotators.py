"""Results about the annotators of a collection: a row for each, and the gold pairs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from cli.printing.results import Column, Result, Step, Table
from sortnet.messages import count, printable
from store.report.annotator_figures import TITLES, Interval, figures_of

if TYPE_CHECKING:
    from store.service.annotators import AnnotatorReports, GoldPairs

_NOTES = (
    "reliability: 1 for the average annotator, 0 for coin tosses, below 0 for the worse item; "
    "90 % intervals in brackets",
    "with others, with self: share of answers that are the same / expected of average annotators",
)


def annotators_result(annotators: AnnotatorReports) -> Result:
    """Make the result with a row for each annotator.

    The next step excludes an annotator whose answers do harm.
    """
    collection = annotators.collection
    if not annotators.reports:
        command = f"sortnet label {shlex.quote(collection)}"
        return Result("annotators", [], next=Step(command, f"no annotators yet: {command}"))
    rows = []
    exclude_commands = []
    for report in annotators.reports:
        is_harmful = report.name in annotators.harmful
        rows.append({**asdict(report), "exclude": is_harmful})
        if is_harmful:
            arguments = ["exclude", collection, report.name, "--reason", report.verdict]
            command = shlex.join(["sortnet", "annotators", *map(printable, arguments)])
            exclude_commands.append(command)
    step = None
    if exclude_commands:
        # The text shows all commands. JSON has room for one command, which is the first.
        lines = "\n".join(f"next: {command}" for command in exclude_commands)
        step = Step(exclude_commands[0], lines)
    return Result("annotators", rows, text=[Table(_COLUMNS, rows)], notes=_NOTES, next=step)


def gold_line(gold: GoldPairs) -> str:
    """Tell the number of gold pairs, and the share of the questions that are about gold pairs."""
    pairs = count(gold.n_pairs, "gold pair")
    share = f"{gold.rate:.0%} of the questions"
    return f"{gold.collection}: {pairs}; {share}, as far as there are some"


def _figure(report: Mapping[str, Any], number: int) -> str:
    """Write a figure of a report, with its interval if it has one; a hyphen if it is not known.

    Args:
        report: fields of an `AnnotatorReport`.
        number: number of the figure in the order of `TITLES`.
    """
    figure = figures_of(report)[number]
    if isinstance(figure, Interval):
        return f"{figure.value} [{figure.low},{figure.high}]"
    return "-" if figure is None else figure.text()


def _seconds(report: Mapping[str, Any]) -> str:
    """Write the median time of an answer in seconds; a hyphen if no time was measured."""
    seconds = report["median_seconds"]
    return "-" if seconds is None else f"{seconds:.1f}"


def _state(report: Mapping[str, Any]) -> str:
    """Write the state of an annotator, and whether it is a model."""
    state: str = report["state"]
    return f"{state} model" if report["model"] else state


# A row has the fields of an `AnnotatorReport`.
_COLUMNS = [
    Column("annotator", lambda report: printable(report["name"])),
    Column("answers", lambda report: str(report["answers"])),
    *(Column(title, partial(_figure, number=number)) for number, title in enumerate(TITLES)),
    Column("seconds", _seconds),
    Column("state", _state),
    Column("verdict", lambda report: report["verdict"] or "-"),
]
