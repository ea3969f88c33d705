"""`sortnet compare`: which of two documents goes first, and by what margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.options import data_option, json_option, read_data
from cli.output import print_json, print_table, progress, put
from sortnet.errors import DataError

if TYPE_CHECKING:
    from sortnet.comparators import NeuralComparator
    from sortnet.model import Model
    from sortnet.types import I64, Queries

ROW = "row:"


@click.command()
@click.argument("model")
@click.argument("data")
@click.argument("a")
@click.argument("b")
@click.option("--qid", help="The query, where both documents are in several.")
@data_option
@json_option
def compare(
    model: str, data: str, a: str, b: str, qid: str | None, cache: bool, as_json: bool
) -> None:
    """Which of two documents of a query in DATA does MODEL put first?

    A and B are document ids; a whole number that is no document id is a row of the data as
    `sortnet rank` counts them, from 0, and row:12 is always a row.

    \b
    Examples:
      sortnet compare model test.txt GX000-00-0000000 GX004-93-7097963
      sortnet compare model test.csv 12 15
    """
    from sortnet.model import Model

    with progress() as tell:
        tell(f"loading {model}")
        loaded = Model.load(model)
        tell(f"reading {data}")
        queries = read_data(data, loaded.n_features, cache=cache, labelled=False)
        one, i, j = find_both(queries, a, b, qid)
        answer = _answer(loaded, one, i, j)
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def find_both(queries: Queries, a: str, b: str, qid: str | None) -> tuple[Queries, int, int]:
    """The query that has both documents, and their numbers in it.

    Raises:
        DataError: where there is none, or where A, B or the query could be more than one.
    """
    import numpy as np

    query = queries.query_of_docs()
    found = [documents_called(queries, name) for name in (a, b)]
    if qid is not None:
        known = np.flatnonzero(queries.qids == qid)
        if not len(known):
            raise DataError(f"{queries.source}: no query {qid!r}")
        found = [docs[query[docs] == known[0]] for docs in found]
    for name, docs in zip((a, b), found, strict=True):
        if not len(docs):
            where = "" if qid is None else f" in query {qid!r}"
            raise DataError(f"{queries.source}: no document {name!r}{where}")
    shared = np.intersect1d(query[found[0]], query[found[1]])
    if len(shared) != 1:
        raise DataError(f"{queries.source}: {_not_one(queries, found, shared, (a, b))}")
    k = int(shared[0])
    numbers = []
    for name, docs in zip((a, b), found, strict=True):
        here = docs[query[docs] == k]
        if len(here) > 1:
            rows = ", ".join(f"{ROW}{row}" for row in queries.rows[here[:5]])
            raise DataError(f"{queries.source}: {name!r} is several rows of one query: {rows}")
        numbers.append(int(here[0] - queries.offsets[k]))
    return queries.take([k]), numbers[0], numbers[1]


def documents_called(queries: Queries, name: str) -> I64:
    """The numbers of the documents of that id, else the one of that row."""
    import numpy as np

    if queries.docids is not None and not name.startswith(ROW):
        named = np.flatnonzero(queries.docids == name)
        if len(named):
            return named.astype(np.int64, copy=False)
    number = name.removeprefix(ROW)
    row = int(number) if number.isascii() and number.isdigit() else -1
    return np.flatnonzero(queries.rows == row).astype(np.int64, copy=False)


def _not_one(queries: Queries, found: list[I64], shared: Any, names: tuple[str, str]) -> str:
    query = queries.query_of_docs()
    if len(shared):
        several = ", ".join(queries.qids[shared[:5]])
        return f"both documents are in {len(shared)} queries ({several}): say which with --qid"
    a, b = (queries.qids[query[docs[0]]] for docs in found)
    return (
        f"{names[0]!r} is in query {a}, {names[1]!r} in query {b}: "
        "only documents of one query are compared"
    )


def _answer(model: Model, one: Queries, i: int, j: int) -> dict[str, Any]:
    import numpy as np

    margin = float(model.margins(one, [i], [j])[0])
    rank = np.empty(one.n_docs, np.int64)
    rank[model.sort(one).order] = np.arange(1, one.n_docs + 1)
    return {
        "qid": str(one.qids[0]),
        "first": "a" if margin > 0 else "b" if margin < 0 else None,
        "margin": margin,
        **{key: _document(one, doc, int(rank[doc])) for key, doc in (("a", i), ("b", j))},
        "n_docs": one.n_docs,
        "members": _votes(model, one, i, j),
    }


def _document(one: Queries, doc: int, rank: int) -> dict[str, Any]:
    docid = None if one.docids is None else str(one.docids[doc]) or None
    return {"docid": docid, "row": int(one.rows[doc]), "rank": rank}


def _votes(model: Model, one: Queries, i: int, j: int) -> list[dict[str, float]]:
    """What every comparator of the model says; CmpNN has two outputs besides its margin."""
    from sortnet.comparators import Committee

    comparator = model.comparator
    members = comparator.members if isinstance(comparator, Committee) else (comparator,)
    X = model.scaler(one).features[[i, j]]
    return [_vote(member, X) for member in members]


def _vote(member: NeuralComparator, X: Any) -> dict[str, float]:
    import torch

    from sortnet.comparators import CmpNN

    embedded = member.prepare(X)
    vote = {"margin": float(member.prefer(embedded, [0], [1])[0])}  # type: ignore[arg-type]
    if isinstance(member, CmpNN):
        with torch.no_grad():
            gt, lt = member.outputs(embedded[:1], embedded[1:])
        vote |= {"N_>": float(gt), "N_<": float(lt)}
    return vote


def _print(answer: dict[str, Any]) -> None:
    first, last = ("b", "a") if answer["first"] == "b" else ("a", "b")
    names = {key: _name(answer[key]) for key in "ab"}
    if answer["first"] is None:
        put(f"{names['a']} and {names['b']} are the same to the model (margin 0)")
    else:
        put(f"{names[first]} goes before {names[last]}, margin {abs(answer['margin']):.4g}")
    places = f"{answer[first]['rank']} and {answer[last]['rank']} of {answer['n_docs']}"
    put(f"ranked {places} in query {answer['qid']}")
    put(f"margins of {names['a']} over {names['b']}:")
    votes = answer["members"]
    rows = [
        [str(k), *(f"{value:.4g}" for value in vote.values())] for k, vote in enumerate(votes, 1)
    ]
    print_table(["member", *votes[0]], rows)


def _name(document: dict[str, Any]) -> str:
    return f"row {document['row']}" if document["docid"] is None else document["docid"]
