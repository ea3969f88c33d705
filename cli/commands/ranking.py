"""`sortnet ranking`: rank all items of a collection, even items that nobody compared."""

from __future__ import annotations

import click

from cli.console import say
from cli.options import FORMAT_HELP, Whole, format_of, output_option, store_and_json
from cli.printing.items import ranking_result
from cli.printing.results import write_result
from sortnet.files import refuse_output
from store.service.collection_items import rank_collection
from store.service.existing_store import open_collection

_FORMATS = ("table", "csv", "json")


@click.command("ranking", short_help="Rank the items of a collection by its judgements.")
@click.argument("name")
@click.option("--format", "form", type=click.Choice(_FORMATS), help=FORMAT_HELP.format("table"))
@output_option("--output", "-o", default="-", help="Output file; -: stdout.")
@click.option("--top", type=Whole(1), metavar="N", help="Only the best N items of each group.")
@click.option("--group", metavar="GROUP", help="Only the items of this group.")
@click.option("--verbose", is_flag=True, help="Print more on stderr about how sure it is.")
@store_and_json
def ranking(
    name: str,
    form: str | None,
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
    of these ten. Items that nobody compared are ranked by their features. If items have groups,
    ranks are within the group; a collection with criteria is ranked by each criterion. The distance
    to the goal and the approximate number of answers left are printed on stderr in one line.

    \b
    Examples:
      sortnet ranking essays --top 20
      sortnet ranking essays --format csv --output ranking.csv
      sortnet ranking poems --group prompt-7
    """
    form = "json" if as_json else format_of(form, output, _FORMATS) or "table"
    with open_collection(store, name) as collection:
        rankings = rank_collection(collection, group=group, top=top)
        result = ranking_result(rankings, group, verbose=verbose)
    refuse_output(output, rankings[0][0].items.source)
    write_result(result, form, output)
    if output != "-":
        for service, frame in rankings:
            say(f"{output}: {len(frame)} items of {service.collection.name}")
