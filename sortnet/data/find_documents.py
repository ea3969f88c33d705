"""Find documents by their ids or rows."""

from __future__ import annotations

import numpy as np

from sortnet.core import I64, Queries
from sortnet.errors import DataError

ROW = "row:"
_DIGITS = 18  # of a row that there can be


def find_both(queries: Queries, a: str, b: str, qid: str | None) -> tuple[Queries, int, int]:
    """The only query that has both documents, and their numbers in it."""
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
        one, other = (queries.qids[query[docs[0]]] for docs in found)
        apart = "only documents of one query are compared"
        what = f"{a!r} is in query {one}, {b!r} in query {other}: {apart}"
        if len(shared):
            several = ", ".join(queries.qids[shared[:5]])
            what = f"both documents are in {len(shared)} queries ({several}): say which with --qid"
        raise DataError(f"{queries.source}: {what}")
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
    if queries.docids is not None and not name.startswith(ROW):
        named = np.flatnonzero(queries.docids == name)
        if len(named):
            return named.astype(np.int64, copy=False)
    number = name.removeprefix(ROW)
    row = int(number) if number.isascii() and number.isdigit() and len(number) <= _DIGITS else -1
    return np.flatnonzero(queries.rows == row).astype(np.int64, copy=False)
