"""`sortnet explain`: which features decide on a pair."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from cli.inputs.two_documents import load_pair, pair_arguments
from cli.options import Whole, json_option
from cli.output import print_json, print_table, progress, put
from cli.printing.bars import BAR, bar, cut
from cli.printing.places import both, name_of, put_first
from sortnet.errors import DataError

if TYPE_CHECKING:
    from sortnet.explain.attribution import Explanation


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
            cut(told.names[k]),
            *(f"{float(raw[k]):.4g}" for raw in (told.a, told.b)),
            f"{told.values[k]:+.4g}",
            bar(float(told.values[k]), most),
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
