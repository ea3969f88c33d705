"""`sortnet importance`: permutation importance of the features of a model."""

from __future__ import annotations

import csv
from typing import IO, TYPE_CHECKING, Any

import click

from cli.options import (
    SEED,
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
from cli.printing.bars import BAR, bar, cut
from cli.printing.conventions import conventions_of

if TYPE_CHECKING:
    from sortnet.explain.permutation import Importance


@click.command(short_help="Show which features matter to a model.")
@click.argument("model", shell_complete=folders)
@click.argument("data", shell_complete=files)
@click.option(
    "--metric",
    "-m",
    "name",
    metavar="NAME",
    help="Measure: map, ndcg@10, p@10, mrr, ...; default: the RankQuality of the training.",
)
@click.option(
    "--repeats",
    type=Whole(1),
    default=5,
    show_default=True,
    help="Number of times each feature is shuffled.",
)
@click.option(
    "--seed", type=SEED, default=0, show_default=True, help="Random seed of the shuffling."
)
@click.option(
    "--top", type=Whole(1), default=20, show_default=True, help="Number of features shown."
)
@output_option(
    "--output",
    "-o",
    inputs=["model", "data"],
    help="Write all features to a CSV file (-: stdout).",
)
@data_option
@threads_option
@json_option
def importance(
    model: str,
    data: str,
    name: str | None,
    repeats: int,
    seed: int,
    top: int,
    output: str | None,
    cache: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Show which features matter when MODEL ranks the labelled queries of DATA.

    Each feature is shuffled among the documents of each query; its importance is the drop of the
    measure. A feature that is constant in each query, or that the model does not use, has
    importance 0. Of two redundant features, neither may look important.

    \b
    Examples:
      sortnet importance model test.txt
      sortnet importance model test.txt -m ndcg@10 --repeats 20 -o drops.csv
    """
    from sortnet.explain.permutation import permutation_importance
    from sortnet.rankers.base import load_ranker

    if output == "-" and as_json:
        raise click.UsageError("--json and --output - both write to stdout: give one of them")
    with progress() as status:
        status(f"loading {model}")
        set_threads(threads)
        loaded = load_ranker(model)
        config = loaded.config
        metric = config.metric(name) if name else config.rank_quality
        status(f"reading {data}")
        queries = read_data(data, loaded.n_features, cache=cache, labelled=True)
        found = permutation_importance(
            loaded, queries, metric, repeats=repeats, seed=seed, progress=status
        )
        said = conventions_of(queries, [metric], config.empty)
    if output is not None:
        write_output(output, lambda file: _write_csv(file, found))
    if as_json:
        about = {"model": model, "data": queries.source, "metric": metric.name}
        drawn = {"quality": found.quality, "repeats": repeats, "seed": seed}
        print_json({**about, **drawn, "conventions": said, "features": _rows(found)})
    elif output != "-":
        _print_importance(found, queries.source, top, said)


def _rows(found: Importance) -> list[dict[str, Any]]:
    """One row per feature, the most important first."""
    mean, std = found.mean.tolist(), found.std.tolist()
    return [
        {"feature": found.names[k], "number": k + 1, "mean": mean[k], "std": std[k]}
        for k in found.largest()
    ]


def _write_csv(file: IO[str], found: Importance) -> None:
    rows = _rows(found)
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _print_importance(found: Importance, source: str, top: int, said: list[str]) -> None:
    name, repeats = found.metric.name, found.drops.shape[1]
    put(f"{name} {found.quality:.4f} on {source}")
    shown = _rows(found)[:top]
    most = max(abs(row["mean"]) for row in shown)
    rows = [
        [
            cut(row["feature"]),
            f"{row['mean']:.4f}",
            f"{row['std']:.4f}",
            bar(row["mean"], most),
        ]
        for row in shown
    ]
    print_table(["feature", "drop", "std", " " * BAR], rows)
    if len(shown) < len(found.names):
        put(f"{len(found.names) - len(shown)} more: --top {len(found.names)} shows all")
    times = "once" if repeats == 1 else f"{repeats} times"
    put(f"drop of {name} where a feature is shuffled within its queries, {times}")
    for line in said:
        put(line)
