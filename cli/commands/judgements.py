"""`sortnet judgements`: list, export and import judgements."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from cli.options import Whole, files, output_option, store_and_json, store_option
from cli.output import (
    DEFAULT_WIDTH,
    fit_cells,
    print_json,
    print_table,
    put,
    say,
    width,
    write_output,
)
from sortnet.files import rows_of
from sortnet.messages import count, cut, printable
from sortnet.preference.base import TARGETS
from store.service.existing_store import open_collection

_SHOWN = 20  # judgements that `list` shows
_COMMENT = 24  # characters of a comment


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
@click.option("--limit", type=Whole(1), default=_SHOWN, help="Maximum number of judgements shown.")
@store_and_json
def list_(name: str, limit: int, store: str | None, as_json: bool) -> None:
    """List the newest judgements of the collection NAME, oldest first.

    Judgements that were undone, and those of excluded annotators, are marked; an undo is a separate
    judgement.

    \b
    Examples:
      sortnet judgements list essays
      sortnet judgements list essays --limit 100 --json
    """
    with open_collection(store, name) as collection:
        frame = collection.judgements_frame()
        rows = rows_of(frame.tail(limit))
        for row in rows:
            row["at"] = row["at"] and row["at"].replace(" ", "T")
        if as_json:
            print_json(rows)
            return
        if not rows:
            say(f"no judgements yet: sortnet label {name}")
            return
        more = [name for name in _MORE if any(row[name] is not None for row in rows)]
        header, lines = [*_HEADER, *more], [_line(row, more) for row in rows]
        wide = width() or DEFAULT_WIDTH
        print_table(header, fit_cells(header, lines, [1, 2, 3], wide), left=5)
        said = frame[frame["answer"].isin(TARGETS) & ~frame["undone"] & ~frame["excluded"]]
        older = len(frame) - limit
        rest = f", {older} older ones not shown (--limit)" if older > 0 else ""
        who = count(said["annotator"].nunique(), "annotator")
        say(f"{count(len(said), 'answer')} of {who}{rest}")


_HEADER = ["judgement", "annotator", "left", "right", "answer", "seconds", "at (UTC)"]
_MORE = ("p", "cost", "comment")  # columns if any judgement has them


def _line(row: dict[str, Any], more: Sequence[str]) -> list[str]:
    seconds, answer = row["milliseconds"], row["answer"] + " (undone)" * row["undone"]
    answer += " (excluded)" * row["excluded"]
    if row["answer"] == "undo":
        answer = f"undo of {row['undoes']}"
    return [
        str(row["number"]),
        printable(row["annotator"]),
        printable(row["left"]),
        printable(row["right"]),
        answer,
        "-" if seconds is None else f"{seconds / 1000:.1f}",
        "-" if row["at"] is None else row["at"][:16].replace("T", " "),
        *(
            f"{fact:.3g}" if isinstance(fact, float) else cut(printable(fact or "-"), _COMMENT)
            for fact in (row[name] for name in more)
        ),
    ]


_OF_PAIRS = ("chosen", "conversational")  # formats with a line per pair


@judgements.command()
@click.argument("name")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv", *_OF_PAIRS]), default="jsonl")
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
    help="Format csv: an apostrophe before what a spreadsheet would run as a formula, which is the "
    "default; or texts as they are.",
)
@store_option
def export(
    name: str, form: Any, output: str, prompt: str, escaped: bool | None, store: str | None
) -> None:
    """Write the judgements of the collection NAME to a file.

    jsonl and csv contain all judgements, including undos, comments and flags, and can be imported
    again; where items have groups, with the group and its context. In csv a text that a spreadsheet
    would run as a formula begins with an apostrophe, which an import takes off; --raw writes none.

    chosen has one line per pair of texts, {"prompt", "chosen", "rejected", "weight"}, by majority
    vote, as tools for preference tuning such as TRL read it; conversational has messages in place
    of texts. The weight is the reliability of the annotators who agree, less that of those who do
    not: 1 is one average annotator. Ties, and pairs whose weight is not above 0, are left out.

    \b
    Examples:
      sortnet judgements export essays --output judgements.jsonl
      sortnet judgements export essays --format csv --output judgements.csv
      sortnet judgements export essays --format chosen --output preferences.jsonl
    """
    from store.collections.judgement_files import export_judgements
    from store.service.judged import annotator_weights

    if escaped is not None and form != "csv":
        option = "--for-spreadsheets" if escaped else "--raw"
        raise click.UsageError(f"{option} is for --format csv, not {form}")
    written: list[int] = []
    with open_collection(store, name) as collection:
        weights = annotator_weights(collection) if form in _OF_PAIRS else None
        write = partial(
            export_judgements,
            collection,
            prompt=prompt,
            weights=weights,
            for_spreadsheets=escaped is not False,
        )
        write_output(output, lambda file: written.append(write(file, form)))
    if output != "-" or not written[0]:
        said = count(written[0], "pair" if form in _OF_PAIRS else "judgement")
        none = "" if written[0] else f" yet: sortnet label {shlex.quote(name)}"
        say(f"{'' if output == '-' else output + ': '}{said} of {name}{none}")


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
@store_and_json
def import_(
    name: str,
    file: str,
    form: Any,
    annotator: str | None,
    fields: tuple[str, str] | None,
    store: str | None,
    as_json: bool,
) -> None:
    """Import the judgements of FILE into the collection NAME, all or none.

    A row needs left, right and answer (left, right, tie, skip or cant-say), or winner and loser,
    and annotator or --as. Items are named by their ids. Columns called arg1, arg2 and value, say,
    and the answers a1 or 1, a2 or 2, 0 (a tie) or an item's id are understood, too. Importing a
    file again adds no duplicates.

    Files of other tools are recognised: battles of Chatbot Arena (model_a, model_b, winner; the
    items are the models), chosen and rejected texts, Label Studio's JSON export of a Pairwise tag,
    Argilla's records as JSON (a ranking with ranks, or a label that names a field). Their texts
    must be those of items.

    \b
    Examples:
      sortnet judgements import essays judgements.jsonl
      sortnet judgements import essays votes.csv --as crowd
      sortnet judgements import models battles.json
      sortnet judgements import essays tasks.json --fields first second
    """
    from store.collections.judgement_files import import_judgements

    with open_collection(store, name, write=True) as collection:
        done = import_judgements(collection, file, form=form, annotator=annotator, sides=fields)
    if as_json:
        print_json({"collection": name, "added": done.added, "known": done.known})
        return
    known = f", {done.known} already known" if done.known else ""
    put(f"{name}: {done.added} judgements added{known}")
