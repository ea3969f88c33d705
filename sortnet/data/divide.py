"""Divide labelled queries into folds and hold-outs, query by query, and join parts again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sortnet.core import F32, Bool, Pairs, Queries
from sortnet.core.memory import allocate
from sortnet.core.pairs import moved
from sortnet.data.read import PARTS, Fold
from sortnet.errors import DataError
from sortnet.files import shown

SHARE = 0.2  # approximate share of the judged pairs that is held out
_SEVERAL = 8  # from this number of queries with judgements on, whole queries are held out


def only_single_documents(column: str | None) -> str:
    """Write the error message for data in which every query has only one document.

    `column` names the column of the queries, or is None.

    >>> only_single_documents("product")
    "every query has one document, which cannot be sorted: column 'product' differs in every row"
    """
    fault = "every query has one document, which cannot be sorted"
    return fault if column is None else f"{fault}: column {shown(column)} differs in every row"


def joined(parts: Sequence[Queries]) -> Queries:
    """Join the queries and judged pairs of several parts; rows get new numbers from 0.

    The queries keep their names. If a name occurs twice, all queries get numbers as names. Document
    ids are kept only if all parts have them.

    Raises:
        DataError: if the numbers of features differ, if only some of the parts have judged pairs,
            or if the parts have different judges.

    >>> q = Queries.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], qid=["b", "a", "b"])
    >>> joined([q.take([0]), q.take([1])]).qids.tolist()
    ['b', 'a']

    Cost: a copy of the features, on disk beyond 256 MiB (see `allocate`).
    """
    first = parts[0]
    _refuse_different(parts)
    # The number of the first document of each part, and the end.
    *starts, n_docs = np.cumsum([0, *(part.n_docs for part in parts)]).tolist()
    features = allocate((n_docs, first.n_features), name=f"{first.source} and others")
    counted_alike = [part.counted_from(first.origins) for part in parts]
    np.concatenate([part.features for part in counted_alike], out=features)
    query_ends = [start + part.offsets[1:] for start, part in zip(starts, parts, strict=True)]
    qids = np.concatenate([part.qids for part in parts])
    if len(np.unique(qids)) < len(qids):
        qids = np.arange(len(qids)).astype(np.str_)
    docids = [part.docids for part in parts if part.docids is not None]
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([_weights(part) for part in parts])
    return replace(
        first,
        features=features,
        grades=np.concatenate([part.grades for part in parts]),
        offsets=np.concatenate([[0], *query_ends]),
        qids=qids,
        rows=np.arange(n_docs),
        docids=np.concatenate(docids) if len(docids) == len(parts) else None,
        weights=weights,
        judged=None if first.judged is None else _joined_pairs(parts, starts),
    )


def _refuse_different(parts: Sequence[Queries]) -> None:
    """Raise DataError if a part has other features, pairs or another judge than the first part."""
    first = parts[0]
    for part in parts:
        if part.n_features != first.n_features:
            raise DataError(
                f"{first.source} has {first.n_features} features, {part.source} {part.n_features}"
            )
        if part.judge is not first.judge:
            raise DataError(f"{part.source}: another judge than that of {first.source}")
        if (part.judged is None) != (first.judged is None):
            raise DataError(f"only one of {first.source} and {part.source} has judged pairs")


def _weights(part: Queries) -> F32:
    """Return the weights of the documents of a part; without weights each document has weight 1."""
    return np.ones(part.n_docs, np.float32) if part.weights is None else part.weights


def _joined_pairs(parts: Sequence[Queries], starts: Sequence[int]) -> Pairs:
    """Join the judged pairs of parts, given the first document of each part."""
    judged = [part.judged for part in parts if part.judged is not None]
    keys = [moved(pairs.key, start) for pairs, start in zip(judged, starts, strict=True)]
    targets = [pairs.target for pairs in judged]
    weights = [pairs.weight for pairs in judged]
    return Pairs.of_keys(np.concatenate(keys), np.concatenate(targets), np.concatenate(weights))


def query_folds(queries: Queries, k: int, *, seed: int = 0) -> Iterator[tuple[Queries, Queries]]:
    """Divide queries into k random parts; yield each part together with all other queries.

    Raises:
        DataError: if there are fewer queries than parts.

    >>> q = Queries.from_arrays([[1.0]] * 6, [0, 1] * 3, group=[2, 2, 2])
    >>> [(len(rest), len(part)) for rest, part in query_folds(q, 3)]
    [(2, 1), (2, 1), (2, 1)]
    """
    if len(queries) < k:
        raise DataError(f"{queries.source}: {len(queries)} queries are too few for {k} parts")
    part_of_query = np.random.default_rng(seed).permutation(len(queries)) % k
    for number in range(k):
        remaining_queries = queries.take(np.flatnonzero(part_of_query != number))
        part = queries.take(np.flatnonzero(part_of_query == number))
        yield remaining_queries, part


def hold_out(queries: Queries, test: float, vali: float, *, seed: int | Sequence[int]) -> Fold:
    """Hold out the share `test` of the queries, then the share `vali` of the remaining queries.

    Raises:
        DataError: if a part would have no query.

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
    """Draw a part for each of n queries: the share `test`, then `vali` of the remaining queries.

    Raises:
        DataError: if a part would have no query.

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
    """List what only `vali` has: the names of its queries, or else the ids of its documents.

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
    """Divide judged pairs into a training part T and a validation part V with unseen documents.

    Each pair of V has a document that T lacks, so V measures how well unseen documents are ranked.
    Whole queries are held out if at least eight queries have judgements; otherwise some documents
    of each query are held out. In the second case V has all documents, but only the judged pairs
    with a held-out document.

    Args:
        queries: queries with judged pairs.
        seed: seed of the random draw.
        as_before: names that an earlier run held out, as `held_out` lists them, so that V has
            nothing that the run learned from. If None, or if no named document was judged, the
            names are drawn.

    Returns:
        T and V.

    Raises:
        DataError: if T or V would have no judgement that prefers a document.

    >>> q = Queries.from_arrays([[float(k)] for k in range(9)])
    >>> T, V = hold_out_documents(q.with_judgements(range(1, 9), range(8)))
    >>> len(T.judged) + len(V.judged) < 9, T.n_docs < V.n_docs
    (True, True)

    Cost: a copy of the features of each part.
    """
    judged = queries.judged
    assert judged is not None
    is_decided = judged.sure > 0  # pairs with a better document, and no ties
    is_reserved, are_whole_queries = _recorded_documents(queries, as_before or {})
    decided = judged.where(is_decided)
    if not (is_reserved[decided.winner] | is_reserved[decided.loser]).any():
        rng = np.random.default_rng(seed)
        is_reserved, are_whole_queries = _drawn_documents(queries, rng)
    train = queries.only(~is_reserved)
    if are_whole_queries:
        vali = queries.only(is_reserved)
    else:
        has_reserved = is_reserved[judged.winner] | is_reserved[judged.loser]
        vali = replace(queries, judged=judged.where(has_reserved))
    for part, purpose in ((train, "to learn from"), (vali, "to choose by")):
        if part.judged is None or not part.judged.sure.any():
            raise DataError(
                f"{queries.source}: too few judged pairs ({int(is_decided.sum())} with a better "
                f"document): holding some documents out leaves none {purpose}"
            )
    return train, vali


