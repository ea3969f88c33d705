"""Attribute the margin of two documents to their features, by integrated gradients.

`compare_documents` finds the two documents by their ids or rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sortnet.core import F32, F64, I64, Margin, Progress, Queries
from sortnet.errors import ComparatorError, DataError, ModelError
from sortnet.explanation.columns import Column, columns_of, feature_names
from sortnet.rankers.base import Ranker, ranker_of

TOLERANCE = 1e-4  # error of the values of a pair, relative to the sum of their absolute values
_DOCUMENTS = 2000  # documents from which feature shares are computed
_PAIRS = 1000  # pairs from which feature shares are computed
_SHARE_NODES = 5  # nodes of the Gauss-Legendre rule for feature shares
_ROUNDING = 1e-10  # error that is always allowed: margins of a saturated net are rounding errors
_PANELS = 8  # equal pieces of a line, before they are halved
_NODES = 3  # nodes of the Gauss-Legendre rule in a panel
_MOST_PANELS = 1 << 13  # relu units, each a kink, need some thousands of points
_JUMP = 0.01  # a larger relative error after all points is a jump of the margin
ROW = "row:"  # prefix of a row that names a document
_DIGITS = 18  # digits of a row number, at most


@dataclass(frozen=True)
class ColumnValue:
    """A column's part of the margin of document a over document b.

    Attributes:
        column: the column.
        value: the part of the margin, the sum of the values of the column's features.
        a, b: the column's value in the documents a and b, as in the data: a number, a date, or a
            level of a category; None if it is missing, or if the column has texts or images.
        parts: the values of the column's parts, such as words, the largest absolute value first.
    """

    column: Column
    value: float
    a: float | str | None
    b: float | str | None
    parts: tuple[ColumnValue, ...] = ()


@dataclass(frozen=True, eq=False)
class Explanation:
    """The margin of document a over document b, attributed to the features.

    Attributes:
        margin: margin of a over b; above 0, a goes first.
        baseline: margin of the pair that the values are relative to, two copies of the mean
            document; 0 if the comparator is antisymmetric.
        values: (n_features,) parts of the margin, whose sum is margin - baseline; a positive value
            favours a, a negative value favours b.
        a, b: (n_features,) unscaled features of the documents; NaN is a missing value.
        names: names of the features, or their numbers from 1.
        columns: the columns of the data that the features come from.
        error: bound on the sum of the errors of the values.
    """

    margin: float
    baseline: float
    values: F64
    a: F32 | F64
    b: F32 | F64
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    error: float

    def largest(self, n: int | None = None) -> list[int]:
        """Find the numbers (from 0) of the n features with the largest absolute values."""
        order: list[int] = np.argsort(-np.abs(self.values), kind="stable")[:n].tolist()
        return order

    def by_column(self) -> list[ColumnValue]:
        """List the columns' parts of the margin, the largest absolute value first.

        The values of the levels of a categorical column are added up, and those of all features of
        a column of texts or images.
        """
        return self._values_of(self.columns)

    def _values_of(self, columns: Sequence[Column]) -> list[ColumnValue]:
        """List the parts of the margin of some columns, the largest absolute value first."""
        values = [
            ColumnValue(
                column,
                value=float(self.values[list(column.features)].sum()),
                a=column.value(self.a),
                b=column.value(self.b),
                parts=tuple(self._values_of(column.parts)),
            )
            for column in columns
        ]
        return sorted(values, key=lambda value: -abs(value.value))


def explain_pair(model: Ranker, queries: Queries, a: int, b: int) -> Explanation:
    """Explain the margin m(a, b) of document a over document b by integrated gradients.

    The method is equation 1 of Sundararajan, Taly and Yan 2017. The mean z' of the query's
    documents is the baseline. Each document z in {a, b} moves along the line z(t) = z' + t (z - z')
    as t goes from 0 to 1, and the value of feature k is

        value_k = Σ over z in {a, b} of (z_k - z'_k) ∫ from 0 to 1 of ∂m(a(t), b(t)) / ∂z_k dt

    The features are scaled as the comparator sees them; if the scaling makes several columns of a
    feature, their values are added up. The values sum to m(a, b) - m(z', z'). If the comparator is
    antisymmetric, the values of (b, a) are the same with the opposite sign. The pieces of the line
    are halved until the errors add up to at most 1e-4 times the sum of the absolute values of both
    documents' features, or to 1e-10, a rounding error.

    Args:
        model: a ranker whose margins have gradients, see `Ranker.differentiable`; or a fitted
            estimator.
        queries: unscaled documents; the whole query of a must be among them.
        a: number of a document.
        b: number of another document of the same query.

    Raises:
        ModelError: if the features are not the features that the model was trained on, or if the
            model has no gradients.
        DataError: if a and b are the same document, belong to two queries, or do not exist.
        ComparatorError: if the margin is not a number, has jumps, or has no gradients.

    >>> from sortnet.config import Config
    >>> from sortnet.rankers.sortnet import fit
    >>> X = np.arange(12, dtype=np.float32)[:, None] * [1, 0]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> explanation = explain_pair(fit(q, q, Config(max_iter=2, scaling="normal")), q, 5, 0)
    >>> bool(explanation.values[0] > 0), float(explanation.values[1]), explanation.names
    (True, 0.0, ('1', '2'))

    Cost: 72 gradients of a margin if it is smooth: about 10 milliseconds for 136 features and a
    committee of five; with `relu` units up to about 10,000 gradients, and 1 second.
    """
    model = ranker_of(model)
    model.check_features(queries)
    query = _query_of(queries, a, b)
    first_doc = int(queries.offsets[query])
    margin = model.differentiable()
    query_alone = queries.take([query])
    scaled = model.scaler(query_alone).features.astype(np.float64)
    mean = scaled.mean(axis=0)
    numbers_in_query = [a - first_doc, b - first_doc]
    documents = scaled[numbers_in_query]
    features_of_a, features_of_b = query_alone.exact_features()[numbers_in_query]
    start = np.stack([mean, mean])
    ends, _, _ = margin(*np.stack((start, documents), axis=1))
    baseline, margin_of_pair = _finite(ends).tolist()
    values_of_both, error = _integrate(margin, start, documents, margin_of_pair - baseline)
    values = np.zeros(model.n_features)
    np.add.at(values, model.scaler.sources, values_of_both.sum(axis=0))
    return Explanation(
        margin=margin_of_pair,
        baseline=baseline,
        values=values,
        a=features_of_a,
        b=features_of_b,
        names=feature_names(model, queries),
        columns=columns_of(model, queries),
        error=error,
    )


def _query_of(queries: Queries, a: int, b: int) -> int:
    """Find the number of the query that documents a and b belong to.

    Raises:
        DataError: if a and b are the same document, belong to two queries, or do not exist.
    """
    for doc in (a, b):
        if not 0 <= doc < queries.n_docs:
            raise DataError(f"{queries.source}: no document {doc} of {queries.n_docs}")
    if a == b:
        raise DataError(f"{queries.source}: document {a} is both: two are needed to explain")
    # The query of a document is the last query that begins at the document or before it.
    query_of_a, query_of_b = np.searchsorted(queries.offsets, [a, b], side="right") - 1
    if query_of_a != query_of_b:
        raise DataError(
            f"{queries.source}: documents {a} and {b} are of the queries "
            f"{queries.qids[query_of_a]} and {queries.qids[query_of_b]}: only documents of one "
            "query are compared"
        )
    return int(query_of_a)


def some_queries(queries: Queries) -> Queries:
    """Draw random queries with two or more documents, until they have about 2,000 documents."""
    numbers = np.random.default_rng(0).permutation(np.flatnonzero(queries.sizes > 1))
    n_queries = int(np.searchsorted(np.cumsum(queries.sizes[numbers]), _DOCUMENTS)) + 1
    return queries.take(numbers[:n_queries])


def feature_shares(model: Ranker, queries: Queries) -> F64:
    """Compute each feature's share (n_features,) of the margins of random pairs; the sum is 1.

    For a pair (a, b) of scaled documents with the mean c = (a + b) / 2 and the margin m, each
    document z in {a, b} moves along the line z(t) = c + t (z - c). The share of feature k is

        value_k = (a_k - b_k) / 2 * ∫ from 0 to 1 of (∂m / ∂a_k - ∂m / ∂b_k)(a(t), b(t)) dt
        share_k = mean over the pairs of |value_k|, divided by the sum of these means

    These are integrated gradients with the pair's mean as the baseline, where neither document is
    better, so that the values of a pair sum to m(a, b). There are 1,000 pairs, and the integral has
    five Gauss-Legendre nodes, without the bound on the error that `explain_pair` has. If all
    margins are 0, all shares are 0. The shares tell which features the comparator uses;
    `permutation_importance` tells which features it needs.

    Args:
        model: a ranker whose margins have gradients, see `Ranker.differentiable`.
        queries: unscaled documents; queries of one document are left out.

    Raises:
        ModelError: if the features are not the features that the model was trained on, or if the
            model has no gradients.

    Cost: five gradients a pair; 0.03 s for 1000 pairs of 46 features and five small nets.
    """
    model.check_features(queries)
    queries = queries.take(np.flatnonzero(queries.sizes > 1))
    if not len(queries):
        return np.zeros(model.n_features)
    margin = model.differentiable()
    documents = model.scaler(queries).features.astype(np.float64)
    i, j = _random_pairs(queries)
    pairs = np.stack((documents[i], documents[j]))  # (2, n_pairs, n_scaled_columns)
    middles = np.broadcast_to(pairs.mean(axis=0), pairs.shape)
    values_of_columns = _quadrature(margin, middles, pairs, 1, _SHARE_NODES).sum(axis=0)
    # The values of the columns that the scaling makes of a feature are added up.
    values = np.zeros((model.n_features, _PAIRS))
    np.add.at(values, model.scaler.sources, values_of_columns.T)
    means = np.abs(values).mean(axis=1)
    divisor = max(float(means.sum()), np.finfo(np.float64).tiny)  # above 0 if all means are 0
    shares: F64 = means / divisor
    return shares


def _random_pairs(queries: Queries) -> tuple[I64, I64]:
    """Draw 1,000 pairs of two different documents of a query; return the documents' numbers.

    Every query must have two or more documents.
    """
    rng = np.random.default_rng(0)
    query = rng.integers(len(queries), size=_PAIRS)  # all queries are equally likely
    sizes = queries.sizes[query]
    first_doc = queries.offsets[query]
    i_in_query = rng.integers(sizes)
    steps_to_j = 1 + rng.integers(sizes - 1)  # around the query, but never back to i
    j_in_query = (i_in_query + steps_to_j) % sizes
    return first_doc + i_in_query, first_doc + j_in_query


def _integrate(margin: Margin, start: F64, end: F64, change: float) -> tuple[F64, float]:
    """Integrate the gradients of a margin along the line between two pairs of documents.

    The line is divided into twice as many panels until the values change little, and sum to the
    change of the margin; or until there are about 32,000 points.

    Args:
        margin: the margin as a function of two scaled documents.
        start, end: (2, d) the two documents of the first and of the last pair.
        change: the margin of the last pair, less the margin of the first pair.

    Returns:
        (2, d) the values of the d features of both documents, and a bound on the sum of the errors
        of these values.

    Raises:
        ComparatorError: if the error stays large, because the margin jumps, or if a margin or a
            gradient is not a number.
    """
    line = start[:, None], end[:, None]
    n_panels = _PANELS
    values = _quadrature(margin, *line, n_panels, _NODES)
    error, size = np.inf, 0.0
    while error > max(TOLERANCE * size, _ROUNDING) and n_panels < _MOST_PANELS:
        n_panels *= 2
        values_before = values
        values = _quadrature(margin, *line, n_panels, _NODES)
        error_of_sum = abs(float(values.sum()) - change)
        error = max(error_of_sum, float(np.abs(values - values_before).sum()))
        size = float(np.abs(values).sum())
    if error > _JUMP * size + _ROUNDING:
        raise ComparatorError(
            f"the margin jumps between the documents: its gradients leave "
            f"{error_of_sum:.3g} of {change:.3g} unexplained"
        )
    return values[:, 0], error


def _quadrature(margin: Margin, start: F64, end: F64, n_panels: int, n_nodes: int) -> F64:
    """Integrate gradients over lines by a Gauss-Legendre rule in each of equal panels.

    Args:
        margin: the margin as a function of two scaled documents.
        start, end: (2, m, d) the two documents of the first and of the last pair of m lines.
        n_panels: the number of panels.
        n_nodes: the number of nodes of the rule.

    Returns:
        (2, m, d) the values of the features of both documents of each line.
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)  # on the interval from -1 to 1
    middles = (np.arange(n_panels) + 0.5) / n_panels
    n_columns = start.shape[-1]
    slopes = np.zeros_like(end)
    for node, weight in zip(nodes, weights, strict=True):
        t = middles + node / (2 * n_panels)
        points = start[:, None] + t[:, None, None] * (end - start)[:, None]  # (2, n_panels, m, d)
        _, *slopes_of_both = margin(*points.reshape(2, -1, n_columns))
        at_points = _finite(np.stack(slopes_of_both)).reshape(points.shape)
        slopes += weight / 2 * at_points.mean(axis=1)
    return slopes * (end - start)


def _finite(values: F64) -> F64:
    """Return the values, margins or gradients, after a check that all are finite numbers.

    Raises:
        ComparatorError: if a value is infinite or NaN.
    """
    if not np.isfinite(values).all():
        raise ComparatorError(
            "the comparator's margin is not a number between these documents: "
            "are its weights or the features finite?"
        )
    return values


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
    reason = ""
    try:
        explanation = explain_pair(ranker, query, i, j)
        margin = explanation.margin
    except (ModelError, ComparatorError) as error:
        reason = str(error)
        margin = float(ranker.margins(query, [i], [j])[0])
    rank_of = np.argsort(ranker.order(query)) + 1  # rank of each document
    return ComparedDocuments(
        qid=str(query.qids[0]),
        n_docs=query.n_docs,
        a=_ranked_document(query, i, int(rank_of[i])),
        b=_ranked_document(query, j, int(rank_of[j])),
        margin=margin,
        votes=votes,
        explanation=explanation,
        reason=reason,
    )


def _ranked_document(query: Queries, number: int, rank: int) -> RankedDocument:
    """Describe a document of a query, given its number and its rank."""
    docid = None if query.docids is None else str(query.docids[number])
    return RankedDocument(docid or None, int(query.rows[number]), rank)


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
