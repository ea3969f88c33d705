"""Partial dependence: where a document would be in its query, by the value of one column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.core import F32, F64, I64, Queries
from sortnet.explanation.columns import Column
from sortnet.rankers.base import Ranker

_VALUES = 15  # the most values of a column of numbers
_LEVELS = 8  # the most levels of a categorical column
_DRAWS = 200  # documents whose value is replaced, about


@dataclass(frozen=True, eq=False)
class Dependence:
    """The share of its query that a document is ranked above, by the value of a column.

    Attributes:
        column: the column.
        values: the m values: numbers in ascending order, days since 1970 for dates; or levels.
        above: (m,) the share of a document's query that the document is ranked above if it has the
            value, a mean over documents.
    """

    column: Column
    values: Sequence[float] | Sequence[str]
    above: F64


def partial_dependence(
    model: Ranker, queries: Queries, column: Column, *, seed: int = 0
) -> Dependence | None:
    """Compute where documents would be in their queries if a column had another value.

    This is Friedman's partial dependence (2001, section 8.2) for comparators: for a value v,

        above(v) = mean over d of (share of the documents e of d's query with m(d_v, e) > 0)

    where m is the margin, and d_v is the document d with the value v in the column. A query has one
    changed document at a time, and all its other documents stay as they are.

    Args:
        model: a ranker of any kind.
        queries: unscaled documents with the ranker's features.
        column: the column.
        seed: seed of the draw of the documents d, about 200.

    Returns:
        The shares for at most 15 quantiles of the column's numbers, or for its 8 most frequent
        levels. None if the column has texts or images, or only one value.

    Raises:
        ModelError: if the features are not the features that the model was trained on.

    >>> from sortnet.config import Config
    >>> from sortnet.explanation.columns import columns_of
    >>> from sortnet.rankers.sortnet import fit
    >>> X = np.arange(12, dtype=np.float32)[:, None]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> model = fit(q, q, Config(max_iter=2, scaling="normal"))
    >>> dependence = partial_dependence(model, q, columns_of(model, q)[0])
    >>> bool(dependence.above[0] < dependence.above[-1])
    True

    Cost: for each value and draw the margins of all documents, about 5 ms for 2,000 documents of 46
    features.
    """
    values, replacements = _cells_of(queries, column)
    comparable = queries.take(np.flatnonzero(queries.sizes > 1))
    if len(values) < 2 or not len(comparable):
        return None
    rng = np.random.default_rng(seed)
    features_of_column = np.array(column.features)
    query = comparable.query_of_docs().astype(np.int64)
    shares = np.zeros((max(1, _DRAWS // len(comparable)), len(values)))
    for draw in range(len(shares)):
        first = comparable.offsets[:-1]
        changed = first + rng.integers(comparable.sizes)
        unchanged = np.setdiff1d(np.arange(comparable.n_docs), changed)
        for number, replacement in enumerate(replacements):
            features = comparable.features.copy()
            features[np.ix_(changed, features_of_column)] = replacement
            margins = model.margins(
                comparable.with_features(features), changed[query[unchanged]], unchanged
            )
            shares[draw, number] = _mean_share(margins, query[unchanged])
    return Dependence(column, values, shares.mean(axis=0))


def _mean_share(margins: F32, query: I64) -> float:
    """Compute each query's share of margins above 0, and return the mean over the queries."""
    n_above = np.bincount(query, (margins > 0) + 0.5 * (margins == 0))
    return float((n_above / np.bincount(query)).mean())


def _cells_of(queries: Queries, column: Column) -> tuple[list[Any], F32]:
    """Choose m values of a column, and the features (m, d) that a document gets for each value.

    There are no values if the column has texts or images.
    """
    features = queries.features[:, list(column.features)]
    if column.levels:
        by_frequency = np.argsort(-features.sum(axis=0), kind="stable")[:_LEVELS]
        identity = np.eye(len(column.levels), dtype=np.float32)
        return [column.levels[k] for k in by_frequency], identity[by_frequency]
    known_values = features[~np.isnan(features)]
    if column.parts or not len(known_values):
        return [], np.empty((0, 1), np.float32)
    quantiles = np.quantile(known_values, np.linspace(0.02, 0.98, _VALUES))
    numbers = np.unique(quantiles.astype(np.float32))
    origin = 0.0 if queries.origins is None else float(queries.origins[column.features[0]])
    return (numbers.astype(np.float64) + origin).tolist(), numbers[:, None]