def _recorded_documents(queries: Queries, names: Mapping[str, Sequence[str]]) -> tuple[Bool, bool]:
    """Find the documents that `names` lists by their ids, or by the names of their queries.

    Returns:
        (n_docs,) whether each document is listed, and whether whole queries are listed.
    """
    if "queries" in names:
        is_recorded_query = np.isin(queries.qids, names["queries"])
        return is_recorded_query[queries.query_of_docs()], True
    is_recorded = np.zeros(queries.n_docs, np.bool_)
    if queries.docids is not None:
        is_recorded = np.isin(queries.docids, names.get("documents", ()))
    return is_recorded, False


def _drawn_documents(queries: Queries, rng: np.random.Generator) -> tuple[Bool, bool]:
    """Draw the documents to hold out.

    If at least eight queries have judgements, whole queries are held out, otherwise some documents
    of each query.

    Returns:
        (n_docs,) whether each document is drawn, and whether whole queries are drawn.
    """
    judged = queries.judged
    assert judged is not None
    query_of_docs = queries.query_of_docs()
    judged_queries = np.unique(query_of_docs[judged.winner[judged.sure > 0]])
    if len(judged_queries) < _SEVERAL:
        return _some_documents(queries, rng), False
    n_queries = max(1, round(SHARE * len(judged_queries)))
    drawn_queries = rng.permutation(judged_queries)[:n_queries]
    return np.isin(query_of_docs, drawn_queries), True


def _some_documents(queries: Queries, rng: np.random.Generator) -> Bool:
    """Draw documents to hold out: about a tenth of the compared documents of each query.

    A pair is held out if one of its two documents is. If documents are drawn with probability p, a
    pair is held out with probability 1 - (1 - p)^2, which is 1/5 for p = 1 - sqrt(1 - 1/5).

    Returns:
        (n_docs,) whether each document is held out.
    """
    assert queries.judged is not None
    is_compared = np.zeros(queries.n_docs, np.bool_)
    is_compared[queries.judged.winner] = True
    is_compared[queries.judged.loser] = True
    share_of_documents = 1 - np.sqrt(1 - SHARE)
    is_held_out = np.zeros(queries.n_docs, np.bool_)
    for begin, end in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
        compared_docs = begin + np.flatnonzero(is_compared[begin:end])
        n_drawn = max(1, round(share_of_documents * len(compared_docs)))
        drawn_docs = rng.permutation(compared_docs)[:n_drawn]
        is_held_out[drawn_docs] = True
    return is_held_out


def refuse_shared(a: Queries, b: Queries) -> None:
    """Refuse two parts that share a query, because training data would be used for testing.

    Raises:
        DataError: if they share a query; the message names the first shared query.
    """
    shared = np.intersect1d(a.qids, b.qids)
    if len(shared):
        raise DataError(
            f"{len(shared)} queries are both in {a.source} and in {b.source}, such as "
            f"{str(shared[0])[:60]!r}: what is learned from would be tested"
        )
