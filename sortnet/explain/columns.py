"""Columns of the data that features come from: numbers, dates, categories with their levels."""

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
    """A column, and the features that it has become.

    Attributes:
        name: the column's name, the name of a computed feature, or a feature's number from 1.
        features: the numbers (from 0) of its features: one, or one for each level.
        levels: the levels of a categorical column, in the order of `features`; else empty.
        is_date: whether the feature is a number of days since 1970.
    """

    name: str
    features: tuple[int, ...]
    levels: tuple[str, ...] = ()
    is_date: bool = False

    def value(self, document: F32) -> float | str | None:
        """The value of a document, of its (n_features,) unscaled features: a number, a date, or a
        level; None where it is missing, or a level that the ranker does not know.

        >>> Column("colour", (1, 2), ("blue", "red")).value(np.float32([7, 0, 1]))
        'red'
        """
        values = document[list(self.features)]
        if self.levels:
            place = int(np.argmax(values))
            return self.levels[place] if values[place] == 1 else None
        if np.isnan(values[0]):
            return None
        return date_text(float(values[0])) if self.is_date else float(values[0])


def columns_of(model: Ranker, queries: Queries) -> tuple[Column, ...]:
    """The columns of a ranker's features, in the order of their first features.

    Features `column=level` are the levels of one column if there is no feature `column`, and they
    are 0 or 1 in these documents, at most one of them 1.

    Args:
        queries: unscaled documents with the ranker's features.

    Cost: one pass over the features of categorical columns.
    """
    readable = feature_names(model, queries)
    stored = model.feature_names or queries.feature_names or readable
    columns = list[Column]()
    for name, features in _with_levels(stored).items():
        levels = tuple(stored[k][len(name) + 1 :] for k in features)
        if all(levels) and _are_indicators(queries.features[:, features]):
            columns.append(Column(name, tuple(features), levels))
        else:
            columns += [Column(readable[k], (k,), is_date=stored[k] in queries.dates)
                        for k in features]  # fmt: skip
    return tuple(sorted(columns, key=lambda column: column.features))


def feature_names(model: Ranker, queries: Queries) -> tuple[str, ...]:
    """The features' names for people from the model, else from the data, else numbers from 1."""
    if model.describer is not None:
        return model.describer.readable_names()
    names = model.feature_names or queries.feature_names
    return names or tuple(str(k) for k in range(1, model.n_features + 1))


def _with_levels(names: Sequence[str]) -> dict[str, list[int]]:
    """The numbers of the features by the column that their names allow."""
    features_of: dict[str, list[int]] = {}
    for k, name in enumerate(names):
        column = column_of(name, ())
        features_of.setdefault(name if column in names else column, []).append(k)
    return features_of


def _are_indicators(values: F32) -> bool:
    """Whether (n, m) values are 0 or 1, at most one of a row 1."""
    return bool(((values == 0) | (values == 1)).all() and (values.sum(axis=1) <= 1).all())
