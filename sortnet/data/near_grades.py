"""Find features that order documents nearly as the grades do.

Most such features were computed from the grades, so that a ranker would learn nothing else.
"""

from __future__ import annotations

import numpy as np

from sortnet.core import I64, Queries

NEARLY = 0.98  # least absolute rank correlation with the grade
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
