"""Find features that order documents nearly as the grades do, or nearly as well as a model.

Most such features were computed from the grades, so that a ranker would learn nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sortnet.core import F64, I64, Queries

NEARLY = 0.98  # least absolute rank correlation with the grade
_HALFWAY = 0.5  # least absolute rank correlation of a feature that is compared with a model
_NEARLY_AS_GOOD = 0.9  # least share of the model's gain over random orders
_RANDOM_ORDERS = 10
_LEAST_PAIRS = 30  # fewer pairs may be in order by chance
_MOST_PAIRS = 1 << 17


def features_near_grades(queries: Queries, nearly: float = NEARLY) -> dict[int, float]:
    """Find the features that order documents nearly as the grades do.

    The rank correlation of a feature with the grade is Somers' D over the pairs of documents of one
    query that differ in grade: the share of pairs that the feature orders as the grade does, minus
    the share that the feature orders in reverse. A pair with equal or missing values is in neither
    share.

    Args:
        queries: queries with grades.
        nearly: the least absolute rank correlation of a feature in the result.

    Returns:
        {number of a feature: its rank correlation}.

    Cost: 1 ms a feature; if there are more than 131,072 pairs, a random sample is drawn.

    >>> X = [[k, -k, k % 7] for k in range(40)]
    >>> features_near_grades(Queries.from_arrays(X, [k // 4 for k in range(40)]))
    {0: 1.0, 1: -1.0}
    """
    better, worse = _pairs(queries)
    if len(better) < _LEAST_PAIRS:
        return {}
    correlations = {}
    for feature in range(queries.n_features):
        values = queries.features[:, feature]
        n_in_order = np.count_nonzero(values[better] > values[worse])
        n_in_reverse = np.count_nonzero(values[better] < values[worse])
        correlation = float((n_in_order - n_in_reverse) / len(better))
        if abs(correlation) >= nearly:
            correlations[feature] = correlation
    return correlations


def features_near_model(
    queries: Queries, quality: float, quality_of: Callable[[Queries, I64], float]
) -> dict[int, float]:
    """Find the features that alone order documents nearly as well as a model does.

    A feature is nearly as good if it has 90 % of the model's gain of quality over random orders. A
    missing value is the worst. Features that order fewer than half of the pairs are passed over.

    Args:
        queries: queries with grades that the model was not trained on.
        quality: the quality of the model's order.
        quality_of: computes the quality of an order of the documents.

    Returns:
        {number of a feature: quality of its order}; empty for a single feature, or if the model is
        no better than random orders.

    Cost: 1 ms a feature, and that of a sort for each feature with a rank correlation above 0.5.
    """
    if queries.n_features < 2:
        return {}
    rng = np.random.default_rng(0)
    query = queries.query_of_docs()

    def quality_by(values: F64) -> float:
        """Compute the quality of the descending order of values within the queries."""
        return quality_of(queries, np.lexsort((-values, query)))

    at_random = np.mean([quality_by(rng.random(queries.n_docs)) for _ in range(_RANDOM_ORDERS)])
    if quality <= at_random:
        return {}
    nearly = at_random + _NEARLY_AS_GOOD * (quality - at_random)
    qualities = {}
    for feature, correlation in features_near_grades(queries, _HALFWAY).items():
        values = np.sign(correlation) * queries.features[:, feature].astype(np.float64)
        quality_of_feature = quality_by(np.where(np.isnan(values), -np.inf, values))
        if quality_of_feature >= nearly:
            qualities[feature] = quality_of_feature
    return qualities


def _pairs(queries: Queries) -> tuple[I64, I64]:
    """List the pairs of documents of one query that differ in grade.

    If there are more than 131,072 pairs of documents, a random sample of this size is drawn, and
    its pairs that differ in grade are listed.

    Returns:
        The better document (n_pairs,) of each pair, and the worse document (n_pairs,).
    """
    # Each document is paired with every document of its query, also with itself.
    n_pairs_of_doc = np.repeat(queries.sizes, queries.sizes)
    query_starts = np.repeat(queries.offsets[:-1], queries.sizes)
    if n_pairs_of_doc.sum() <= _MOST_PAIRS:
        first = np.repeat(np.arange(queries.n_docs), n_pairs_of_doc)
        first_pair_of_doc = np.cumsum(n_pairs_of_doc) - n_pairs_of_doc
        position_of_second = np.arange(len(first)) - first_pair_of_doc[first]
    else:
        generator = np.random.default_rng(0)
        share_of_doc = n_pairs_of_doc / n_pairs_of_doc.sum()  # so all pairs are equally likely
        first = generator.choice(queries.n_docs, _MOST_PAIRS, p=share_of_doc)
        position_of_second = generator.integers(n_pairs_of_doc[first])
    second = query_starts[first] + position_of_second  # positions count from the query's start
    is_better = queries.grades[first] > queries.grades[second]
    return first[is_better], second[is_better]
