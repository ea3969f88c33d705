"""What an estimator is given: arrays, frames and sparse matrices, and the queries of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from sortnet.core import F64, I64, NamedColumns, Queries
from sortnet.core.named_columns import ALL_ROWS
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.tables.roles import choose_features, column_of, feature_matrix
from sortnet.tables.rows import Rows, as_pandas, rows_of_frame
from sortnet.tables.values import is_missing, numbers_of, word


def as_table(X: Any, source: str) -> Any:
    """A data frame as one of pandas (a lazy one is collected), a sparse matrix as an array, what is
    masked as missing, dates as days; the rest as it is."""
    if issparse(X):
        return X.toarray()
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(np.float64), np.nan)
    if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M") and np.ndim(X) == 2:
        return np.stack([numbers_of(column)[0] for column in X.T], axis=1)
    # Asking a lazy frame for its columns warns of the cost, so it is recognised by `collect`.
    return as_pandas(X) if hasattr(X, "collect") or hasattr(X, "columns") else X


def refuse_words(X: Any, source: str) -> None:
    """Refuse the first cell of an array that is no number, by its row and column."""
    cells = np.asarray(X)
    columns = {f"feature {k + 1}": column.tolist() for k, column in enumerate(cells.T)}
    feature_matrix(Rows(source, columns, range(len(cells)), "row"), [*columns])


@dataclass(frozen=True)
class Features:
    """How the columns of a frame become features.

    Attributes:
        columns: their names.
        names: the features: a column, or `column=value` of a categorical one.
        ordered: {column: its levels}, whose feature is the level's place; a level that is not
            there is a missing value.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    ordered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, X: Any, source: str) -> Features:
        """Those of a frame.

        Raises:
            DataError: if a column holds names or free text.
        """
        columns = tuple(map(str, X.columns))
        ordered = {
            name: tuple(map(word, X.iloc[:, k].cat.categories))
            for k, name in enumerate(columns)
            if getattr(X.dtypes.iloc[k], "ordered", False)
        }
        rows = cls(columns, (), ordered).rows(X, source)
        names = choose_features(rows.columns, columns)
        of_columns = {column_of(name, columns) for name in names}
        for name, cells in rows.columns.items():
            if name not in of_columns and any(not is_missing(cell) for cell in cells):
                n, m = len({*map(str, cells)}), len(rows)
                raise DataError(
                    f"{source}: column {shown(name)} has {n:,} different texts in {m:,} rows: "
                    "leave names and free text out"
                )
        return cls(columns, names, ordered)

    def rows(self, X: Any, source: str) -> Rows:
        """The frame's rows, with the places of ordered levels."""
        rows = rows_of_frame(X, source, lambda column: column in self.ordered)
        for column, levels in self.ordered.items():
            place = {level: float(k) for k, level in enumerate(levels)}
            rows.columns[column] = np.array(
                [place.get(text, np.nan) for text in rows.texts(column)], np.float64
            )
        return rows

    def added_up(self, shares: F64) -> F64:
        """(n_columns,) the sums over the features of each column."""
        number = {name: k for k, name in enumerate(self.columns)}
        of = [number[column_of(name, self.columns)] for name in self.names]
        return np.bincount(of, shares, len(self.columns)).astype(np.float64)


def columns_in(X: Any, features: tuple[str, ...] | None) -> dict[str, Any]:
    """The columns of a frame that features were made of, as `SortNetRanker.save` keeps them.

    Nothing where X is no frame or lacks a column.
    """
    there = [str(name) for name in getattr(X, "columns", ())]
    columns = [*dict.fromkeys(column_of(name, there) for name in features or ())]
    if not columns or {*columns} - {*there}:
        return {}
    return {"columns": columns, "n_columns": len(columns)}


def take_columns(
    X: Any, qid: ArrayLike | None, names: NamedColumns, source: str
) -> tuple[Any, ArrayLike | None, ArrayLike | None]:
    """The features of a DataFrame without its columns of query, grade and id; queries and grades.

    Args:
        qid: the query of each row, where it is no column.

    Raises:
        DataError: on queries both as a column and beside it.
    """
    columns = [str(c) for c in getattr(X, "columns", ())]
    grades = X[names.grade] if names.grade in columns else None
    X = X.drop(columns=[c for c in (names.grade, names.id) if c in columns]) if columns else X
    query = names.query or "qid"
    if renamed := [c for c in columns if c.endswith("__qid")]:
        raise DataError(
            f"{source}: the column {renamed[0]!r} is no feature: call it 'qid' "
            "(a ColumnTransformer does with verbose_feature_names_out=False)"
        )
    if query == ALL_ROWS or query not in columns:
        return X, qid, grades
    if qid is not None:
        raise DataError(f"{source} has a column {shown(query)}, so give no qid besides")
    return X.drop(columns=query), X[query], grades


def refuse_qid_as_feature(X: NDArray[Any], qid: Any, names: Any, source: str) -> None:
    """Refuse a feature that is the qid in every row, if there are two queries at least."""
    try:
        number = np.asarray(qid, dtype=X.dtype)
    except (TypeError, ValueError):  # no qid, or names
        return
    if number.shape != (len(X),) or (number == number[:1]).all():
        return
    for k in np.flatnonzero(X[0] == number[0]):
        if np.array_equal(X[:, k], number):
            name = f"feature {k + 1}" if names is None else f"the column {names[k]!r}"
            raise DataError(f"{source}: {name} is the qid in every row, no feature: leave it out")


def documents(queries: Queries, a: NDArray[Any], b: NDArray[Any]) -> tuple[I64, I64]:
    """Document numbers of the rows a and b, which must be of one query pair by pair."""
    if a.shape != b.shape or a.ndim != 1:
        raise DataError(f"rows of shapes {a.shape} and {b.shape} cannot be compared one by one")
    if a.dtype.kind not in "iu" or b.dtype.kind not in "iu":
        raise DataError("with a context, a and b are numbers of its rows")
    rows = np.stack((a, b)).astype(np.int64)
    bad = (rows < 0) | (rows >= queries.n_docs)
    if bad.any():
        raise DataError(f"row {rows[bad][0]}: the context has rows 0 to {queries.n_docs - 1}")
    document = np.empty(queries.n_docs, np.int64)
    document[queries.rows] = np.arange(queries.n_docs)
    i, j = document[rows]
    query = queries.query_of_docs()
    apart = query[i] != query[j]
    if apart.any():
        k = int(np.argmax(apart))
        raise DataError(
            f"rows {rows[0, k]} and {rows[1, k]} are of the queries {queries.qids[query[i[k]]]} "
            f"and {queries.qids[query[j[k]]]}: only documents of one query compare"
        )
    return i, j
