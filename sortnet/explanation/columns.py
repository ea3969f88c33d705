"""Find the columns of the data that features were made from: numbers, dates, categories, texts.

`permutation_importance` measures how much a ranker needs each column, `partial_dependence` where a
document would be in its query by the value of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sortnet.core import F32, F64, Progress, Queries
from sortnet.errors import SortNetError
from sortnet.items.features import Describer
from sortnet.metrics import Metric, as_metrics, average, outcomes
from sortnet.rankers.base import Ranker, ranker_of
from sortnet.tables.values import date_text

_VALUES = 15  # the most values of a column of numbers
_LEVELS = 8  # the most levels of a categorical column
_DRAWS = 200  # documents whose value is replaced, about


@dataclass(frozen=True)
class Column:
    """A column of the data, and the features that are made from the column.

    Attributes:
        name: name of the column; for a feature that is no column of the data, its name; without
            names, the number of the feature from 1.
        features: numbers of the column's features, from 0: a feature for each level of a
            categorical column, a feature for each word of a column of texts, else a single feature.
        levels: the levels of a categorical column, in the order of `features`; else empty.
        is_date: whether the column is a date; its feature is then a number of days since 1970.
        parts: the features of a column of texts or images, each as a column; else empty.
    """

    name: str
    features: tuple[int, ...]
    levels: tuple[str, ...] = ()
    is_date: bool = False
    parts: tuple[Column, ...] = ()

    def value(self, document: F32 | F64) -> float | str | None:
        """Return the value of this column in a document: a number, a date or a level.

        It is None if the value is missing, if the ranker does not know the level, or if the column
        has texts or images.

        Args:
            document: (n_features,) unscaled features of the document, see `Queries.exact_features`.

        >>> Column("colour", (1, 2), ("blue", "red")).value(np.float32([7, 0, 1]))
        'red'
        """
        if self.parts:  # the column has texts or images
            return None
        values = document[list(self.features)]
        if self.levels:
            k = int(np.argmax(values))  # the level of the document has the value 1, all others 0
            return self.levels[k] if values[k] == 1 else None
        if np.isnan(values[0]):
            return None
        number = float(values[0])
        return date_text(number) if self.is_date else number


def columns_of(model: Ranker, queries: Queries) -> tuple[Column, ...]:
    """List the columns that a ranker's features were made from, in the order of their features.

    Features with names `column=level` become the levels of one column if all of them are 0 or 1 in
    these documents, at most one of them is 1 in each document, and no feature is named `column`.
    The features that a describer makes of texts, or of images, are parts of one column.

    Args:
        model: the ranker.
        queries: unscaled documents with the ranker's features.

    Cost: one pass over the features of categorical columns.
    """
    names = _names_in_data(model, queries)
    names_for_users = feature_names(model, queries)
    columns = _described_columns(model.describer, names, names_for_users)
    is_part = {k for column in columns for k in column.features}
    features_by_column: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        column, _, _ = name.partition("=")
        if column in names:  # a column of its own, so `name` is no level of it
            column = name
        if k not in is_part:
            features_by_column.setdefault(column, []).append(k)
    for column, features in features_by_column.items():
        levels = tuple(names[k].removeprefix(column)[1:] for k in features)
        if all(levels) and _are_indicators(queries.features[:, features]):
            columns.append(Column(column, tuple(features), levels))
        else:  # each feature is a column of its own
            for k in features:
                columns.append(Column(names_for_users[k], (k,), is_date=names[k] in queries.dates))
    return tuple(sorted(columns, key=lambda column: column.features))


def _described_columns(
    describer: Describer | None, names: Sequence[str], names_for_users: Sequence[str]
) -> list[Column]:
    """Make a column of the features of texts, and one of the features of images, if there are any.

    Args:
        describer: the describer of the ranker, which made the features.
        names: the names of all features, as the ranker stores them.
        names_for_users: the names of all features, as users understand them.
    """
    if describer is None:
        return []
    features_of_column: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        column = describer.column_of(name)
        if column is not None:
            features_of_column.setdefault(column, []).append(k)
    return [
        Column(
            column, tuple(features), parts=tuple(Column(names_for_users[k], (k,)) for k in features)
        )
        for column, features in features_of_column.items()
    ]


def feature_names(model: Ranker, queries: Queries) -> tuple[str, ...]:
    """Name the features in a way that users understand, also features of texts and images."""
    if model.describer is not None:
        return model.describer.readable_names()
    return _names_in_data(model, queries)


def _names_in_data(model: Ranker, queries: Queries) -> tuple[str, ...]:
    """Return the names of the features that the ranker stores, or else the names in these data.

    Without any names, the features are numbered from 1.
    """
    if model.feature_names:
        return model.feature_names
    if queries.feature_names:
        return queries.feature_names
    return tuple(str(k) for k in range(1, model.n_features + 1))


def _are_indicators(values: F32) -> bool:
    """Check that the values (n_docs, n_levels) are 0 or 1, with at most one 1 in each row."""
    if not ((values == 0) | (values == 1)).all():
        return False
    return bool((values.sum(axis=1) <= 1).all())


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
        model: a ranker of any kind, or a fitted estimator.
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
    model = ranker_of(model)
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
            # The share of each query is that of its margins above 0; then the mean over queries.
            n_above = np.bincount(query[unchanged], (margins > 0) + 0.5 * (margins == 0))
            shares[draw, number] = (n_above / np.bincount(query[unchanged])).mean()
    return Dependence(column, values, shares.mean(axis=0))


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
