"""`sortnet rank`: put the documents of every query in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.console import progress, say
from cli.inputs.data_options import data_arguments
from cli.options import format_of, output_option
from cli.printing.models import usual_form, write_ranked
from sortnet.messages import count
from sortnet.tables.roles import columns_sentence
from store.service.named_model import load_model

if TYPE_CHECKING:
    from store.service.named_model import DataFile

_FORMATS = ("trec", "csv", "jsonl")


@click.command(short_help="Put the documents of every query in order.")
@output_option(
    "--output", "-o", inputs=["model", "data"], default="-", help="Output file; -: stdout."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(_FORMATS),
    help="Output format; trec: qid Q0 docid rank score tag; default: by the end of --output, else "
    "trec for LETOR text, csv for tables and folders.",
)
@click.option("--tag", default="sortnet", help="Tag in the last column of trec.")
@data_arguments
def rank(
    model: str, data: DataFile, output: str, form: str | None, tag: str, threads: int | None
) -> None:
    """Rank the documents of every query in DATA with the model in the folder MODEL.

    Tables need no labels. The score is the number of documents of the query that rank below. A
    document without an id is named by its row (from 0) in trec. For a model of items, DATA is a
    file or folder of items as in `sortnet items add`.
    The model remembers the names of columns that `train` was given: no option repeats them.

    \b
    Examples:
      sortnet rank shop-model new-products.csv --output ranked.csv
      sortnet rank letor-model letor/Fold1/test.txt --output run.trec
      sortnet rank bikes-model bikes/new.csv --format jsonl | head
    """
    if tag.split() != [tag]:
        raise click.UsageError(f"--tag {tag!r}: a trec tag is a single word")
    form = format_of(form, output, _FORMATS)
    with progress() as status:
        ranker = load_model(model, status, threads)
        queries = data.read(ranker, status, labelled=False)
        status("ranking")
        order = ranker.order(queries)
        if form is None:
            form = usual_form(queries)
        write_ranked(queries, order, form, tag, output)
    if output != "-":
        say(f"{output}: {count(len(order), 'ranked document')}, as {form}")
    if queries.roles is not None:
        say(f"{data.path}: {columns_sentence(queries.roles, queries.feature_names or ())}")
