"""`sortnet importance`: permutation importance of the features of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.model_and_data import data_arguments, read_data
from cli.options import SEED, Whole, json_option, output_option
from cli.output import (
    DEFAULT_WIDTH,
    bars,
    fit_cells,
    print_json,
    print_table,
    progress,
    put,
    width,
    write_output,
)
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
        said = conventions_of(queries, [metric], config.empty)
    figures = {"mean": found.mean, "std": found.std}
    figures |= {} if found.splits is None else {"splits": found.splits}
    rows = [
        {"feature": found.columns[k].name, "number": found.columns[k].features[0] + 1}
        | {name: float(values[k]) for name, values in figures.items()}
        for k in found.largest()  # the most important first
    ]
    if output is not None:
        import pandas as pd

        table = pd.DataFrame(rows)
        write_output(output, lambda file: table.to_csv(file, index=False, lineterminator="\n"))
    if as_json:
        about = {"model": model, "data": queries.source, "metric": metric.name}
        drawn = {"quality": found.quality, "repeats": repeats, "seed": seed}
        print_json({**about, **drawn, "conventions": said, "features": rows})
    elif output != "-":
        _print_importance(found, rows[:top], queries.source, said)


def _print_importance(
    found: Importance, shown: list[dict[str, Any]], source: str, said: list[str]
) -> None:
    name, repeats = found.metric.name, found.drops.shape[1]
    put(f"{name} {found.quality:.4f} on {source}")
    numbers = [number for number in ("mean", "std", "splits") if number in shown[0]]
    rows = [
        [printable(row["feature"]), *(f"{row[number]:.4f}" for number in numbers)] for row in shown
    ]
    header = ["feature", "drop", *numbers[1:]]
    wide = width() or DEFAULT_WIDTH
    drawn = bars([row["mean"] for row in shown], [header, *rows], wide)
    header = [*header, " " * len(drawn[0])]
    rows = [[*row, drawn_bar] for row, drawn_bar in zip(rows, drawn, strict=True)]
    print_table(header, fit_cells(header, rows, [0], wide))
    if len(shown) < len(found.columns):
        put(f"{len(found.columns) - len(shown)} more: --top {len(found.columns)} shows all")
    times = "once" if repeats == 1 else f"{repeats} times"
    put(f"drop of {name} where a feature is shuffled within its queries, {times}")
    for line in said:
        put(line)
