"""`sortnet compare`: which of two documents goes first, and by what margin."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.options import data_option, files, folders, json_option, read_data
from cli.output import print_json, print_table, progress, put
from sortnet.errors import DataError

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker
    from sortnet.types import I64, Progress, Queries

ROW = "row:"
C = TypeVar("C", bound=Callable[..., Any])


def pair_arguments(command: C) -> C:
    """What names a model and two documents: MODEL DATA A B, `--qid` and `--cache`."""
    for add in (
        data_option,
        click.option("--qid", help="The query, where both documents are in several."),
        click.argument("b"),
        click.argument("a"),
        click.argument("data", shell_complete=files),
        click.argument("model", shell_complete=folders),
    ):
        command = add(command)
    return command


@click.command(short_help="Which of two documents goes first, and by what margin.")
@pair_arguments
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
    with progress() as tell:
        answer = _answer(*load_pair(model, data, (a, b), qid, tell, cache=cache))
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def load_pair(
    model: str,
    data: str,
    names: tuple[str, str],
    qid: str | None,
    tell: Progress,
    *,
    cache: bool,
) -> tuple[Ranker, Queries, int, int]:
    """The model, the query that has both documents, and their numbers in it."""
    from sortnet.rankers.base import load_ranker

    tell(f"loading {model}")
    loaded = load_ranker(model)
    tell(f"reading {data}")
    queries = read_data(data, loaded.n_features, cache=cache, labelled=False)
    return loaded, *find_both(queries, *names, qid)


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
            raise DataError(
                f"{queries.source}: no query {qid!r}; the first of {len(queries)} is "
                f"{str(queries.qids[0])!r}"
            )
        found = [docs[query[docs] == known[0]] for docs in found]
    for name, docs in zip((a, b), found, strict=True):
        if not len(docs):
            where = "" if qid is None else f" in query {qid!r}"
            raise DataError(
                f"{queries.source}: no document {name!r}{where}; give its id, or its row as "
                f"{ROW}0 (sortnet rank --format csv lists both)"
            )
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


def _answer(model: Ranker, one: Queries, i: int, j: int) -> dict[str, Any]:
    margin = float(model.margins(one, [i], [j])[0])
    return {**both(model, one, i, j, margin), "members": model.votes(one, i, j)}


def both(model: Ranker, one: Queries, i: int, j: int, margin: float) -> dict[str, Any]:
    """Two documents in their places, and which of them goes first."""
    import numpy as np

    rank = np.empty(one.n_docs, np.int64)
    rank[model.order(one)] = np.arange(1, one.n_docs + 1)
    return {
        "qid": str(one.qids[0]),
        "first": "a" if margin > 0 else "b" if margin < 0 else None,
        "margin": margin,
        **{key: document(one, doc, int(rank[doc])) for key, doc in (("a", i), ("b", j))},
        "n_docs": one.n_docs,
    }


def document(one: Queries, doc: int, rank: int) -> dict[str, Any]:
    """A document as JSON has it."""
    docid = None if one.docids is None else str(one.docids[doc]) or None
    return {"docid": docid, "row": int(one.rows[doc]), "rank": rank}


def put_first(answer: dict[str, Any]) -> None:
    """Say which document goes first, and where both are in the ranking."""
    first, last = ("b", "a") if answer["first"] == "b" else ("a", "b")
    names = {key: name_of(answer[key]) for key in "ab"}
    if answer["first"] is None:
        put(f"{names['a']} and {names['b']} are the same to the model (margin 0)")
    else:
        put(f"{names[first]} goes before {names[last]}, margin {abs(answer['margin']):.4g}")
    places = f"{answer[first]['rank']} and {answer[last]['rank']} of {answer['n_docs']}"
    put(f"ranked {places} in query {answer['qid']}")


def _print(answer: dict[str, Any]) -> None:
    put_first(answer)
    put(f"margins of {name_of(answer['a'])} over {name_of(answer['b'])}:")
    votes = answer["members"]
    rows = [
        [str(k), *(f"{value:.4g}" for value in vote.values())] for k, vote in enumerate(votes, 1)
    ]
    print_table(["member", *votes[0]], rows)


def name_of(document: dict[str, Any]) -> str:
    """A document as text has it."""
    return f"row {document['row']}" if document["docid"] is None else document["docid"]
