"""Divide judged pairs into a part to learn from and one to choose by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sortnet.errors import DataError
from sortnet.types import Bool, Queries

SHARE = 0.2  # of the judged pairs, about, that choose
_SEVERAL = 8  # queries with judgements from which on whole ones are held out


def hold_out_documents(queries: Queries, *, seed: int = 0) -> tuple[Queries, Queries]:
    """T and V of judged pairs: V has those that touch documents which T does not have.

    So what is predicted on V is the place of documents never seen. Whole queries are held out
    where eight of them have judgements; otherwise documents of each query. Then V has all
    documents, but of the judged pairs only those with one that is held out.

    Args:
        queries: documents with judged pairs.
        seed: which are held out.

    Raises:
        DataError: if that leaves one of the parts without a judgement that prefers a document.

    >>> q = Queries.from_arrays([[float(k)] for k in range(9)])
    >>> T, V = hold_out_documents(q.with_judgements(range(1, 9), range(8)))
    >>> len(T.judged) + len(V.judged) < 9, T.n_docs < V.n_docs
    (True, True)

    Cost: a copy of the features of each part.
    """
    judged = queries.judged
    assert judged is not None
    decided = judged.sure > 0
    query = queries.query_of_docs()
    rng = np.random.default_rng(seed)
    of = np.unique(query[judged.winner[decided]])
    if len(of) >= _SEVERAL:
        held = np.isin(query, rng.permutation(of)[: max(1, round(SHARE * len(of)))])
        parts = queries.only(~held), queries.only(held)
    else:
        held = _some_documents(queries, rng)
        touched = held[judged.winner] | held[judged.loser]
        parts = queries.only(~held), replace(queries, judged=judged.where(touched))
    for part, what in zip(parts, ("to learn from", "to choose by"), strict=True):
        if part.judged is None or not part.judged.sure.any():
            raise DataError(
                f"{queries.source}: too few judged pairs ({int(decided.sum())} with a better "
                f"document): holding some documents out leaves none {what}"
            )
    return parts


def _some_documents(queries: Queries, rng: np.random.Generator) -> Bool:
    """(n_docs,) about a tenth of each query's compared documents, so that `SHARE` is touched."""
    assert queries.judged is not None
    compared = np.zeros(queries.n_docs, np.bool_)
    compared[queries.judged.winner] = compared[queries.judged.loser] = True
    held = np.zeros(queries.n_docs, np.bool_)
    for begin, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        docs = begin + np.flatnonzero(compared[begin:end])
        n = round((1 - np.sqrt(1 - SHARE)) * len(docs))
        held[rng.permutation(docs)[: max(n, min(1, len(docs)))]] = True
    return held
