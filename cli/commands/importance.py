"""`sortnet importance`: measure how important each feature is to a model, by permutation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.console import progress, write_output
from cli.inputs.data_options import data_arguments
from cli.options import SEED, Whole, format_of, json_option, output_option
from cli.printing.models import importance_result
from cli.printing.results import print_result, text_of

if TYPE_CHECKING:
    from store.service.named_model import DataFile


@click.command(short_help="Show which features matter to a model.")
@click.option(
    "--metric",
    "-m",
    "name",
    metavar="NAME",
    help="Measure: map, ndcg@10, p@10, mrr, ...; default: the RankQuality of the training.",
)
@click.option(
    "--repeats", type=Whole(1), default=5, help="Number of times each feature is shuffled."
)
@click.option("--seed", type=SEED, default=0, help="Random seed of the shuffling.")
@click.option("--top", type=Whole(1), default=10, help="Number of features shown.")
@output_option(
    "--output",
    "-o",
    inputs=["model", "data"],
    help="File of all features, CSV or JSON by its name; -: CSV on stdout.",
)
@data_arguments
@json_option
def importance(
    model: str,
    data: DataFile,
    name: str | None,
    repeats: int,
    seed: int,
    top: int,
    output: str | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Show which features matter when MODEL ranks the labelled queries of DATA.

    Each feature is shuffled among the documents of each query; its importance is the drop of the
    measure. The levels of a category are shuffled together, as one column. The words of a column of
    texts are shuffled together, and then each alone, below their column. A feature that is constant
    in each query, or that the model does not use, has importance 0. Of two redundant
    features, neither may look important. For soft trees, `splits` is the share of all splits that
    use the feature.

    \b
    Examples:
      sortnet importance shop-model shop.csv --part test
      sortnet importance bikes-model bikes/test.csv
      sortnet importance letor-model letor/Fold1/test.txt -m ndcg@10 -o drops.csv
    """
    form = format_of(None, output or "-", ["csv", "json"]) or "csv"
    if output == "-" and as_json:
        raise click.UsageError("--json and --output - both write to stdout: give one of them")
    with progress() as status:
        result = importance_result(
            model, data, name, repeats=repeats, seed=seed, top=top, threads=threads, progress=status
        )
    if output is not None:
        write_output(output, lambda file: file.write(text_of(result, form)))
    if as_json or output != "-":
        print_result(result, as_json=as_json)
