"""`sortnet ranking`: rank all items with intervals, also those nobody compared."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.options import Whole, output_option, store_and_json
from cli.output import DEFAULT_WIDTH, say, width
from cli.printing.item_rankings import CollectionRanking, joined, ranking_frame, ranking_lines
from cli.printing.labelling_status import short_status, who_answered
from cli.printing.results import Bold, Result, write_result
from sortnet.errors import StoreError
from sortnet.files import rows_of
from sortnet.messages import count, printable
from store.service.existing_store import open_collection

if TYPE_CHECKING:
    from store import Collection
    from store.service.labelling import LabellingService


@click.command("ranking", short_help="Rank the items of a collection by its judgements.")
@click.argument("name")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table")
@output_option("--output", "-o", default="-", help="Output file; -: stdout.")
@click.option("--top", type=Whole(1), metavar="N", help="Only the best N items of each group.")
@click.option("--group", metavar="GROUP", help="Only the items of this group.")
@click.option("--verbose", is_flag=True, help="Say more on stderr of how sure the ranking is.")
@store_and_json
def ranking(
    name: str,
    form: str,
    output: str,
    top: int | None,
    group: str | None,
    verbose: bool,
    store: str | None,
    as_json: bool,
) -> None:
    """Rank the items of the collection NAME by its judgements, best first.

    Prints for each item its expected score, the interval that contains its rank with probability
    0.9, and its number of answers; with a goal such as 'top 10' also the probability that it is one
    of them. Items that nobody compared are ranked by their features. Where items have groups, ranks
    are those within the group; a collection with criteria is ranked by each of them. How far the
    goal is, and about how many answers are left, is printed on stderr in one line.

    \b
    Examples:
      sortnet ranking essays --top 20
      sortnet ranking essays --format csv --output ranking.csv
      sortnet ranking poems --group prompt-7
    """
    with open_collection(store, name) as collection:
        found = [_ranked(each, group, top, verbose=verbose) for each in collection.asked()]
    write_result(_result(found), "json" if as_json else form, output)
    if output != "-":
        for each in found:
            say(f"{output}: {len(each.frame)} items of {each.name}")


def _result(found: Sequence[CollectionRanking]) -> Result:
    text = list[str]()
    for each in found:
        if len(found) > 1:
            text += ["", printable(each.name)] if text else [printable(each.name)]
        header, *lines = ranking_lines(each.frame, each.items, width() or DEFAULT_WIDTH)
        text += [Bold(header), *lines]
    frame = joined(found)
    notes = [note for each in found for note in each.notes]
    return Result("ranking", rows_of(frame), text=text, notes=notes, csv=frame)


def _ranked(
    collection: Collection, group: str | None, top: int | None, *, verbose: bool
) -> CollectionRanking:
    from store.service.labelling import LabellingService

    name = collection.name
    service = LabellingService(collection)
    service.settle()
    remaining, items = service.remaining, service.items
    if group is not None and group not in (items.groups or ()):
        names = list(dict.fromkeys(items.groups or ()))
        known = f"; groups: {', '.join(map(printable, names[:10]))}"
        known = known if names else ": its items have no groups (items add --group)"
        raise StoreError(f"collection {name!r} has no group {group[:60]!r}{known}")
    frame = ranking_frame(service.ranking, items)
    if items.groups is None:
        frame = frame.head(top or len(items))
    else:
        frame = frame[frame["group"] == group] if group is not None else frame
        frame = frame.groupby("group", sort=False).head(top or len(items))
    if collection.criterion is not None:
        frame.insert(0, "criterion", collection.criterion)
    notes = _standing(service, verbose=verbose)
    if group is not None and items.groups is not None and remaining.groups:
        of_it = remaining.groups[list(dict.fromkeys(items.groups)).index(group)]
        about = f"{count(of_it.items, 'item')}, {count(of_it.answers, 'answer')}"
        wrong = service.session.goal.expected(of_it.wrong)
        notes.append(f"{printable(group)}: {about}; {wrong}")
    if collection.criterion is not None:
        notes = [f"{collection.criterion}: {note}" for note in notes]
    return CollectionRanking(name, frame, items, notes)


def _standing(service: LabellingService, *, verbose: bool) -> list[str]:
    """The number of answers and how far the goal is, in one line; the rest if it is wanted."""
    answers = who_answered(service)
    if not answers:
        return [f"no judgements yet: sortnet label {shlex.quote(service.collection.name)}"]
    remaining = service.remaining
    lines = [f"{len(service.items)} items, {answers}; {short_status(service)}"]
    if remaining.apart:
        lines.append(remaining.apart)
    return [*lines, *remaining.details, remaining.checked] if verbose else lines
