"""Columns that features were made from: numbers, dates, and categories with their levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sortnet.core import F32, Queries
from sortnet.rankers.base import Ranker
from sortnet.tables.roles import column_of
from sortnet.tables.values import date_text


@dataclass(frozen=True)
class Column:
    """Column of the data, and the features made from the column.

    Attributes:
        name: the column's name, the name of a computed feature, or a feature's number from 1.
        features: the numbers (from 0) of its features: a single feature, or one for each level.
        levels: the levels of a categorical column, in the order of `features`; else empty.
        is_date: whether the feature is a number of days since 1970.
    """

    name: str
    features: tuple[int, ...]
    levels: tuple[str, ...] = ()
    is_date: bool = False

    def value(self, document: F32) -> float | str | None:
        """Value of this column for a document with these (n_features,) unscaled features.

        It is a number, a date or a level; None if it is missing, or a level that the ranker does
        not know.

        >>> Column("colour", (1, 2), ("blue", "red")).value(np.float32([7, 0, 1]))
        'red'
        """
        values = document[list(self.features)]
        if self.levels:
            place = int(np.argmax(values))
            return self.levels[place] if values[place] == 1 else None
        if np.isnan(values[0]):
            return None
        number = float(values[0])
        return date_text(number) if self.is_date else number


def columns_of(model: Ranker, queries: Queries) -> tuple[Column, ...]:
    """Columns that a ranker's features were made from, in the order of their first features.

    Features `column=level` are the levels of a column if there is no feature `column`, and if all
    of them are 0 or 1 in these documents, with at most a single 1 in a document.

    Args:
        model: the ranker.
        queries: unscaled documents with the ranker's features.

    Cost: one pass over the features of categorical columns.
    """
    readable = feature_names(model, queries)
    stored = model.feature_names or queries.feature_names or readable
    columns = list[Column]()
    for name, features in _with_levels(stored).items():
        # A feature that is called like its column has the empty text here, which is no level.
        levels = tuple(stored[k][len(name) + 1 :] for k in features)
        if all(levels) and _are_indicators(queries.features[:, features]):
            columns.append(Column(name, tuple(features), levels))
        else:
            for k in features:
                columns.append(Column(readable[k], (k,), is_date=stored[k] in queries.dates))
    return tuple(sorted(columns, key=lambda column: column.features))


def feature_names(model: Ranker, queries: Queries) -> tuple[str, ...]:
    """Readable names of the features: the model's, else the data's, else numbers from 1."""
    if model.describer is not None:
        return model.describer.readable_names()
    names = model.feature_names or queries.feature_names
    return names or tuple(str(k) for k in range(1, model.n_features + 1))


def _with_levels(names: Sequence[str]) -> dict[str, list[int]]:
    """Group feature numbers by column: features named `column=level` belong to one column."""
    features_of_columns: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        column = column_of(name, ())
        if column in names:
            column = name
        features_of_columns.setdefault(column, []).append(k)
    return features_of_columns


def _are_indicators(values: F32) -> bool:
    """Whether all values (n, m) are 0 or 1, with at most one 1 in each row."""
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) <= 1).all())
