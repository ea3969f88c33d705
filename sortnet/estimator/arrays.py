"""Input of an estimator: arrays, frames and sparse matrices, and the queries of their rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from sortnet.core import F64, I64, NamedColumns, Queries
from sortnet.core.named_columns import ALL_ROWS, ID, QUERY
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.features import Describer
from sortnet.items.table_documents import NameRule, documents_of, with_described
from sortnet.rankers.base import Ranker
from sortnet.tables.roles import (
    Columns,
    choose_columns,
    column_of,
    feature_matrix,
    kept_as_read,
    without_unique_text,
)
from sortnet.tables.rows import Rows, as_pandas, no_column, rows_of_frame
from sortnet.tables.values import is_missing, numbers_of, word


def as_table(X: Any, source: str) -> Any:
    """Convert data frames to pandas, sparse matrices to arrays, and dates to days.

    A lazy data frame is collected; masked values become NaN. Other input is returned as it is.
    """
    if issparse(X):
        return X.toarray()
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(np.float64), np.nan)
    if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M") and np.ndim(X) == 2:
        return np.stack([numbers_of(column)[0] for column in X.T], axis=1)
    # Asking a lazy frame for its columns warns of the cost, so it is recognised by `collect`.
    if hasattr(X, "collect") or hasattr(X, "columns"):
        return as_pandas(X)
    return X


def refuse_words(X: Any, source: str) -> None:
    """Raise an error that names row and column of the first cell that is no number."""
    cells = np.asarray(X)
    columns = {f"feature {k + 1}": column.tolist() for k, column in enumerate(cells.T)}
    feature_matrix(Rows(source, columns, range(len(cells)), "row"), [*columns])


@dataclass(frozen=True)
class Features:
    """The rule by which the columns of a frame become features, the same as for tables in files.

    Attributes:
        columns: the names of the columns.
        names: the names of the features: a column, `column=value` of a categorical column, or a
            feature that the describer makes from a text or an image.
        ordered: {column: its levels} of ordered columns. The feature of such a column is the
            number of the level; an unknown level is a missing value.
        describer: makes features from texts and images, if there are any.
        is_of_table: whether the command line trained the model: columns of a frame are then found
            by their names, in any order.
        unused: columns with values that no feature is made from.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    ordered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    describer: Describer | None = field(default=None, compare=False)
    is_of_table: bool = False
    unused: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def fit_apply(
        cls, X: Any, source: str, *, id: str | None = None, query: str | None = None
    ) -> tuple[Features, F64]:
        """Choose the features of a frame, and make them.

        Args:
            X: the frame, without its columns of query and grade.
            source: name of the frame in messages.
            id, query: names of columns that are not in X, which the model folder shall record.

        Returns:
            The features; and (n, n_features) their values, NaN for a missing value.

        Raises:
            DataError: if there is no feature; see `feature_matrix`.

        Cost: with texts or images the cost of `sortnet.items.describe`.
        """
        columns = tuple(map(str, X.columns))
        ordered = {
            name: tuple(map(word, X.iloc[:, k].cat.categories))
            for k, name in enumerate(columns)
            if getattr(X.dtypes.iloc[k], "ordered", False)
        }
        rows = cls(columns, (), ordered).rows(X, source)
        named_roles = Columns(id=ID if ID in columns else None)
        roles = choose_columns(rows, named_roles, (), None)
        roles = without_unique_text(roles, named_roles)
        documents = documents_of(rows, roles, NameRule.ANY)
        matrix = documents.features
        names = documents.feature_names
        describer = None
        if roles.text or roles.image:
            recorded_roles = replace(roles, id=id or roles.id, group=query)
            items = documents.items()
            matrix, describer = with_described(matrix, items, None, recorded_roles)
            names = describer.feature_names
        if describer is not None and not describer.made:
            describer = None
        features = cls(columns, names, ordered, describer)
        used = {roles.id, *map(features.column_of, names)}
        unused = [
            name
            for name, cells in rows.columns.items()
            if name not in used and not all(map(is_missing, cells))
        ]
        return replace(features, unused=tuple(unused)), matrix

    def apply(self, X: Any, source: str) -> F64:
        """Make the features (n, n_features) of a frame with the same columns.

        Raises:
            DataError: on a column that is missing; see `feature_matrix`.
        """
        rows = self.rows(X, source)
        described = self._described_columns()
        for column in described.values():
            if column not in rows.columns:
                raise DataError(f"{source}: {no_column(column, rows.columns)}")
        roles = Columns(
            text=described.get("text"), image=described.get("image"), features=self._column_features
        )
        documents = documents_of(rows, roles, NameRule.ANY)
        if self.describer is None:
            return documents.features
        if not len(rows):
            return np.empty((0, len(self.names)))
        return with_described(documents.features, documents.items(), self.describer, roles)[0]

    def rows(self, X: Any, source: str) -> Rows:
        """Read the rows of a frame; a level of an ordered column becomes the level's number."""
        types = dict(zip(map(str, X.columns), X.dtypes, strict=False))
        is_kept = kept_as_read(*self._described_columns().values())

        def keep(column: str) -> bool:
            is_category = hasattr(types[column], "categories")
            return column in self.ordered or (is_kept(column) and not is_category)

        rows = rows_of_frame(X, source, keep)
        for column, levels in self.ordered.items():
            number_of_level = {level: float(k) for k, level in enumerate(levels)}
            rows.columns[column] = np.array(
                [number_of_level.get(text, np.nan) for text in rows.texts(column)], np.float64
            )
        return rows

    def needed(self, columns: Collection[str]) -> tuple[str, ...]:
        """The columns that the features are made from, in a frame with these columns."""
        feature_columns = [column_of(name, columns) for name in self._column_features]
        return tuple(dict.fromkeys([*feature_columns, *self._described_columns().values()]))

    def column_of(self, feature: str) -> str:
        """The column that a feature is made from."""
        if self.describer is not None and feature in self.describer.made:
            role = feature.partition(": ")[0]
            return self.describer.columns.get(role, role)
        return column_of(feature, self.columns)

    def added_up(self, shares: F64) -> F64:
        """Add up the shares of the features of each column, (n_columns,)."""
        number_of_column = {name: k for k, name in enumerate(self.columns)}
        numbers = [number_of_column[self.column_of(name)] for name in self.names]
        return np.bincount(numbers, shares, len(self.columns)).astype(np.float64)

    @property
    def _column_features(self) -> tuple[str, ...]:
        """The names of the features that the describer does not make."""
        return self.names if self.describer is None else self.describer.given

    def _described_columns(self) -> dict[str, str]:
        """The columns of texts and images that the describer reads, {role: column}.

        A ranker of a folder's items has no names of columns: in a frame they are called as the
        roles.
        """
        if self.describer is None:
            return {}
        is_described = {"text": self.describer.of_texts, "image": self.describer.of_images}
        return {
            role: self.describer.columns.get(role, role)
            for role, is_needed in is_described.items()
            if is_needed
        }


