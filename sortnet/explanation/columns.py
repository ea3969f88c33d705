"""Find the columns of the data that features were made from: numbers, dates, categories, texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sortnet.core import F32, F64, Queries
from sortnet.items.features import Describer
from sortnet.rankers.base import Ranker
from sortnet.tables.values import date_text


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
        if self.parts:
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
