"""Divide labelled queries: into folds, into hold-outs, and parts joined again; always by query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sortnet.core import F32, I64, Bool, Pairs, Queries
from sortnet.core.large_arrays import allocate
from sortnet.core.pairs import moved
from sortnet.data.read import PARTS, Fold
from sortnet.errors import DataError
from sortnet.files import shown

SHARE = 0.2  # of the judged pairs, about, that choose
_SEVERAL = 8  # queries with judgements from which on whole ones are held out


def only_single_documents(column: str | None) -> str:
    """The fault of queries of one document each, whose column has another value in each row.

    >>> only_single_documents("product")
    "every query has one document, which cannot be sorted: column 'product' differs in every row"
    """
    fault = "every query has one document, which cannot be sorted"
    return fault if column is None else f"{fault}: column {shown(column)} differs in every row"


def joined(parts: Sequence[Queries]) -> Queries:
    """The queries of several parts as one, their rows numbered through, with all judged pairs.

    They keep their names, unless two parts share one: then they are numbered.

    Raises:
        DataError: if their features differ in number, some have judged pairs and others grades, or
            they have judges that are not one and the same.

    >>> q = Queries.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], qid=["b", "a", "b"])
    >>> joined([q.take([0]), q.take([1])]).qids.tolist()
    ['b', 'a']

    Cost: a copy of the features, on disk beyond 256 MiB (see `allocate`).
    """
    first = parts[0]
    for one in parts:
        if one.n_features != first.n_features:
            raise DataError(
                f"{first.source} has {first.n_features} features, {one.source} {one.n_features}"
            )
        if one.judge is not first.judge:
            raise DataError(f"{one.source}: another judge than that of {first.source}")
    ends = np.cumsum([0, *(part.n_docs for part in parts)])
    features = allocate((int(ends[-1]), first.n_features), name=f"{first.source} and others")
    np.concatenate([part.features for part in parts], out=features)
    qids = np.concatenate([part.qids for part in parts])
    docids = [part.docids for part in parts if part.docids is not None]
    return replace(
        first,
        features=features,
        grades=np.concatenate([part.grades for part in parts]),
        offsets=np.concatenate(
            [[0], *(end + part.offsets[1:] for end, part in zip(ends, parts, strict=False))]
        ),
        qids=qids if len(np.unique(qids)) == len(qids) else np.arange(len(qids)).astype(np.str_),
        rows=np.arange(ends[-1]),
        docids=np.concatenate(docids) if len(docids) == len(parts) else None,
        weights=_weights(parts),
        judged=_judged(parts, ends),
    )


def _judged(parts: Sequence[Queries], ends: I64) -> Pairs | None:
    """Those of all parts, by the numbers that their documents have in the whole."""
    found = [part.judged for part in parts if part.judged is not None]
    if not found:
        return None
    if len(found) < len(parts):
        bare = next(part.source for part in parts if part.judged is None)
        raise DataError(f"{bare}: no judged pairs, which other parts have")
    keys = [moved(pairs.key, int(end)) for pairs, end in zip(found, ends, strict=False)]
    targets, weights = ([getattr(each, k) for each in found] for k in ("target", "weight"))
    return Pairs.of_keys(np.concatenate(keys), np.concatenate(targets), np.concatenate(weights))


def _weights(parts: Sequence[Queries]) -> F32 | None:
    """Those of all parts, 1 where one has none."""
    if all(part.weights is None for part in parts):
        return None
    return np.concatenate(
        [np.ones(p.n_docs, np.float32) if p.weights is None else p.weights for p in parts]
    )


def query_folds(queries: Queries, k: int, *, seed: int = 0) -> Iterator[tuple[Queries, Queries]]:
    """Each of k parts of the queries, drawn at random, after all the others.

    Raises:
        DataError: if there are fewer queries than parts.

    >>> q = Queries.from_arrays([[1.0]] * 6, [0, 1] * 3, group=[2, 2, 2])
    >>> [(len(others), len(part)) for others, part in query_folds(q, 3)]
    [(2, 1), (2, 1), (2, 1)]
    """
    if len(queries) < k:
        raise DataError(f"{queries.source}: {len(queries)} queries are too few for {k} parts")
    part = np.random.default_rng(seed).permutation(len(queries)) % k
    for number in range(k):
        yield (
            queries.take(np.flatnonzero(part != number)),
            queries.take(np.flatnonzero(part == number)),
        )


def hold_out(queries: Queries, test: float, vali: float, *, seed: int | Sequence[int]) -> Fold:
    """A share of the queries to test with, a share of the others to choose by, drawn at random.

    Raises:
        DataError: if that leaves a part without a query.

    >>> q = Queries.from_arrays([[1.0]] * 10, [0, 1] * 5, qid=np.arange(10) // 2)
    >>> fold = hold_out(q, 1 / 3, 1 / 4, seed=0)
    >>> len(fold.train), len(fold.vali), len(fold.test)
    (2, 1, 2)
    """
    try:
        part_of_query = np.array(drawn_parts(len(queries), test, vali, seed=seed))
    except DataError as error:
        raise DataError(f"{queries.source}: {error}") from None
    return Fold(*(queries.take(np.flatnonzero(part_of_query == part)) for part in PARTS))


def drawn_parts(n: int, test: float, vali: float, *, seed: int | Sequence[int]) -> list[str]:
    """The part of each of n queries: a share of them is `test`, a share of the others `vali`.

    Raises:
        DataError: if that leaves a part without a query.

    >>> sorted(drawn_parts(5, 1 / 3, 1 / 4, seed=0))
    ['test', 'test', 'train', 'train', 'vali']
    """
    order = np.random.default_rng(seed).permutation(n)
    n_test = round(test * n)
    n_vali = round(vali * (n - n_test))
    if min(n_test, n_vali, n - n_test - n_vali) < 1:
        raise DataError(f"{n} queries are too few to hold some out")
    part_of_query = ["train"] * n
    for k in order[:n_test]:
        part_of_query[k] = "test"
    for k in order[n_test : n_test + n_vali]:
        part_of_query[k] = "vali"
    return part_of_query


def held_out(train: Queries, vali: Queries) -> dict[str, list[str]]:
    """The names of the `queries`, or of the `documents`, that are in V alone, as JSON.

    >>> q = Queries.from_arrays([[float(k)] for k in range(9)], docids=list("abcdefghi"))
    >>> q = q.with_judgements(range(1, 9), range(8))
    >>> held_out(*hold_out_documents(q, as_before={"documents": ["b"]}))
    {'documents': ['b']}
    """
    if not np.isin(vali.qids, train.qids).any():
        return {"queries": vali.qids.tolist()}
    assert train.docids is not None and vali.docids is not None
    return {"documents": vali.docids[~np.isin(vali.docids, train.docids)].tolist()}


def hold_out_documents(
    queries: Queries, *, seed: int = 0, as_before: Mapping[str, Sequence[str]] | None = None
) -> tuple[Queries, Queries]:
    """T and V of judged pairs: V has those that touch documents which T does not have.

    So what is predicted on V is the place of documents never seen. Whole queries are held out
    where eight of them have judgements; otherwise documents of each query. Then V has all
    documents, but of the judged pairs only those with one that is held out.

    Args:
        queries: with judged pairs.
        seed: of what is drawn.
        as_before: names that an earlier run held out, see `held_out`, so that V has nothing that
            it learned; None, or where nobody has judged them: names are drawn.

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
    recorded, are_queries = _recorded_documents(queries, as_before or {})
    if (recorded[judged.winner[decided]] | recorded[judged.loser[decided]]).any():
        chosen = recorded
    elif are_queries := len(of) >= _SEVERAL:
        chosen = np.isin(query, rng.permutation(of)[: max(1, round(SHARE * len(of)))])
    else:
        chosen = _some_documents(queries, rng)
    if are_queries:
        parts = queries.only(~chosen), queries.only(chosen)
    else:
        touched = chosen[judged.winner] | chosen[judged.loser]
        parts = queries.only(~chosen), replace(queries, judged=judged.where(touched))
    for part, what in zip(parts, ("to learn from", "to choose by"), strict=True):
        if part.judged is None or not part.judged.sure.any():
            raise DataError(
                f"{queries.source}: too few judged pairs ({int(decided.sum())} with a better "
                f"document): holding some documents out leaves none {what}"
            )
    return parts


def _recorded_documents(queries: Queries, names: Mapping[str, Sequence[str]]) -> tuple[Bool, bool]:
    """(n_docs,) the documents that the names select, and whether they are whole queries."""
    if "queries" in names:
        return np.isin(queries.qids, names["queries"])[queries.query_of_docs()], True
    if queries.docids is None:
        return np.zeros(queries.n_docs, np.bool_), False
    return np.isin(queries.docids, names.get("documents", ())), False


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


def refuse_shared(a: Queries, b: Queries) -> None:
    """Refuse two parts of one experiment that share a query: what is tested would be known.

    Raises:
        DataError: naming the first such query.
    """
    shared = np.intersect1d(a.qids, b.qids)
    if len(shared):
        raise DataError(
            f"{len(shared)} queries are both in {a.source} and in {b.source}, such as "
            f"{str(shared[0])[:60]!r}: what is learned from would be tested"
        )
