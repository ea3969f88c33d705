"""`sortnet explain`: which features decide the order of a pair."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from cli.inputs.model_and_data import (
    data_argument,
    data_options,
    model_argument,
    read_data,
)
from cli.options import Whole, json_option
from cli.output import progress
from cli.printing.results import Column, Result, Table, print_result
from sortnet.core import NamedColumns, Queries
from sortnet.data.find_documents import find_both
from sortnet.errors import ComparatorError, DataError, ModelError
from sortnet.messages import printable
from store.service.named_model import load_model

if TYPE_CHECKING:
    from sortnet.explain.attribution import Explanation
    from sortnet.rankers.base import Ranker


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
    model: str,
    data: str,
    a: str,
    b: str,
    qid: str | None,
    top: int,
    columns: NamedColumns,
    part: str | None,
    cache: Path | None,
    as_json: bool,
) -> None:
    """Compare two documents of a query in DATA by MODEL, and say which features decide.

    Prints which one goes first, with what margin, and the margin of each member or head. Every
    feature gets a value by integrated gradients from the mean of the query's documents: above 0 it
    favours A, below 0 it favours B; the values sum to the margin. A column of categories gets the
    sum of the values of its levels. A ranker without gradients, such as a tree ranker, has none.
    A and B are document ids. A whole number that is not a document id is a row of the data, counted
    from 0 as in `sortnet rank`; row:12 is always a row. For a model of items, DATA is a file or
    folder of items. The model remembers the names of columns that `train` was given.

    \b
    Examples:
      sortnet explain model test.txt GX000-00-0000000 GX004-93-7097963
      sortnet explain model test.csv row:12 row:15 --top 5
    """
    from sortnet.explain.attribution import explain_pair

    with progress() as status:
        loaded = load_model(model, status)
        queries = read_data(
            data, loaded, status, columns=columns, part=part, cache=cache, labelled=False
        )
        one, i, j = find_both(queries, a, b, qid)
        if i == j:
            raise DataError(
                f"{one.source}: {a!r} and {b!r} are the same document (row:{one.rows[i]}): "
                "name two different ones"
            )
        members = loaded.votes(one, i, j)
        status("explaining")
        try:
            explained, why_not = explain_pair(loaded, one, i, j), ""
        except (ModelError, ComparatorError) as error:
            explained, why_not = None, str(error)
        margin = explained.margin if explained else float(loaded.margins(one, [i], [j])[0])
        answer = _both(loaded, one, i, j, margin)
    found = answer | {"members": members} | ({} if explained is None else _json(explained))
    vote_columns = [Column("member", lambda row: str(row["member"]))]
    vote_columns += [Column(name, partial(_figure, name=name)) for name in members[0]]
    votes = [{"member": k, **vote} for k, vote in enumerate(members, start=1)]
    text: list[str | Table] = [
        *_first(answer),
        f"margins of {_name_of(answer['a'])} over {_name_of(answer['b'])}:",
        Table(vote_columns, votes),
    ]
    if explained is None:
        text.append(f"which features decide is not known: {why_not}")
    else:
        text += _features(explained, answer, top)
    print_result(Result("explanation", found, text=text), as_json=as_json)


def _figure(vote: dict[str, Any], name: str) -> str:
    return f"{vote[name]:.4g}"


def _json(explained: Explanation) -> dict[str, Any]:
    features = [
        {
            "feature": part.column.name,
            "number": part.column.features[0] + 1,
            "value": part.value,
            "a": part.a,
            "b": part.b,
        }
        for part in explained.by_column()
    ]
    return {"baseline_margin": explained.baseline, "error": explained.error, "features": features}


def _features(explained: Explanation, answer: dict[str, Any], top: int) -> list[str | Table]:
    parts = explained.by_column()
    rows = [(printable(part.column.name), _cell(part.a), _cell(part.b), part.value)
            for part in parts[:top]]  # fmt: skip
    if len(parts) > top:
        others = sum(part.value for part in parts[top:])
        rows.append((f"the {len(parts) - top} others", "", "", others))
    if explained.baseline:
        rows.append(("two at the query's mean", "", "", explained.baseline))
    rows.append(("margin of A over B", "", "", explained.margin))
    values = [part.value for part in parts[:top]]
    return [
        "",
        f"A is {_name_of(answer['a'])}, B is {_name_of(answer['b'])}",
        Table(_FEATURES, rows, bars=values, bar_titles=("+ for A, - for B", "+ A, - B")),
        "values add up to the margin, from that of two documents at the query's mean",
    ]


_FEATURES = [
    Column("feature", lambda row: str(row[0]), cut="end"),
    Column("in A", lambda row: str(row[1]), cut="end"),
    Column("in B", lambda row: str(row[2]), cut="end"),
    Column("value", lambda row: f"{row[3]:+.4g}"),
]


def _cell(value: float | str | None) -> str:
    if value is None:
        return "missing"
    return printable(value) if isinstance(value, str) else f"{value:.4g}"


def _both(model: Ranker, one: Queries, i: int, j: int, margin: float) -> dict[str, Any]:
    rank = np.empty(one.n_docs, np.int64)
    rank[model.order(one)] = np.arange(1, one.n_docs + 1)

    def document(doc: int) -> dict[str, Any]:
        docid = None if one.docids is None else str(one.docids[doc]) or None
        return {"docid": docid, "row": int(one.rows[doc]), "rank": int(rank[doc])}

    return {
        "qid": str(one.qids[0]),
        "first": "a" if margin > 0 else "b" if margin < 0 else None,
        "margin": margin,
        **{key: document(doc) for key, doc in (("a", i), ("b", j))},
        "n_docs": one.n_docs,
    }


def _first(answer: dict[str, Any]) -> list[str]:
    """Which document goes first, and the ranks of both."""
    first, last = ("b", "a") if answer["first"] == "b" else ("a", "b")
    names = {key: _name_of(answer[key]) for key in "ab"}
    if answer["first"] is None:
        order = f"{names['a']} and {names['b']} are the same to the model (margin 0)"
    else:
        order = f"{names[first]} goes before {names[last]}, margin {abs(answer['margin']):.4g}"
    places = f"{answer[first]['rank']} and {answer[last]['rank']} of {answer['n_docs']}"
    return [order, f"ranked {places} in query {answer['qid']}"]


def _name_of(document: dict[str, Any]) -> str:
    return f"row {document['row']}" if document["docid"] is None else document["docid"]
