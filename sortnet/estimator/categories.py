"""Categorical columns of a data frame as numbers, without a look at the grades."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from sortnet.errors import DataError
from sortnet.types import F64, I64
from sortnet.types.free import refuse_too_large

if TYPE_CHECKING:
    import pandas as pd

ONE_HOT = 10  # levels of a column that becomes an indicator for each, at most
_MOST = 10_000  # levels of any column


@dataclass(frozen=True)
class Category:
    """A categorical column.

    Attributes:
        levels: as texts, in the order of their codes.
        one_hot: whether each level is an indicator; else the code is the value.
    """

    levels: tuple[str, ...]
    one_hot: bool

    def codes(self, column: pd.Series[Any]) -> F64:
        """(n_docs,) the level's number; NaN for a missing value and for an unknown level."""
        numbers, names = _factors(column)
        of = {level: float(code) for code, level in enumerate(self.levels)}
        return np.array([*(of.get(name, np.nan) for name in names), np.nan])[numbers]


@dataclass(frozen=True)
class Categories:
    """The categorical columns of a frame, by their numbers from 0.

    A column is categorical if its dtype is, or if it holds texts of which less than half are
    numbers. With up to 10 levels it becomes an indicator for each level, all 0 where the value is
    missing or unknown; with more, its value is the number of levels that are rarer, NaN where it
    is missing or unknown. The levels of an ordered dtype are numbered in their order.
    """

    columns: Mapping[int, Category] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Any, source: str) -> Self:
        """Those of a frame; an array has none.

        Raises:
            DataError: if a column has too many levels: it holds names or free text.
        """
        if not hasattr(X, "columns"):
            return cls()
        columns = {k: X.iloc[:, k] for k in range(X.shape[1])}
        return cls({k: _category(c, source) for k, c in columns.items() if _is_category(c)})

    def refuse_array(self, X: Any, source: str) -> None:
        """Refuse what has no columns, where levels are looked up in them."""
        if not hasattr(X, "columns"):
            raise DataError(
                f"{source} must be a DataFrame: the ranker was fitted with categorical columns"
            )

    def coded(self, X: Any) -> Any:
        """The frame with codes in place of the values of these columns."""
        if not self.columns:
            return X
        X = X.copy(deep=False)
        for k, category in self.columns.items():
            X.isetitem(k, category.codes(X.iloc[:, k]))
        return X

    def expanded(self, X: NDArray[Any], source: str) -> NDArray[Any]:
        """(n_docs, n_columns) with codes -> (n_docs, n_features) with indicators."""
        if not self.columns:
            return X
        widths = self.widths(X.shape[1])
        needed = X.itemsize * len(X) * int(widths.sum())
        refuse_too_large(needed, f"{source}: the indicators of its categorical columns")
        out = np.repeat(X, widths, axis=1)
        for k, category in self._one_hot():
            first = int(widths[:k].sum())
            out[:, first : first + widths[k]] = X[:, [k]] == np.arange(len(category.levels))
        return out

    def widths(self, n_columns: int) -> I64:
        """(n_columns,) the number of features that each column becomes."""
        widths = np.ones(n_columns, np.int64)
        for k, category in self._one_hot():
            widths[k] = len(category.levels)
        return widths

    def names(self, columns: Any) -> list[str] | None:
        """The names of the features: `colour=red` of an indicator."""
        if columns is None:
            return None
        levels = {k: [f"{columns[k]}={level}" for level in c.levels] for k, c in self._one_hot()}
        return [name for k, own in enumerate(columns) for name in levels.get(k, [own])]

    def _one_hot(self) -> list[tuple[int, Category]]:
        return [(k, category) for k, category in self.columns.items() if category.one_hot]

    def to_json(self) -> dict[str, Any]:
        return {str(k): asdict(category) for k, category in self.columns.items()}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any], n_columns: int) -> Self:
        """What `to_json` wrote.

        Raises:
            ValueError, TypeError, KeyError: if it did not.
        """
        columns = {}
        for k, about in saved.items():
            levels, one_hot = about["levels"], about["one_hot"]
            texts = isinstance(levels, list) and all(isinstance(level, str) for level in levels)
            if not texts or not isinstance(one_hot, bool) or not 0 <= int(k) < n_columns:
                raise ValueError(f"no categorical column: {k[:60]}")
            columns[int(k)] = Category(tuple(levels), one_hot)
        return cls(columns)


def _is_category(column: pd.Series[Any]) -> bool:
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return True
    if column.dtype.kind != "O" or pd.api.types.infer_dtype(column, skipna=True) != "string":
        return False
    texts = column.dropna()
    return bool(pd.to_numeric(texts, errors="coerce").notna().mean() < 0.5)


def _category(column: pd.Series[Any], source: str) -> Category:
    if getattr(column.dtype, "ordered", False):
        return Category(tuple(map(_name, column.cat.categories)), one_hot=False)
    numbers, names = _factors(column)
    times: Counter[str] = Counter()
    for name, count in zip(names, np.bincount(numbers + 1, minlength=len(names) + 1)[1:],
                           strict=True):  # fmt: skip
        times[name] += int(count)
    if len(times) > max(ONE_HOT, min(len(column) // 2, _MOST)):
        raise DataError(
            f"{source}: column {str(column.name)[:60]!r} has {len(times):,} different texts in "
            f"{len(column):,} rows: leave names and free text out"
        )
    if 0 < len(times) <= ONE_HOT:
        return Category(tuple(sorted(times)), one_hot=True)
    return Category(tuple(sorted(times, key=lambda name: (times[name], name))), one_hot=False)


def _factors(column: pd.Series[Any]) -> tuple[I64, list[str]]:
    """(n_docs,) each value's number, -1 where it is missing; and the values as texts."""
    import pandas as pd

    numbers, values = pd.factorize(column)
    return np.asarray(numbers, np.int64), [_name(value) for value in values]


def _name(value: Any) -> str:
    """A level as text; 3.0 is 3, as missing values make floats of whole numbers."""
    whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    return str(int(value)) if whole else str(value)
