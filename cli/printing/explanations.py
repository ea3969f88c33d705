"""Two documents of a query and the features that decide, with a bar for each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.output import put

if TYPE_CHECKING:
    from sortnet.rankers.base import Ranker
    from sortnet.types import Queries

BAR, NAME = 20, 24  # characters of a bar, and of a feature's name


def bar(value: float, most: float) -> str:
    length = round(BAR * abs(value) / most) if most > 0 else 0
    return (("+" if value > 0 else "-") * length).ljust(BAR)


def both(model: Ranker, one: Queries, i: int, j: int, margin: float) -> dict[str, Any]:
    """The ranks of two documents, and which one goes first."""
    import numpy as np

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


def put_first(answer: dict[str, Any]) -> None:
    """Print which document goes first, and the ranks of both."""
    first, last = ("b", "a") if answer["first"] == "b" else ("a", "b")
    names = {key: name_of(answer[key]) for key in "ab"}
    if answer["first"] is None:
        put(f"{names['a']} and {names['b']} are the same to the model (margin 0)")
    else:
        put(f"{names[first]} goes before {names[last]}, margin {abs(answer['margin']):.4g}")
    places = f"{answer[first]['rank']} and {answer[last]['rank']} of {answer['n_docs']}"
    put(f"ranked {places} in query {answer['qid']}")


def name_of(document: dict[str, Any]) -> str:
    """The name of a document in text output."""
    return f"row {document['row']}" if document["docid"] is None else document["docid"]
