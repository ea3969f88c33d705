"""`sortnet evaluate`: evaluate a model on labelled queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.inputs.model_and_data import data_arguments, read_data
from cli.options import SETTINGS, Whole, json_option, output_option
from cli.output import progress
from cli.printing.results import Column, Result, Table, print_result, write_csv
from sortnet.core import NamedColumns
from sortnet.metrics import MEASURED, as_metrics, average
from sortnet.metrics import per_query as of_queries
from store.report.conventions import conventions_of
from store.service.named_model import load_model


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
    type=click.Choice(SETTINGS["empty"].choices),
    help="Value of a query without a relevant document; default: as in training.",
)
@click.option(
    "--gain",
    type=click.Choice(SETTINGS["gain"].choices),
    help="Gain of ndcg; default: as in training.",
)
@click.option(
    "--relevant-from", type=Whole(1), help="Lowest relevant grade; default: as in training."
)
@output_option(
    "--per-query", inputs=["model", "data"], help="CSV file of the figures per query (-: stdout)."
)
@data_arguments
@json_option
def evaluate(
    model: str,
    data: str,
    names: tuple[str, ...],
    per_query: str | None,
    columns: NamedColumns,
    part: str | None,
    cache: Path | None,
    threads: int | None,
    as_json: bool,
    **rules: Any,
) -> None:
    """Evaluate how well MODEL ranks the labelled queries of DATA.

    For a model of items, DATA is a table of items with grades in a column `label`. The model
    remembers the names of columns that `train` was given, and the parts of a file that it divided.

    \b
    Examples:
      sortnet evaluate model test.txt
      sortnet evaluate model all.csv --part test
      sortnet evaluate model test.txt -m ndcg@5 -m ndcg@10 --empty skip --json
    """
    if per_query == "-" and as_json:
        raise click.UsageError("--json and --per-query - both write to stdout: give one of them")
    with progress() as status:
        loaded = load_model(model, status, threads)
        given = {name: value for name, value in rules.items() if value is not None}
        config = loaded.config.changed(**given)
        metrics = as_metrics(map(config.metric, names or MEASURED))
        queries = read_data(
            data, loaded, status, columns=columns, part=part, cache=cache, labelled=True
        )
        status("ranking")
        ranked = queries.grades[loaded.order(queries)]
    values = {m.name: of_queries(m, ranked, queries.offsets) for m in metrics}
    means = {
        name: average(per, config.empty, of=f"{queries.source}: {name}")
        for name, per in values.items()
    }
    conventions = conventions_of(queries, metrics, config.empty)
    if per_query is not None:
        # A measure of a query without a relevant document is left blank.
        write_csv({"qid": queries.qids, "n_docs": queries.sizes, **values}, per_query)
    if as_json or per_query != "-":
        facts: dict[str, Any] = {"model": model, "data": queries.source, "n_queries": len(queries)}
        facts |= {"n_docs": queries.n_docs, "measures": means}
        facts |= {name: getattr(config, name) for name in ("gain", "relevant_from", "empty")}
        text: list[str | Table] = [Table(_COLUMNS, list(means.items())), *conventions]
        result = Result("evaluation", facts, text=text, notes=conventions, is_noted_in_text=True)
        print_result(result, as_json=as_json)


_COLUMNS = [
    Column("metric", lambda measure: str(measure[0])),
    Column("mean", lambda measure: f"{measure[1]:.4f}"),
]
