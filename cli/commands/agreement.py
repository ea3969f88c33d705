"""`sortnet agreement`: how much annotators agree with each other and with themselves."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from cli.inputs.opened_store import open_collection
from cli.options import json_option, store_option
from cli.output import count, cut, print_json, print_table, printable, say

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


@click.command("agreement", short_help="Measure how much the annotators agree.")
@click.argument("name")
@store_option
@json_option
def agreement(name: str, store: str | None, as_json: bool) -> None:
    """Measure how much the annotators of the collection NAME agree, from the answers alone.

    Prints Krippendorff's alpha (nominal, ties are a third answer; each annotator's first answer
    counts) with the number of pairs that two annotators or more have answered, the share of
    repeated answers that are the same as before, and the share of cycles (a over b over c over a)
    among the triples of items of which all pairs are decided, each with its number. Where items
    have groups, also for each group, the least alpha first. Excluded annotators do not count.

    Annotators disagree more on pairs of close items, which are asked more often, so alpha is lower
    than on random pairs; `sortnet annotators` shows for each annotator what is to be expected.

    \b
    Examples:
      sortnet agreement essays
      sortnet agreement essays --json
    """
    with open_collection(store, name) as collection:
        judgements, items = collection.counted_judgements(), collection.items()
    found, groups = _measure(judgements, items)
    if as_json:
        named = [{"group": group, **asdict(each)} for group, each in groups]
        print_json({"collection": name, **asdict(found), "groups": named})
    elif not (found.shared_pairs or found.repeats or found.triples):
        what = "no pair has two annotators, no answer is repeated, no three items are compared"
        say(f"{name}: nothing to compare yet, {what}: sortnet label {shlex.quote(name)}")
    else:
        rows = [(name, found), *groups[:_SHOWN]]
        print_table(_HEADER, [_line(who, each) for who, each in rows])
        for text in _ABOUT:
            say(text)
        if len(groups) > _SHOWN:
            say(f"{count(len(groups) - _SHOWN, 'group')} more with --json")


def _measure(judgements: Judgements, items: Items) -> tuple[Agreement, list[tuple[str, Agreement]]]:
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
