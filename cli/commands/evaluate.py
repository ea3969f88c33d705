"""`sortnet evaluate`: evaluate a model on labelled queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import click

from cli.console import progress
from cli.inputs.data_options import data_arguments
from cli.options import Whole, format_of, json_option, output_option
from cli.printing.models import evaluation_result
from cli.printing.results import print_result, write_csv_file
from sortnet.metrics import MEASURED, Empty, Gain

if TYPE_CHECKING:
    from store.service.named_model import DataFile


@click.command(short_help="Evaluate a model on labelled queries.")
@click.option(
    "--metric",
    "-m",
    "names",
    multiple=True,
    metavar="NAME",
    help=f"Measure to report; repeatable; default: {', '.join(MEASURED)}.",
)
@click.option(
    "--empty",
    type=click.Choice(get_args(Empty)),
    help="Value of a query without a relevant document; default: as in training.",
)
@click.option(
    "--gain",
    type=click.Choice(get_args(Gain)),
    help="Gain of ndcg; default: as in training.",
)
@click.option(
    "--relevant-from", type=Whole(1), help="Lowest relevant grade; default: as in training."
)
@output_option(
    "--per-query", inputs=["model", "data"], help="CSV file of each query's figures (-: stdout)."
)
@data_arguments
@json_option
def evaluate(
    model: str,
    data: DataFile,
    names: tuple[str, ...],
    per_query: str | None,
    threads: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Evaluate how well MODEL ranks the labelled queries of DATA.

    For a model of items, DATA is a table of items with grades in a column `label`. The model
    remembers the names of columns that `train` was given, and the parts of a file that it divided.

    \b
    Examples:
      sortnet evaluate letor-model letor/Fold1/test.txt
      sortnet evaluate shop-model shop.csv --part test
      sortnet evaluate letor-model letor/Fold1/test.txt -m ndcg@5 --json
    """
    format_of(None, per_query or "-", ["csv"], "--per-query")
    if per_query == "-" and as_json:
        raise click.UsageError("--json and --per-query - both write to stdout: give one of them")
    # A rule that is not given is taken from the training of the model.
    rules = {name: value for name, value in options.items() if value is not None}
    with progress() as status:
        result = evaluation_result(
            model, data, names, rules=rules, threads=threads, progress=status
        )
    if per_query is not None:
        write_csv_file(result.csv, per_query)
    if as_json or per_query != "-":
        print_result(result, as_json=as_json)
