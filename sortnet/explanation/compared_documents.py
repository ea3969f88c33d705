"""Compare two documents of a query by a ranker, and explain the result by their features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sortnet.core import Progress, Queries
from sortnet.data.find_documents import find_both
from sortnet.errors import ComparatorError, DataError, ModelError
from sortnet.explanation.attribution import Explanation, explain_pair
from sortnet.rankers.base import Ranker


@dataclass(frozen=True)
class RankedDocument:
    """A document with its rank in its query.

    Attributes:
        docid: the document's id; None if it has no id.
        row: row of the document in the data, from 0.
        rank: rank of the document in its query, from 1 for the best document.
    """

    docid: str | None
    row: int
    rank: int


@dataclass(frozen=True, eq=False)
class ComparedDocuments:
    """The result of comparing two documents, a and b, of a query.

    Attributes:
        qid: name of the query.
        n_docs: number of documents in the query.
        a, b: the documents.
        margin: margin of a over b; above 0, a goes first.
        votes: outputs of each member or head of the ranker, {name of the output: value}.
        explanation: the values of the features, which add up to the margin; None if the ranker has
            no gradients.
        reason: reason why there is no explanation; empty if there is an explanation.
    """

    qid: str
    n_docs: int
    a: RankedDocument
    b: RankedDocument
    margin: float
    votes: Sequence[Mapping[str, float]]
    explanation: Explanation | None
    reason: str

    @property
    def first(self) -> str | None:
        """Name of the document that goes first, `a` or `b`; None if the margin is 0."""
        if self.margin > 0:
            return "a"
        if self.margin < 0:
            return "b"
        return None


def compare_documents(
    ranker: Ranker,
    queries: Queries,
    a: str,
    b: str,
    qid: str | None = None,
    progress: Progress = lambda text: None,
) -> ComparedDocuments:
    """Compare two documents of a query, and attribute the margin to the features.

    Args:
        ranker: the ranker.
        queries: unscaled documents.
        a, b: the documents: an id, or a row such as `row:7`.
        qid: name of the query; needed if several queries have both documents.
        progress: called with a line of text before the explanation.

    Raises:
        DataError: if the documents do not exist, are in two queries, or are the same.

    Cost: an explanation, see `explain_pair`, and a sort of the query.
    """
    query, i, j = find_both(queries, a, b, qid)
    if i == j:
        raise DataError(
            f"{query.source}: {str(a)!r} and {str(b)!r} are the same document "
            f"(row:{query.rows[i]}): name two different ones"
        )
    votes = ranker.votes(query, i, j)
    progress("explaining")
    explanation = None
    reason_for_none = ""
    try:
        explanation = explain_pair(ranker, query, i, j)
        margin = explanation.margin
    except (ModelError, ComparatorError) as error:
        reason_for_none = str(error)
        margin = float(ranker.margins(query, [i], [j])[0])
    ranks = np.empty(query.n_docs, np.int64)
    ranks[ranker.order(query)] = np.arange(1, query.n_docs + 1)
    return ComparedDocuments(
        qid=str(query.qids[0]),
        n_docs=query.n_docs,
        a=_ranked_document(query, i, int(ranks[i])),
        b=_ranked_document(query, j, int(ranks[j])),
        margin=margin,
        votes=votes,
        explanation=explanation,
        reason=reason_for_none,
    )


def _ranked_document(query: Queries, number: int, rank: int) -> RankedDocument:
    """Describe a document of a query, given its number and its rank."""
    docid = None
    if query.docids is not None:
        docid = str(query.docids[number]) or None
    return RankedDocument(docid, int(query.rows[number]), rank)
