"""Result of `sortnet annotators agreement`: how far annotators agree, overall and by group."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from cli.printing.results import Column, Result, Step, Table
from sortnet.messages import count, printable

if TYPE_CHECKING:
    from sortnet.preference.annotator_agreement import Agreement

_SHOWN = 20  # number of groups in the table; JSON has all groups
_NOTES = (
    "alpha: Krippendorff's, over the pairs with two annotators or more; 1 is perfect, 0 is chance",
    "with self: share of the repeated answers that are as before",
)


def agreement_result(
    name: str, overall: Agreement, groups: Sequence[tuple[str, Agreement]]
) -> Result:
    """Make the result with a row for the collection, and a row for each of the first groups.

    Args:
        name: name of the collection.
        overall: agreement over all items.
        groups: name and agreement of each group, the least alpha first.
    """
    by_group = [{"group": group, **asdict(agreement)} for group, agreement in groups]
    value = {"collection": name, **asdict(overall), "groups": by_group}
    if not overall.shared_pairs and not overall.repeats:
        reason = "no pair has two annotators, no answer is repeated"
        command = f"sortnet label {shlex.quote(name)}"
        sentence = f"{name}: nothing to compare yet, {reason}: {command}"
        return Result("agreement", value, next=Step(command, sentence))
    notes = list(_NOTES)
    n_more = len(groups) - _SHOWN
    if n_more > 0:
        notes.append(f"{count(n_more, 'group')} more with --json")
    table = Table(_COLUMNS, [(name, overall), *groups[:_SHOWN]])
    return Result("agreement", value, text=[table], notes=notes)


def _share_text(share: float | None) -> str:
    """Write a share with two decimals; a hyphen if it is not known."""
    return "-" if share is None else f"{share:.2f}"


# Each row is a tuple: the name of the collection or of a group, and the agreement in it.
_COLUMNS = [
    Column("", lambda row: printable(row[0]), cut="end"),
    Column("alpha", lambda row: _share_text(row[1].krippendorff_alpha)),
    Column("shared pairs", lambda row: str(row[1].shared_pairs)),
    Column("with self", lambda row: _share_text(row[1].consistency)),
    Column("repeats", lambda row: str(row[1].repeats)),
]
