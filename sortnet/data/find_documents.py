"""Find documents by their ids or rows."""

from __future__ import annotations

import numpy as np

from sortnet.core import I64, Queries
from sortnet.errors import DataError

ROW = "row:"
_DIGITS = 18  # digits of a row number, at most


def find_both(queries: Queries, a: str, b: str, qid: str | None) -> tuple[Queries, int, int]:
    """Find two documents, by id or row, in the only query that has both.

    Args:
        queries: the queries to search.
        a, b: ids of the documents, or their rows such as `row:0`.
        qid: name of the query; None: any query.

    Returns:
        The query alone, and the numbers of the documents in it.

    Raises:
        DataError: if a document is missing or ambiguous, or if not exactly one query has both.
    """
    query_of_docs = queries.query_of_docs()
    docs_of_a, docs_of_b = (_documents_in_query(queries, name, qid) for name in (a, b))
    shared = np.intersect1d(query_of_docs[docs_of_a], query_of_docs[docs_of_b])
    if not len(shared):
        raise DataError(
            f"{queries.source}: no query has both {str(a)!r} and {str(b)!r}: only documents of one "
            "query are compared"
        )
    if len(shared) > 1:
        several = ", ".join(queries.qids[shared[:5]])
        raise DataError(
            f"{queries.source}: both documents are in {len(shared)} queries ({several}): say which "
            "with --qid"
        )
    numbers = []
    for name, docs in ((a, docs_of_a), (b, docs_of_b)):
        in_query = docs[query_of_docs[docs] == shared[0]]
        if len(in_query) > 1:
            rows = ", ".join(f"{ROW}{row}" for row in queries.rows[in_query[:5]])
            raise DataError(f"{queries.source}: {str(name)!r} is several rows of one query: {rows}")
        numbers.append(int(in_query[0] - queries.offsets[shared[0]]))
    return queries.take([int(shared[0])]), numbers[0], numbers[1]


def _documents_in_query(queries: Queries, name: str, qid: str | None) -> I64:
    """Find the documents called `name` in the query `qid`, or in any query if `qid` is None.

    Raises:
        DataError: if there is no such query or document.
    """
    docs = documents_called(queries, name)
    if qid is not None:
        if qid not in queries.qids:
            raise DataError(
                f"{queries.source}: no query {str(qid)!r}; the first of {len(queries)} is "
                f"{str(queries.qids[0])!r}"
            )
        docs = docs[queries.qids[queries.query_of_docs()[docs]] == qid]
    if not len(docs):
        in_query = "" if qid is None else f" in query {str(qid)!r}"
        raise DataError(
            f"{queries.source}: no document {str(name)!r}{in_query}; give its id, or its row as "
            f"{ROW}0 (sortnet rank --format csv lists both)"
        )
    return docs


def documents_called(queries: Queries, name: str) -> I64:
    """Find the numbers of the documents whose id is `name`.

    If no id matches, `name` may be the row of a document, such as `row:7` or `7`.
    """
    if queries.docids is not None and not name.startswith(ROW):
        docs = np.flatnonzero(queries.docids == name)
        if len(docs):
            return docs.astype(np.int64, copy=False)
    digits = name.removeprefix(ROW)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        return np.empty(0, np.int64)
    return np.flatnonzero(queries.rows == int(digits)).astype(np.int64, copy=False)
