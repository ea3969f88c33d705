"""Permutation importance: how much a quality measure drops when a column is shuffled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sortnet.core import F64, Progress, Queries
from sortnet.errors import SortNetError
from sortnet.explain.columns import Column, columns_of
from sortnet.metrics import Metric, as_metrics, average, outcomes
from sortnet.rankers.base import Ranker


@dataclass(frozen=True, eq=False)
class Importance:
    """Permutation importance of all columns: how much a measure drops when each is shuffled.

    Attributes:
        metric: the measure and its conventions.
        quality: the mean of the measure over the queries, without shuffling.
        drops: (n_columns, repeats) `quality` less the quality of the shuffled data.
        columns: (n_columns,) the columns: a single feature, or all levels of a category.
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
        """Names (n_columns,) of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def mean(self) -> F64:
        """Mean drop (n_columns,) of the measure over the repeats."""
        mean: F64 = self.drops.mean(axis=1)
        return mean

    @property
    def std(self) -> F64:
        """Standard deviation (n_columns,) of the drop over the repeats, with divisor `repeats`."""
        std: F64 = self.drops.std(axis=1)
        return std

    def largest(self, n: int | None = None) -> list[int]:
        """Numbers of the n columns with the largest mean drops, counted from 0."""
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
    """Measure how much a measure drops when a column is shuffled (Breiman 2001, section 10).

    A column is a feature, or all levels of a category. Levels are shuffled together, because no
    document has two levels. A column is shuffled within each query and not across queries: values
    of another query would make documents that do not exist, and every scaling commutes with
    shuffling within queries. A column that is constant within each query therefore has importance
    0, even if it changes the effect of other columns. In a repeat all columns are shuffled by the
    same permutation, so that they can be compared.

    Args:
        model: any ranker.
        queries: labelled, unscaled documents, preferably not the training data.
        metric: the measure; by default the model's RankQuality with its conventions.
        repeats: number of times each column is shuffled.
        seed: seed of the permutations.
        progress: called with a text before each shuffle.

    Raises:
        ModelError: if the features are not those the model was trained on.
        MetricError: on an unknown measure, or as `average`.
        SortNetError: if `repeats` is less than 1.

    >>> from sortnet.config import Config
    >>> from sortnet.rankers.sortnet import fit
    >>> X = np.arange(12, dtype=np.float32)[:, None] * [1, 0]
    >>> q = Queries.from_arrays(X, X[:, 0] % 6, group=[6, 6])
    >>> model = fit(q, q, Config(max_iter=2, scaling="normal"))
    >>> importance = permutation_importance(model, q, "ndcg")
    >>> bool(importance.mean[0] > 0), float(importance.mean[1])
    (True, 0.0)

    Cost: a sort for every repeat and column that varies within queries; a scaled copy of the
    features.
    """
    if repeats < 1:
        raise SortNetError(f"repeats must be 1 or more, got {repeats}")
    model.check_features(queries)
    config = model.config
    (measure,) = as_metrics(config.rank_quality if metric is None else metric)
    documents, order_of, sources = model.repeatable(queries)

    def current_quality() -> float:
        return average(outcomes(measure, documents, order_of(documents)), config.empty)

    quality = current_quality()
    table = documents.features
    columns = columns_of(model, queries)
    drops = np.zeros((len(columns), repeats))
    rng = np.random.default_rng(seed)
    query = queries.query_of_docs()
    for repeat in range(repeats):
        # Sorting by query, then by random numbers, shuffles the documents within each query.
        order = np.lexsort((rng.random(queries.n_docs), query))
        for k, column in enumerate(columns):
            progress(f"shuffle {repeat + 1} of {repeats}: {column.name}")
            scaled_columns = np.flatnonzero(np.isin(sources, column.features))
            values = table[:, scaled_columns]
            if not np.array_equal(values[order], values):
                table[:, scaled_columns] = values[order]
                drops[k, repeat] = quality - current_quality()
                table[:, scaled_columns] = values
    splits = model.split_shares()
    if splits is not None:
        splits = np.array([splits[list(column.features)].sum() for column in columns])
    return Importance(measure, quality, drops, columns, splits)
