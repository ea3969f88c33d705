"""`sortnet explain` and `sortnet importance`: which features decide, on a pair and on the whole."""

from __future__ import annotations

import csv
import math
from typing import IO, TYPE_CHECKING, Any

import click

from cli.commands.compare import both, load_pair, name_of, pair_arguments, put_first
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
from cli.training.conventions import conventions_of
from sortnet.errors import DataError

if TYPE_CHECKING:
    from sortnet.explain.attribution import Explanation
    from sortnet.explain.permutation import Importance

BAR, NAME = 20, 24  # characters


@click.command(short_help="Why a model puts one document before another.")
@pair_arguments
@click.option("--top", type=Whole(1), default=10, show_default=True, help="Features to show.")
@json_option
def explain(
    model: str,
    data: str,
    a: str,
    b: str,
    qid: str | None,
    top: int,
    cache: bool,
    as_json: bool,
) -> None:
    """Why does MODEL put one document of a query in DATA before another?

    Every feature gets a value, by integrated gradients from the mean of the query's documents:
    above 0 it speaks for A, below 0 for B. They sum to the margin. A and B are named as
    `sortnet compare` takes them: by document id, or by row as row:12.

    \b
    Examples:
      sortnet explain model test.txt GX000-00-0000000 GX004-93-7097963
      sortnet explain model test.csv row:12 row:15 --top 5
    """
    from sortnet.explain.attribution import explain_pair

    with progress() as tell:
        loaded, one, i, j = load_pair(model, data, (a, b), qid, tell, cache=cache)
        if i == j:
            raise DataError(
                f"{one.source}: {a!r} and {b!r} are the same document (row:{one.rows[i]}): "
                "name two different ones"
            )
        tell("explaining")
        told = explain_pair(loaded, one, i, j)
        answer = both(loaded, one, i, j, told.margin)
    if as_json:
        print_json(answer | _json(told))
    else:
        put_first(answer)
        _print(told, answer, top)


def _json(told: Explanation) -> dict[str, Any]:
    features = [
        {
            "feature": told.names[k],
            "number": k + 1,
            "value": float(told.values[k]),
            "a": _number(told.a[k]),
            "b": _number(told.b[k]),
        }
        for k in told.largest()
    ]
    return {"baseline_margin": told.baseline, "error": told.error, "features": features}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _print(told: Explanation, answer: dict[str, Any], top: int) -> None:
    put(f"\nA is {name_of(answer['a'])}, B is {name_of(answer['b'])}")
    shown = told.largest(top)
    most = max(abs(float(told.values[k])) for k in shown)
    rows = [
        [
            _cut(told.names[k]),
            *(f"{float(raw[k]):.4g}" for raw in (told.a, told.b)),
            f"{told.values[k]:+.4g}",
            _bar(float(told.values[k]), most),
        ]
        for k in shown
    ]
    rest = float(told.values.sum() - told.values[shown].sum())
    if len(shown) < len(told.values):
        rows.append(
            [f"the {len(told.values) - len(shown)} others", "", "", f"{rest:+.4g}", " " * BAR]
        )
    if told.baseline:
        rows.append(["two at the query's mean", "", "", f"{told.baseline:+.4g}", " " * BAR])
    rows.append(["margin of A over B", "", "", f"{told.margin:+.4g}", " " * BAR])
    print_table(["feature", "in A", "in B", "value", "+ for A, - for B".ljust(BAR)], rows)
    put("values add up to the margin, from that of two documents at the query's mean")


def _bar(value: float, most: float) -> str:
    length = round(BAR * abs(value) / most) if most > 0 else 0
    return (("+" if value > 0 else "-") * length).ljust(BAR)


def _cut(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 3]}..."


@click.command(short_help="Which features a model ranks by.")
@click.argument("model", shell_complete=folders)
@click.argument("data", shell_complete=files)
@click.option(
    "--metric",
    "-m",
    "name",
    metavar="NAME",
    help="map, ndcg@10, p@10, mrr, ...; by default the RankQuality the model was chosen by.",
)
@click.option(
    "--repeats",
    type=Whole(1),
    default=5,
    show_default=True,
    help="How often each feature is shuffled.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of shuffling.")
@click.option("--top", type=Whole(1), default=20, show_default=True, help="Features to show.")
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
    """Which features does MODEL rank the labelled queries of DATA by?

    A feature is shuffled among the documents of each query; its importance is what the measure
    drops by. A feature that is the same all over each query, or that the model does not use, has
    importance 0. Of two features that say the same, neither may look important.

    \b
    Examples:
      sortnet importance model test.txt
      sortnet importance model test.txt -m ndcg@10 --repeats 20 -o drops.csv
    """
    from sortnet.explain.permutation import permutation_importance
    from sortnet.rankers.base import load_ranker

    if output == "-" and as_json:
        raise click.UsageError("--json and --output - both write to stdout: give one of them")
    with progress() as tell:
        tell(f"loading {model}")
        set_threads(threads)
        loaded = load_ranker(model)
        config = loaded.config
        metric = config.metric(name) if name else config.rank_quality
        tell(f"reading {data}")
        queries = read_data(data, loaded.n_features, cache=cache, labelled=True)
        found = permutation_importance(
            loaded, queries, metric, repeats=repeats, seed=seed, progress=tell
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
    """A row a feature, the most important first."""
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
            _cut(row["feature"]),
            f"{row['mean']:.4f}",
            f"{row['std']:.4f}",
            _bar(row["mean"], most),
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
