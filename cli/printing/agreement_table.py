"""How much annotators agree, as a table: over all answers and in each group."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.output import count, cut, print_table, printable, say

if TYPE_CHECKING:
    from sortnet.items import Items
    from sortnet.preference.annotator_agreement import Agreement
    from sortnet.preference.judgement_table import Judgements

_SHOWN = 20  # groups in the table
_ROOM = 40  # characters of a group's name
_HEADER = ["", "alpha", "shared pairs", "with self", "repeats", "cycles", "triples"]
_ABOUT = (
    "alpha: Krippendorff's, over the pairs with two annotators or more; 1 is perfect, 0 is chance",
    "with self: share of the repeated answers that are as before; cycles: share of the triples",
)


def put_agreement(name: str, found: Agreement, groups: Sequence[tuple[str, Agreement]]) -> None:
    """Print a row for the collection, and one for each group, the least alpha first."""
    if not (found.shared_pairs or found.repeats or found.triples):
        what = "no pair has two annotators, no answer is repeated, no three items are compared"
        say(f"{name}: nothing to compare yet, {what}: sortnet label {shlex.quote(name)}")
        return
    rows = [(name, found), *groups[:_SHOWN]]
    print_table(_HEADER, [_line(who, each) for who, each in rows])
    for text in _ABOUT:
        say(text)
    if len(groups) > _SHOWN:
        say(f"{count(len(groups) - _SHOWN, 'group')} more with --json")


def agreement_of(
    judgements: Judgements, items: Items
) -> tuple[Agreement, list[tuple[str, Agreement]]]:
    """The agreement over all, and of each group with judgements, the least alpha first."""
    import numpy as np

    from sortnet.preference.annotator_agreement import agreement

    groups = []
    if items.groups is not None and len(judgements):
        of = np.unique(items.groups, return_inverse=True)[1][judgements.left]
        rows = np.argsort(of, kind="stable")
        each = np.split(rows, np.flatnonzero(np.diff(of[rows])) + 1)
        for some in sorted(each, key=lambda some: int(some[0])):  # by the first judgement
            group = items.groups[judgements.left[some[0]]]
            groups.append((group, agreement(judgements.where(some))))
    alpha = [(2.0 if (a := each.krippendorff_alpha) is None else a) for _, each in groups]
    order = sorted(range(len(groups)), key=alpha.__getitem__)
    return agreement(judgements), [groups[k] for k in order]


def _line(name: str, found: Agreement) -> list[str]:
    parts = (
        (found.krippendorff_alpha, found.shared_pairs),
        (found.consistency, found.repeats),
        (found.cycles, found.triples),
    )
    cells = [
        cell
        for share, number in parts
        for cell in ("-" if share is None else f"{share:.2f}", str(number))
    ]
    return [cut(printable(name), _ROOM), *cells]
