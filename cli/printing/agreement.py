"""Agreement of the annotators of a collection, over all items and in each group."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.printing.results import Column, Result, Step, Table
from sortnet.messages import count, printable

if TYPE_CHECKING:
    from sortnet.preference.annotator_agreement import Agreement

_SHOWN = 20  # groups in the table
_NOTES = (
    "alpha: Krippendorff's, over the pairs with two annotators or more; 1 is perfect, 0 is chance",
    "with self: share of the repeated answers that are as before; cycles: share of the triples",
)


def agreement_result(
    name: str, overall: Agreement, groups: Sequence[tuple[str, Agreement]]
) -> Result:
    """A row for the collection, and one for each of the first groups.

    Args:
        name: name of the collection.
        groups: names of groups with their agreement, the least alpha first.
    """
    by_group = [{"group": group, **asdict(agreement)} for group, agreement in groups]
    value = {"collection": name, **asdict(overall), "groups": by_group}
    if not (overall.shared_pairs or overall.repeats or overall.triples):
        reason = "no pair has two annotators, no answer is repeated, no three items are compared"
        command = f"sortnet label {shlex.quote(name)}"
        sentence = f"{name}: nothing to compare yet, {reason}: {command}"
        return Result("agreement", value, next=Step(command, sentence))
    notes = list(_NOTES)
    if len(groups) > _SHOWN:
        notes.append(f"{count(len(groups) - _SHOWN, 'group')} more with --json")
    table = Table(_COLUMNS, [(name, overall), *groups[:_SHOWN]])
    return Result("agreement", value, text=[table], notes=notes)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.2f}"


_COLUMNS = [
    Column("", lambda row: printable(row[0]), cut="end"),
    Column("alpha", lambda row: _share(row[1].krippendorff_alpha)),
    Column("shared pairs", lambda row: str(row[1].shared_pairs)),
    Column("with self", lambda row: _share(row[1].consistency)),
    Column("repeats", lambda row: str(row[1].repeats)),
    Column("cycles", lambda row: _share(row[1].cycles)),
    Column("triples", lambda row: str(row[1].triples)),
]
