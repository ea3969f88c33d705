"""`sortnet importance`: permutation importance of the features of a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.model_and_data import data_arguments, read_data
from cli.options import SEED, Whole, json_option, output_option
from cli.output import progress
from cli.printing.results import Column, Result, Table, print_result, write_csv
from sortnet.core import NamedColumns
from sortnet.messages import printable
from store.report.conventions import conventions_of
from store.service.named_model import load_model

if TYPE_CHECKING:
    from sortnet.explain.permutation import Importance


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
@click.option("--top", type=Whole(1), default=20, help="Number of features shown.")
@output_option(
    "--output", "-o", inputs=["model", "data"], help="Write all features to a CSV file (-: stdout)."
)
@data_arguments
@json_option
def importance(
    model: str,
    data: str,
    name: str | None,
    repeats: int,
    seed: int,
    top: int,
    output: str | None,
    columns: NamedColumns,
    part: str | None,
    cache: Path | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Show which features matter when MODEL ranks the labelled queries of DATA.

    Each feature is shuffled among the documents of each query; its importance is the drop of the
    measure. The levels of a category are shuffled together, as one column. A feature that is
    constant in each query, or that the model does not use, has importance 0. Of two redundant
    features, neither may look important. Of soft trees `splits` is the share of all splits that
    look at the feature.

    \b
    Examples:
      sortnet importance model test.txt
      sortnet importance model all.csv --part test
      sortnet importance model test.txt -m ndcg@10 --repeats 20 -o drops.csv
    """
    from sortnet.explain.permutation import permutation_importance

    if output == "-" and as_json:
        raise click.UsageError("--json and --output - both write to stdout: give one of them")
    with progress() as status:
        loaded = load_model(model, status, threads)
        config = loaded.config
        metric = config.metric(name) if name else config.rank_quality
        queries = read_data(
            data, loaded, status, columns=columns, part=part, cache=cache, labelled=True
        )
        found = permutation_importance(
            loaded, queries, metric, repeats=repeats, seed=seed, progress=status
        )
        conventions = conventions_of(queries, [metric], config.empty)
    rows = _rows(found)
    if output is not None:
        write_csv(rows, output)
    if as_json or output != "-":
        facts: dict[str, Any] = {"model": model, "data": queries.source, "metric": metric.name}
        facts |= {"quality": found.quality, "repeats": repeats, "seed": seed, "features": rows}
        text = [*_text(facts, top), *conventions]
        result = Result("importance", facts, text=text, notes=conventions, is_noted_in_text=True)
        print_result(result, as_json=as_json)


def _rows(found: Importance) -> list[dict[str, Any]]:
    """A row for each feature, the most important first."""
    figures = {"mean": found.mean, "std": found.std}
    figures |= {} if found.splits is None else {"splits": found.splits}
    return [
        {"feature": found.columns[k].name, "number": found.columns[k].features[0] + 1}
        | {name: float(values[k]) for name, values in figures.items()}
        for k in found.largest()
    ]


def _text(facts: dict[str, Any], top: int) -> list[str | Table]:
    name, rows = facts["metric"], facts["features"]
    shown = rows[:top]
    columns = [Column("feature", lambda row: printable(row["feature"]), cut="end")]
    columns += [
        Column(title, partial(_figure, name=figure))
        for figure, title in _TITLES.items()
        if figure in shown[0]
    ]
    times = "once" if facts["repeats"] == 1 else f"{facts['repeats']} times"
    more = [f"{len(rows) - top} more: --top {len(rows)} shows all"] if len(rows) > top else []
    return [
        f"{name} {facts['quality']:.4f} on {facts['data']}",
        Table(columns, shown, bars=[row["mean"] for row in shown]),
        *more,
        f"drop of {name} where a feature is shuffled within its queries, {times}",
    ]


_TITLES = {"mean": "drop", "std": "std", "splits": "splits"}


def _figure(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.4f}"
