"""`sortnet explain`: show which features decide the order of two documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.console import progress
from cli.inputs.data_options import data_argument, data_options, model_argument
from cli.options import Whole, json_option
from cli.printing.models import comparison_result
from cli.printing.results import print_result
from store.service.named_model import load_model

if TYPE_CHECKING:
    from store.service.named_model import DataFile


@click.command(short_help="Compare two documents, and explain which features decide.")
@model_argument
@data_argument
@click.argument("a")
@click.argument("b")
@click.option("--qid", help="Query id, if both documents are in several queries.")
@data_options
@click.option("--top", type=Whole(1), default=10, help="Number of features shown.")
@json_option
def explain(
    model: str, data: DataFile, a: str, b: str, qid: str | None, top: int, as_json: bool
) -> None:
    """Compare two documents of a query in DATA by MODEL, and say which features decide.

    Prints which document is ranked higher, by what margin, which features decide, and how many
    members or heads agree (--json has their margins). Every feature gets a value by integrated
    gradients from the mean of the query's documents: above 0 it favours A, below 0 it favours B;
    the values sum to the margin. A column of categories, or of texts, gets the sum of the values of
    its levels or words. A ranker without gradients, such as a tree ranker, has no values.
    A and B are document ids. A whole number that is not a document id is a row of the data, counted
    from 0 as in `sortnet rank`; row:12 is always a row. For a model of items, DATA is a file or
    folder of items. The model remembers the names of columns that `train` was given.

    \b
    Examples:
      sortnet explain shop-model new-products.csv p600 p601
      sortnet explain letor-model letor/Fold1/test.txt row:0 row:1 --top 5
    """
    from sortnet.explanation.attribution import compare_documents

    with progress() as status:
        ranker = load_model(model, status)
        queries = data.read(ranker, status, labelled=False)
        comparison = compare_documents(ranker, queries, a, b, qid, status)
    print_result(comparison_result(comparison, top), as_json=as_json)
