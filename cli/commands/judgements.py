"""`sortnet judgements`: list, export and import judgements."""

from __future__ import annotations

from typing import Any

import click

from cli.options import (
    FORMAT_HELP,
    Whole,
    files,
    format_of,
    output_option,
    store_and_json,
    store_option,
)
from cli.printing.labelling import export_to, imported_result, judgements_result
from cli.printing.results import print_result
from sortnet.preference.base import PROBABILITIES
from store.service.existing_store import open_collection

_FORMATS = ("jsonl", "csv", "chosen", "conversational")
_DEFAULT_LIMIT = 20  # number of judgements that are listed without `--limit`


@click.group("judgements", short_help="List, export and import judgements.")
def judgements() -> None:
    """Manage the judgements of a collection: the stored answers of its annotators.

    \b
    Examples:
      sortnet judgements list essays
      sortnet judgements export essays --output judgements.jsonl
    """


@judgements.command("list")
@click.argument("name")
@click.option(
    "--limit", type=Whole(1), default=_DEFAULT_LIMIT, help="Maximum number of judgements shown."
)
@store_and_json
def list_(name: str, limit: int, store: str | None, as_json: bool) -> None:
    """List the newest judgements of the collection NAME, oldest first.

    Undone judgements and judgements of excluded annotators are marked; an undo is a separate
    judgement.

    \b
    Examples:
      sortnet judgements list essays
      sortnet judgements list essays --limit 100 --json
    """
    with open_collection(store, name) as collection:
        frame = collection.judgements_frame()
    print_result(judgements_result(name, frame, limit), as_json=as_json)


@judgements.command()
@click.argument("name")
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help=FORMAT_HELP.format("jsonl"),
)
@output_option("--output", "-o", default="-", help="Output file; -: stdout.")
@click.option(
    "--prompt",
    default="",
    show_default=False,
    metavar="TEXT",
    help="Prompt of every line of formats chosen and conversational; default: the group's "
    "context, else its name.",
)
@click.option(
    "--for-spreadsheets/--raw",
    "escaped",
    default=None,
    help="Format csv: write an apostrophe before texts that a spreadsheet would run as a formula, "
    "which is the default; or write texts as they are.",
)
@store_option
def export(
    name: str, form: Any, output: str, prompt: str, escaped: bool | None, store: str | None
) -> None:
    """Write the judgements of the collection NAME to a file.

    jsonl and csv contain all judgements, including undos, comments and flags, and can be imported
    again. A line has the items in their places (in csv item1, item2, ...), the answer, the best and
    the worst; if items have groups, the group and its context are included. In csv a text that a
    spreadsheet would run as a formula begins with an apostrophe, which an import removes; --raw
    writes no apostrophes.

    chosen has one line per pair of texts, {"prompt", "chosen", "rejected", "weight"}, by majority
    vote, as tools for preference tuning such as TRL read it; conversational has messages in place
    of texts. The weight is the reliability of the annotators who prefer the chosen text, minus the
    reliability of the annotators who prefer the other: 1 is one average annotator. Ties, and pairs
    whose weight is not above 0, are left out.

    \b
    Examples:
      sortnet judgements export essays --output judgements.jsonl
      sortnet judgements export essays --output judgements.csv
      sortnet judgements export essays --format chosen --output preferences.jsonl
    """
    form = format_of(form, output, _FORMATS) or "jsonl"
    if escaped is not None and form != "csv":
        option = "--for-spreadsheets" if escaped else "--raw"
        raise click.UsageError(f"{option} is for --format csv, not {form}")
    is_raw = escaped is False  # None: neither option was given
    with open_collection(store, name) as collection:
        export_to(output, collection, form, prompt=prompt, for_spreadsheets=not is_raw)


@judgements.command("import")
@click.argument("name")
@click.argument("file", shell_complete=files)
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "arena", "chosen", "label-studio", "argilla"]),
    help="Format of FILE; default: by its suffix and columns.",
)
@click.option(
    "--as", "annotator", metavar="ANA", help="Annotator of the judgements, if FILE names none."
)
@click.option(
    "--fields",
    nargs=2,
    metavar="LEFT RIGHT",
    help="Label Studio: the fields of a task with the left and the right item; default: by their "
    "names, such as text1 and text2.",
)
@click.option(
    "--probabilities",
    type=click.Choice(PROBABILITIES),
    help="Meaning of the column p of FILE: a share of votes, such as 0.7 for 7 of 10, which is the "
    "default; a measurement of the difference; or ignored.",
)
@store_and_json
def import_(
    name: str,
    file: str,
    form: Any,
    annotator: str | None,
    fields: tuple[str, str] | None,
    probabilities: Any,
    store: str | None,
    as_json: bool,
) -> None:
    """Import the judgements of FILE into the collection NAME, all of them or none.

    A row needs items (a list of ids, or the columns item1, item2, ...) and best, and may have
    worst; or left, right and answer (left, right, tie, skip or cant-say), or winner and loser; and
    annotator, or --as. Items are named by their ids. Column names such as arg1, arg2 and value, and
    the answers a1 or 1, a2 or 2, 0 (a tie) or an item's id, are understood, too. Importing a file
    again adds no duplicates.

    Files of other tools are recognised: battles of Chatbot Arena (model_a, model_b, winner; the
    items are the models), chosen and rejected texts, Label Studio's JSON export of a Pairwise tag,
    Argilla's records as JSON (a ranking with ranks, or a label that names a field). Their texts
    must be texts of items of the collection.

    \b
    Examples:
      sortnet judgements import essays judgements.jsonl
      sortnet judgements import essays votes.csv --as crowd
      sortnet judgements import models battles.json
      sortnet judgements import essays tasks.json --fields first second
    """
    from store.collections.judgement_files import import_judgements

    with open_collection(store, name, write=True) as collection:
        n_added, n_known = import_judgements(
            collection,
            file,
            form=form,
            annotator=annotator,
            sides=fields,
            probabilities=probabilities,
        )
    print_result(imported_result(name, n_added, n_known), as_json=as_json)
