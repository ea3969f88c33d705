"""`sortnet evaluate`: evaluate a model on labelled queries."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING

import click

from cli.options import (
    SETTINGS,
    Whole,
    data_option,
    files,
    folders,
    json_option,
    output_option,
    read_data,
    set_threads,
    threads_option,
)
from cli.output import print_json, print_table, progress, put, write_output
from cli.printing.conventions import conventions_of
from sortnet.metrics import MEASURED

if TYPE_CHECKING:
    from sortnet.metrics import Empty, Gain, Metric
    from sortnet.types import F64, Queries


@click.command(short_help="Evaluate a model on labelled queries.")
@click.argument("model", shell_complete=folders)
@click.argument("data", shell_complete=files)
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
    "--relevant-from",
    type=Whole(1),
    help="Lowest grade that counts as relevant for map, p@n and mrr; default: as in training.",
)
@output_option(
    "--per-query",
    inputs=["model", "data"],
    help="Write the figures of every query to a CSV file (-: stdout).",
)
@data_option
@threads_option
@json_option
def evaluate(
    model: str,
    data: str,
    names: tuple[str, ...],
    empty: Empty | None,
    gain: Gain | None,
    relevant_from: int | None,
    per_query: str | None,
    cache: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Evaluate how well MODEL ranks the labelled queries of DATA.

    \b
    Examples:
      sortnet evaluate model test.txt
      sortnet evaluate model test.txt -m ndcg@5 -m ndcg@10 --empty skip --json
    """
    from sortnet.metrics import as_metrics, average, parse_metric
    from sortnet.metrics import per_query as of_queries
    from sortnet.rankers.base import load_ranker

    if per_query == "-" and as_json:
        raise click.UsageError("--json and --per-query - both write to stdout: give one of them")
    with progress() as status:
        status(f"loading {model}")
        set_threads(threads)
        loaded = load_ranker(model)
        config = loaded.config
        metrics = as_metrics(
            parse_metric(name, gain=gain or config.gain,
                         relevant_from=relevant_from or config.relevant_from)
            for name in names or MEASURED
        )  # fmt: skip
        status(f"reading {data}")
        queries = read_data(data, loaded.n_features, cache=cache, labelled=True)
        status("ranking")
        ranked = queries.grades[loaded.order(queries)]
    values = {m.name: of_queries(m, ranked, queries.offsets) for m in metrics}
    rule = empty or config.empty
    means = {name: average(per, rule) for name, per in values.items()}
    said = conventions_of(queries, metrics, rule)
    if per_query is not None:
        write_output(per_query, lambda file: _write_queries(file, queries, values))
    if as_json:
        print_json(_json(model, queries, metrics, rule, means, said))
    elif per_query != "-":
        print_table(["metric", "mean"], [[name, f"{mean:.4f}"] for name, mean in means.items()])
        for line in said:
            put(line)


def _json(
    model: str,
    queries: Queries,
    metrics: Sequence[Metric],
    empty: Empty,
    means: dict[str, float],
    said: list[str],
) -> dict[str, object]:
    return {
        "model": model,
        "data": queries.source,
        "n_queries": len(queries),
        "n_docs": queries.n_docs,
        "measures": means,
        "gain": metrics[0].gain,
        "relevant_from": metrics[0].relevant_from,
        "empty": empty,
        "conventions": said,
    }


def _write_queries(file: IO[str], queries: Queries, values: dict[str, F64]) -> None:
    """One line per query; a measure of a query without a relevant document is left blank."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["qid", "n_docs", *values])
    columns = [column.tolist() for column in values.values()]
    sizes = queries.sizes.tolist()
    for qid, size, *figures in zip(queries.qids.tolist(), sizes, *columns, strict=True):
        writer.writerow([qid, size, *("" if math.isnan(f) else repr(f) for f in figures)])
