"""Permutation importance: how much a quality measure drops when a column is shuffled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, Progress, Queries
from sortnet.errors import SortNetError
from sortnet.explanation.columns import Column, columns_of
from sortnet.metrics import Metric, as_metrics, average, outcomes
from sortnet.rankers.base import Ranker


@dataclass(frozen=True, eq=False)
class Importance:
    """Permutation importance of columns: how much a measure drops when a column is shuffled.

    Attributes:
        metric: the measure and its conventions.
        quality: mean of the measure over the queries before any column is shuffled.
        drops: (n_columns, repeats) `quality` minus the mean of the measure after a column is
            shuffled.
        columns: the n_columns columns; a column is a single feature, all levels of a category, or
            all features of texts or images, which is followed by its parts.
        splits: (n_columns,) share of the soft trees' splits that use the column; None for rankers
            without soft trees.
    """

    metric: Metric
    quality: float
    drops: F64
    columns: tuple[Column, ...]
    splits: F64 | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of `columns`."""
        return tuple(column.name for column in self.columns)

    @property
    def mean(self) -> F64:
        """Mean drop (n_columns,) of the measure over the repeats."""
        mean: F64 = self.drops.mean(axis=1)
        return mean

    @property
    def std(self) -> F64:
        """Standard deviation (n_columns,) of the drops over the repeats, divided by `repeats`.

        The divisor is not `repeats` - 1.
        """
        std: F64 = self.drops.std(axis=1)
        return std

    def largest(self, n: int | None = None) -> list[int]:
        """Find the numbers (from 0) of the n columns with the largest mean drops; None: all."""
        order: list[int] = np.argsort(-self.mean, kind="stable")[:n].tolist()
        return order


def permutation_importance(
    model: Ranker,
    queries: Queries,
    metric: Metric | str | None = None,
    *,
    repeats: int = 5,
    seed: int = 0,
    progress: Progress = lambda text: None,
) -> Importance:
    """Compute how much a measure drops when a column is shuffled (Breiman 2001, section 10).

    A column is a feature, all levels of a category, or all features of a column of texts or images.
    Levels are shuffled together, because no document has two levels. The features of texts and
    images are shuffled together, and then each alone. A column is shuffled within each query and
    not across queries, because values of another query would make documents that do not exist.
    Scaling after such a shuffle gives the same as shuffling after the scaling. A column that is
    constant within each query has importance 0, even if it changes the effect of other columns. In
    a repeat all columns are shuffled by the same permutation, so that they can be compared.

    Args:
        model: a ranker of any kind.
        queries: labelled, unscaled documents, preferably not the training data.
        metric: the measure; None: the model's RankQuality with its conventions.
        repeats: number of times that each column is shuffled.
        seed: seed of the permutations.
        progress: called with a line of text before each shuffle.

    Raises:
        ModelError: if the features are not the features that the model was trained on.
        MetricError: if the measure is unknown, or if it cannot be averaged over these queries.
        SortNetError: if `repeats` is less than 1.

    >>> from sortnet.config import Config
    >>> from sortnet.rankers.sortnet import fit
    >>> X = np.arange(12, dtype=np.float32)[:, None] * [1, 0]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> model = fit(q, q, Config(max_iter=2, scaling="normal"))
    >>> importance = permutation_importance(model, q, "ndcg")
    >>> bool(importance.mean[0] > 0), float(importance.mean[1])
    (True, 0.0)

    Cost: a sort for every repeat and every column that varies within queries; the memory of a
    scaled copy of the features.
    """
    if repeats < 1:
        raise SortNetError(f"repeats must be 1 or more, got {repeats}")
    model.check_features(queries)
    (measure,) = as_metrics(model.config.rank_quality if metric is None else metric)
    # The documents as the ranker sees them, and the feature that each of their columns comes from.
    documents, order_of, sources = model.repeatable(queries)
    matrix = documents.features

    def present_quality() -> float:
        """Measure the ranking of the documents, with or without a shuffled column."""
        values = outcomes(measure, documents, order_of(documents))
        return average(values, model.config.empty)

    quality = present_quality()
    columns = tuple(
        part for column in columns_of(model, queries) for part in (column, *column.parts)
    )
    drops = np.zeros((len(columns), repeats))
    rng = np.random.default_rng(seed)
    query = queries.query_of_docs()
    for repeat in range(repeats):
        # This sorts by query; the documents of a query are sorted by random numbers.
        order = np.lexsort((rng.random(queries.n_docs), query))
        for k, column in enumerate(columns):
            progress(f"shuffle {repeat + 1} of {repeats}: {column.name}")
            shuffled = np.flatnonzero(np.isin(sources, column.features))
            values = matrix[:, shuffled]
            if not np.array_equal(values[order], values):
                matrix[:, shuffled] = values[order]
                drops[k, repeat] = quality - present_quality()
                matrix[:, shuffled] = values
    split_shares = model.split_shares()
    if split_shares is not None:
        split_shares = np.array([split_shares[list(column.features)].sum() for column in columns])
    return Importance(measure, quality, drops, columns, split_shares)
