"""Find features that order documents nearly as the grades do: most are made from the grades."""

from __future__ import annotations

import numpy as np

from sortnet.core import I64, Queries

NEARLY = 0.98
_LEAST_PAIRS = 30  # fewer pairs may be in order by chance
_MOST_PAIRS = 1 << 17


def features_near_grades(queries: Queries, nearly: float = NEARLY) -> dict[int, float]:
    """Find the features that nearly equal the grade: {number of the feature: its rank correlation}.

    The rank correlation with the grade is Somers' D. It counts the pairs of documents of one query
    that differ in grade: the share that the feature orders as the grade does, less the share that
    it orders in reverse. Equal values and missing values order nothing.

    Args:
        queries: queries with grades.
        nearly: the least absolute correlation of a feature in the result.

    Cost: 1 ms a feature; from more than 131,072 ordered pairs a random sample is drawn.

    >>> X = [[k, -k, k % 7] for k in range(40)]
    >>> features_near_grades(Queries.from_arrays(X, [k // 4 for k in range(40)]))
    {0: 1.0, 1: -1.0}
    """
    better, worse = _pairs(queries)
    if len(better) < _LEAST_PAIRS:
        return {}
    correlations = {}
    for k in range(queries.n_features):
        values = queries.features[:, k]
        above = np.count_nonzero(values[better] > values[worse])
        below = np.count_nonzero(values[better] < values[worse])
        correlations[k] = float((above - below) / len(better))
    return {k: value for k, value in correlations.items() if abs(value) >= nearly}


def _pairs(queries: Queries) -> tuple[I64, I64]:
    """Pairs of documents of one query with different grades: the better documents and the worse."""
    sizes = np.repeat(queries.sizes, queries.sizes)
    first_of_query = np.repeat(queries.offsets[:-1], queries.sizes)
    if sizes.sum() <= _MOST_PAIRS:
        first = np.repeat(np.arange(queries.n_docs), sizes)
        starts = np.cumsum(sizes) - sizes
        place = np.arange(len(first)) - np.repeat(starts, sizes)
        second = np.repeat(first_of_query, sizes) + place
    else:
        generator = np.random.default_rng(0)
        weights = sizes / sizes.sum()  # every pair is drawn equally often
        first = generator.choice(queries.n_docs, _MOST_PAIRS, p=weights)
        second = first_of_query[first] + generator.integers(sizes[first])
    differ = queries.grades[first] > queries.grades[second]
    return first[differ], second[differ]
