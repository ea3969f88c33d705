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
    query = queries.query_of_docs()
    matches = [documents_called(queries, name) for name in (a, b)]
    if qid is not None:
        numbers_of_qid = np.flatnonzero(queries.qids == qid)
        if not len(numbers_of_qid):
            raise DataError(
                f"{queries.source}: no query {qid!r}; the first of {len(queries)} is "
                f"{str(queries.qids[0])!r}"
            )
        matches = [docs[query[docs] == numbers_of_qid[0]] for docs in matches]
    for name, docs in zip((a, b), matches, strict=True):
        if not len(docs):
            in_query = "" if qid is None else f" in query {qid!r}"
            raise DataError(
                f"{queries.source}: no document {name!r}{in_query}; give its id, or its row as "
                f"{ROW}0 (sortnet rank --format csv lists both)"
            )
    shared = np.intersect1d(query[matches[0]], query[matches[1]])
    if not len(shared):
        qid_of_a, qid_of_b = (queries.qids[query[docs[0]]] for docs in matches)
        raise DataError(
            f"{queries.source}: {a!r} is in query {qid_of_a}, {b!r} in query {qid_of_b}: only "
            "documents of one query are compared"
        )
    if len(shared) > 1:
        several = ", ".join(queries.qids[shared[:5]])
        raise DataError(
            f"{queries.source}: both documents are in {len(shared)} queries ({several}): say which "
            "with --qid"
        )
    number_of_query = int(shared[0])
    numbers = []
    for name, docs in zip((a, b), matches, strict=True):
        docs_in_query = docs[query[docs] == number_of_query]
        if len(docs_in_query) > 1:
            rows = ", ".join(f"{ROW}{row}" for row in queries.rows[docs_in_query[:5]])
            raise DataError(f"{queries.source}: {name!r} is several rows of one query: {rows}")
        numbers.append(int(docs_in_query[0] - queries.offsets[number_of_query]))
    return queries.take([number_of_query]), numbers[0], numbers[1]


def documents_called(queries: Queries, name: str) -> I64:
    """Numbers of the documents whose id is `name`; if no id matches, the document in that row."""
    if queries.docids is not None and not name.startswith(ROW):
        docs = np.flatnonzero(queries.docids == name)
        if len(docs):
            return docs.astype(np.int64, copy=False)
    digits = name.removeprefix(ROW)
    row = -1
    if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS:
        row = int(digits)
    return np.flatnonzero(queries.rows == row).astype(np.int64, copy=False)
