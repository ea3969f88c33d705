"""Permutation importance: how much a quality measure drops when a column is shuffled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, I64, Progress, Queries
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
    ranked = _RankedDocuments(model, queries, measure)
    columns = tuple(
        part for column in columns_of(model, queries) for part in (column, *column.parts)
    )
    drops = np.zeros((len(columns), repeats))
    for repeat, order in enumerate(_orders_within_queries(queries, repeats, seed)):
        for k, column in enumerate(columns):
            progress(f"shuffle {repeat + 1} of {repeats}: {column.name}")
            drops[k, repeat] = ranked.drop_of_shuffled(column, order)
    return Importance(measure, ranked.quality, drops, columns, _shares_of_splits(model, columns))


class _RankedDocuments:
    """Documents that are ranked again and again, with one of their columns shuffled.

    Attributes:
        quality: mean of the measure over the queries before any column is shuffled.
    """

    def __init__(self, model: Ranker, queries: Queries, measure: Metric) -> None:
        """Scale the documents, and measure their ranking.

        Args:
            model: the ranker.
            queries: unscaled documents.
            measure: the measure of a ranking.
        """
        # `_order_of` ranks the scaled documents. `_sources` has, for each scaled column, the number
        # of the feature that the column is made from.
        self._documents, self._order_of, self._sources = model.repeatable(queries)
        self._measure = measure
        self._empty = model.config.empty
        self.quality = self._present_quality()

    def drop_of_shuffled(self, column: Column, order: I64) -> float:
        """Compute the drop of the measure when a column's values are put in another order.

        Args:
            column: the column.
            order: (n_docs,) number of the document from which each document gets its value.
        """
        matrix = self._documents.features  # (n_docs, n_scaled_columns), changed and restored
        scaled_columns = np.flatnonzero(np.isin(self._sources, column.features))
        values = matrix[:, scaled_columns]
        shuffled_values = values[order]
        if np.array_equal(shuffled_values, values):
            return 0.0
        matrix[:, scaled_columns] = shuffled_values
        drop = self.quality - self._present_quality()
        matrix[:, scaled_columns] = values
        return drop

    def _present_quality(self) -> float:
        """Measure the ranking of the documents, with or without a shuffled column."""
        order = self._order_of(self._documents)
        return average(outcomes(self._measure, self._documents, order), self._empty)


def _orders_within_queries(queries: Queries, repeats: int, seed: int) -> Iterator[I64]:
    """Yield `repeats` random orders (n_docs,) that shuffle the documents within each query."""
    rng = np.random.default_rng(seed)
    query = queries.query_of_docs()
    for _ in range(repeats):
        # This sorts by query; the documents of a query are sorted by random numbers.
        yield np.lexsort((rng.random(queries.n_docs), query))


def _shares_of_splits(model: Ranker, columns: Sequence[Column]) -> F64 | None:
    """Compute the share (n_columns,) of the soft trees' splits that use each column.

    The result is None if the ranker has no soft trees.
    """
    share_of_feature = model.split_shares()
    if share_of_feature is None:
        return None
    return np.array([share_of_feature[list(column.features)].sum() for column in columns])