def features_of_model(
    model: Ranker, columns: Sequence[str] | None, ordered: Mapping[str, tuple[str, ...]]
) -> Features:
    """The rule by which the columns of a frame become the named features of a saved model.

    Args:
        model: the model.
        columns: the columns of the frame in `fit`; None: the command line trained the model.
        ordered: {column: its levels} of ordered columns.

    Raises:
        ValueError: if the features are not made from these columns.
    """
    describer = model.describer
    names = tuple(model.feature_names or ())
    if columns is not None:
        features = Features(tuple(columns), names, ordered, describer)
    elif describer is None:
        features = Features(names, names, is_of_table=True)
    else:
        features = Features((), names, {}, describer, is_of_table=True)
        features = replace(features, columns=features.needed(()))
    if {*map(features.column_of, names)} - {*features.columns}:
        raise ValueError("not the columns of this model")
    return features


def columns_in(X: Any, features: tuple[str, ...] | None) -> dict[str, Any]:
    """The columns of a frame that features were made from, as `SortNetRanker.save` writes them.

    Empty if X is no frame or lacks a column.
    """
    frame_columns = [str(name) for name in getattr(X, "columns", ())]
    columns = [*dict.fromkeys(column_of(name, frame_columns) for name in features or ())]
    if not columns or {*columns} - {*frame_columns}:
        return {}
    return {"columns": columns, "n_columns": len(columns)}


def take_columns(
    X: Any, qid: ArrayLike | None, names: NamedColumns, source: str
) -> tuple[Any, ArrayLike | None, ArrayLike | None]:
    """Take the columns of query, grade and id out of a DataFrame.

    Args:
        X: the DataFrame, or an array, which is returned as it is.
        qid: the query of each row, if it is no column.
        names: the names of the columns.
        source: name of X in messages.

    Returns:
        The remaining columns, the queries and the grades of the rows.

    Raises:
        DataError: if the queries are both a column and `qid`.
    """
    columns = [str(name) for name in getattr(X, "columns", ())]
    grades = X[names.grade] if names.grade in columns else None
    if columns:
        X = X.drop(columns=[name for name in (names.grade, names.id) if name in columns])
    query = names.query or QUERY
    renamed = [name for name in columns if name.endswith("__qid")]
    if renamed:
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
    """Refuse a feature that equals the qid in every row, if there are at least two queries."""
    try:
        qid_numbers = np.asarray(qid, dtype=X.dtype)
    except (TypeError, ValueError):  # there is no qid, or it is a text
        return
    if qid_numbers.shape != (len(X),) or (qid_numbers == qid_numbers[:1]).all():
        return
    for k in np.flatnonzero(X[0] == qid_numbers[0]):
        if np.array_equal(X[:, k], qid_numbers):
            name = f"feature {k + 1}" if names is None else f"the column {names[k]!r}"
            raise DataError(f"{source}: {name} is the qid in every row, no feature: leave it out")


def documents(queries: Queries, a: NDArray[Any], b: NDArray[Any]) -> tuple[I64, I64]:
    """Document numbers of the rows a and b; a[k] and b[k] must be rows of the same query.

    Raises:
        DataError: if a or b are no numbers of rows, or the rows belong to different queries.
    """
    if a.shape != b.shape or a.ndim != 1:
        raise DataError(f"rows of shapes {a.shape} and {b.shape} cannot be compared one by one")
    if a.dtype.kind not in "iu" or b.dtype.kind not in "iu":
        raise DataError("with a context, a and b are numbers of its rows")
    rows = np.stack((a, b)).astype(np.int64)
    is_outside = (rows < 0) | (rows >= queries.n_docs)
    if is_outside.any():
        raise DataError(
            f"row {rows[is_outside][0]}: the context has rows 0 to {queries.n_docs - 1}"
        )
    document_of_row = np.empty(queries.n_docs, np.int64)
    document_of_row[queries.rows] = np.arange(queries.n_docs)
    i, j = document_of_row[rows]
    query = queries.query_of_docs()
    is_across = query[i] != query[j]
    if is_across.any():
        k = int(np.argmax(is_across))
        raise DataError(
            f"rows {rows[0, k]} and {rows[1, k]} are of the queries {queries.qids[query[i[k]]]} "
            f"and {queries.qids[query[j[k]]]}: only documents of one query compare"
        )
    return i, j
