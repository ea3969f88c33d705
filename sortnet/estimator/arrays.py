"""Convert the input of an estimator: arrays, frames and sparse matrices, and their queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from sortnet.core import F64, I64, NamedColumns, Queries
from sortnet.core.named_columns import ALL_ROWS, ID, QUERY
from sortnet.data.grades import deviations_in_queries, in_which_bin
from sortnet.errors import DataError
from sortnet.files import shown
from sortnet.items.features import Describer
from sortnet.items.table_documents import described, documents_of
from sortnet.rankers.base import Ranker
from sortnet.tables.read_rows import as_pandas, is_frame, rows_of_frame, with_words
from sortnet.tables.roles import (
    Columns,
    choose_columns,
    column_of,
    columns_sentence,
    feature_matrix,
    kept_as_read,
    without_unique_text,
)
from sortnet.tables.rows import Rows, no_column
from sortnet.tables.values import is_missing, numbers_of


def as_table(X: Any) -> Any:
    """Convert data frames to pandas, sparse matrices to arrays, and dates to days.

    A lazy data frame is collected; masked values become NaN. Other input is returned as it is.

    Raises:
        DataError: if X is neither an array, a list of rows, nor a data frame.
    """
    if issparse(X):
        return X.toarray()
    if X is None or isinstance(X, str | bytes | Mapping | Iterator):
        raise DataError(
            f"{shown(X)} is no table: give an array, a data frame, or a list of rows or dicts"
        )
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(np.float64), np.nan)
    kind_of_dtype = getattr(getattr(X, "dtype", None), "kind", "")
    if kind_of_dtype in ("m", "M") and np.ndim(X) == 2:  # durations or dates
        return np.stack([numbers_of(column)[0] for column in X.T], axis=1)
    has_dicts = isinstance(X, list | tuple) and any(isinstance(row, Mapping) for row in X)
    return as_pandas(X) if has_dicts or is_frame(X) else X


def refuse_words(X: Any, source: str) -> None:
    """Raise a DataError that names the row and the column of the first cell that is no number.

    Args:
        X: (n, n_columns) an array or a list of rows.
        source: name of X in messages.
    """
    cells = np.asarray(X)
    columns = {f"feature {k}": column.tolist() for k, column in enumerate(cells.T, start=1)}
    rows = Rows(source, columns, range(len(cells)), "row")
    feature_matrix(rows, list(columns))  # which raises the error


@dataclass(frozen=True)
class Features:
    """The rule by which the columns of a frame become features, the same as for tables in files.

    Attributes:
        columns: the names of the columns.
        names: the names of the features. A feature is a column, a level `column=level` of a
            categorical column, or a number that the describer makes from a text or an image.
        ordered: {ordered column: its levels}. The feature of an ordered column is the number of the
            level; an unknown level is a missing value.
        describer: makes features from texts and images; None: there are no such features.
        is_of_table: whether the command line trained the model. The columns of a frame are then
            found by their names, in any order.
        roles: the roles of the columns in the frame of `fit`; `ignored` are the columns that have
            values and from which no feature is made. A ranker from a folder has no roles.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    ordered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    describer: Describer | None = field(default=None, compare=False)
    is_of_table: bool = False
    roles: Columns = field(default_factory=Columns, compare=False)

    @property
    def sentence(self) -> str:
        """Sentence that tells what was made of the columns of the frame of `fit`."""
        return columns_sentence(self.roles, self.describer.made if self.describer else ())

    @classmethod
    def fit_apply(
        cls,
        X: Any,
        source: str,
        *,
        id: str | None = None,
        query: str | None = None,
        deviations: F64 | None = None,
    ) -> tuple[Features, F64]:
        """Choose the features that the columns of a frame become; return them and their values.

        Args:
            X: the frame, without its columns of query and grade.
            source: name of the frame in messages.
            id, query: names of the columns of ids and queries, which are not in X; the model folder
                records them.
            deviations: (n,) grade of each row less the mean grade of its query; the words that
                predict it best become features of texts. None: there are no grades.

        Returns:
            The rule that makes the features; and the values (n, n_features) of the features, NaN
            for a missing value.

        Raises:
            DataError: if there is no feature; see `feature_matrix`.

        Cost: with texts or images the cost of `sortnet.items.describe`.
        """
        columns = tuple(map(str, X.columns))
        ordered = {
            name: tuple(with_words(X.iloc[:, k].array).categories)
            for k, name in enumerate(columns)
            if getattr(X.dtypes.iloc[k], "ordered", False)
        }
        without_features = cls(columns, (), ordered)
        rows = without_features.rows(X, source)

        # Columns get the same roles as in a table that the command line reads.
        named_roles = Columns(id=ID if ID in columns else None)
        roles = choose_columns(rows, named_roles, (), None)
        roles = without_unique_text(roles, named_roles)
        documents = documents_of(rows, roles)
        # The model folder names the columns of ids and queries, which X itself does not have.
        recorded_roles = replace(roles, id=id or roles.id, group=query)
        matrix, names, describer = described(
            replace(documents, roles=recorded_roles), None, deviations=deviations
        )
        features = cls(columns, names, ordered, describer)
        used = {roles.id, *map(features.column_of, names)}
        unused = [
            name
            for name, cells in rows.columns.items()
            if name not in used and not all(map(is_missing, cells))
        ]
        return replace(features, roles=replace(roles, ignored=tuple(unused))), matrix

    def apply(self, X: Any, source: str) -> F64:
        """Compute the values (n, n_features) of the features for a frame with the same columns.

        Raises:
            DataError: if a column is missing; see `feature_matrix`.
        """
        rows = self.rows(X, source)
        described_columns = self._described_columns()
        for column in described_columns.values():
            if column not in rows.columns:
                raise DataError(f"{source}: {no_column(column, rows.columns)}")
        features = self.names if self.describer is None else self.describer.given
        roles = Columns(**described_columns, features=features)  # type: ignore[arg-type]
        if not len(rows):
            return np.empty((0, len(self.names)))
        matrix, _, _ = described(documents_of(rows, roles), self.describer)
        return matrix

    def rows(self, X: Any, source: str) -> Rows:
        """Read the rows of a frame; a level of an ordered column becomes the level's number."""
        is_described = kept_as_read(*self._described_columns().values())
        has_categories = {
            str(name): hasattr(dtype, "categories")
            for name, dtype in zip(X.columns, X.dtypes, strict=True)
        }

        def is_kept(column: str) -> bool:
            """Check whether the cells of a column stay texts, not read as numbers or dates."""
            return column in self.ordered or (is_described(column) and not has_categories[column])

        rows = rows_of_frame(X, source, is_kept)
        for column, levels in self.ordered.items():
            number_of_level = {level: float(k) for k, level in enumerate(levels)}
            numbers = [number_of_level.get(text, np.nan) for text in rows.texts(column)]
            rows.columns[column] = np.array(numbers, np.float64)
        return rows

    def column_of(self, feature: str) -> str:
        """Find the column that a feature is made from."""
        described = None if self.describer is None else self.describer.column_of(feature)
        return described or column_of(feature, self.columns)

    def shares_of_columns(self, shares: F64) -> F64:
        """Compute the share of each column (n_columns,), the sum of its features' shares.

        Args:
            shares: (n_features,) the share of each feature.
        """
        number_of_column = {name: k for k, name in enumerate(self.columns)}
        column_numbers = [number_of_column[self.column_of(name)] for name in self.names]
        return np.bincount(column_numbers, shares, len(self.columns)).astype(np.float64)

    def _described_columns(self) -> dict[str, str]:
        """List the columns of texts and images that the describer reads, {role: column}.

        A ranker that was trained on a folder of files has no names of columns. The columns of a
        frame must then be named like the roles, `text` and `image`.
        """
        if self.describer is None:
            return {}
        roles = []
        if self.describer.of_texts:
            roles.append("text")
        if self.describer.of_images:
            roles.append("image")
        return {role: self.describer.columns.get(role, role) for role in roles}


def features_of_model(model: Ranker, info: Mapping[str, Any]) -> Features:
    """Make the rule by which the columns of a frame become the named features of a saved model.

    Args:
        model: the model.
        info: what `SortNetRanker.save` has written about the estimator: `columns` are the columns
            of the frame in `fit`, and `categories` {number of an ordered column: its levels}. A
            model of the command line has neither.

    Raises:
        ValueError: if the features are not made from these columns.
    """
    names = tuple(model.feature_names or ())
    columns = info.get("columns")
    needed_columns = dict.fromkeys(
        Features(tuple(columns or ()), names, describer=model.describer).column_of(name)
        for name in names
    )
    if columns is None:
        return Features((*needed_columns,), names, {}, model.describer, is_of_table=True)
    ordered = {
        columns[int(number)]: tuple(category["levels"])
        for number, category in info.get("categories", {}).items()
    }
    if not needed_columns.keys() <= set(columns) or len(columns) != info.get(
        "n_columns", len(columns)
    ):
        raise ValueError("not the columns of this model")
    return Features(tuple(columns), names, ordered, model.describer)


def take_columns(
    X: Any, qid: ArrayLike | None, names: NamedColumns, source: str
) -> tuple[Any, ArrayLike | None, ArrayLike | None]:
    """Take the columns of query, grade and id out of a DataFrame.

    Args:
        X: the DataFrame, or an array, which is returned as it is.
        qid: the query of each row, if there is no column of queries.
        names: the names of the columns of query, grade and id, and the edges of grades.
        source: name of X in messages.

    Returns:
        The remaining columns; the queries of the rows, and the grades of the rows, or None.

    Raises:
        DataError: if there are both `qid` and a column of queries.
    """
    columns = [str(name) for name in getattr(X, "columns", ())]
    if not columns:
        return X, qid, None
    # A ColumnTransformer puts its step's name before the name of a column.
    prefixed = [name for name in columns if name.endswith("__qid")]
    if prefixed:
        raise DataError(
            f"{source}: the column {prefixed[0]!r} is no feature: call it 'qid' "
            "(a ColumnTransformer does with verbose_feature_names_out=False)"
        )
    grades = X[names.grade] if names.grade in columns else None
    if grades is not None and names.edges:
        grades = in_which_bin(grades, names.edges)
    X = X.drop(columns=[name for name in (names.grade, names.id) if name in columns])
    query_column = names.query or QUERY
    if query_column == ALL_ROWS or query_column not in columns:
        return X, qid, grades
    if qid is not None:
        raise DataError(f"{source} has a column {shown(query_column)}, so give no qid besides")
    return X.drop(columns=query_column), X[query_column], grades


def no_grades(X: Any, grade: str | None) -> str:
    """Write the message that `fit` or `score` has no grades, neither as y nor in a column of X."""
    if grade is not None and hasattr(X, "columns"):
        return no_column(grade, map(str, X.columns))
    return (
        "SortNetRanker requires y to be passed, but the target y is None: give grades as y, or "
        "name their column with grade="
    )


def weights_of_queries(queries: Queries, weights: ArrayLike | None) -> F64 | None:
    """Compute the weight of each query, (n_queries,).

    It is the weight that was given for the query, or the mean of the weights of its rows.

    Args:
        queries: the queries, made with these weights.
        weights: (n_queries,) or (n_docs,) weights; None: there are no weights.
    """
    if weights is None:
        return None
    values = np.asarray(weights, np.float64)
    is_per_row = len(values) == queries.n_docs
    if not is_per_row:
        return values
    sums = np.bincount(queries.query_of_docs(), values[queries.rows])
    means: F64 = sums / queries.sizes
    return means


def deviations_of(
    y: ArrayLike | None, qid: ArrayLike | None, group: ArrayLike | None, n: int
) -> F64 | None:
    """Subtract from each of n grades the mean grade of its query, (n,); None without grades.

    Args:
        y, qid, group: arguments of `fit`, which are not checked yet: None is returned if they
            cannot be used.
        n: number of rows.
    """
    if y is None:
        return None
    with suppress(TypeError, ValueError):  # a fault that is told of later
        if group is not None and np.sum(group) == n:
            sizes = np.asarray(group)
            qid = np.repeat(np.arange(len(sizes)), sizes)
        return deviations_in_queries(np.reshape(y, n), qid)
    return None


def wins_less_losses(pairs: NDArray[Any], n: int) -> F64 | None:
    """Count the pairs (better, worse) in which each of n rows is better, less those it loses, (n,).

    None if a number of a row is impossible, which is refused later.
    """
    with suppress(ValueError):  # a number below 0, or counts of more rows
        wins, losses = (np.bincount(rows, minlength=n) for rows in pairs.T)
        return np.subtract(wins, losses, dtype=np.float64).reshape(n)
    return None


def refuse_qid_as_feature(X: NDArray[Any], qid: Any, names: Any, source: str) -> None:
    """Refuse a feature that equals the qid in every row, if there are at least two queries.

    Args:
        X: (n, n_features) the features.
        qid: the query of each row, or None.
        names: the names of the features, or None.
        source: name of X in messages.

    Raises:
        DataError: if a feature is the qid.
    """
    try:
        qid_numbers = np.asarray(qid, dtype=X.dtype)
    except (TypeError, ValueError):  # there is no qid, or it is a text
        return
    if qid_numbers.shape != (len(X),) or np.ptp(qid_numbers) == 0:
        return
    for k, column in enumerate(X.T):
        if np.array_equal(column, qid_numbers):
            feature = f"feature {k + 1}" if names is None else f"the column {str(names[k])!r}"
            raise DataError(
                f"{source}: {feature} is the qid in every row, no feature: leave it out"
            )


def documents_in_rows(queries: Queries, a: NDArray[Any], b: NDArray[Any]) -> I64:
    """Find the numbers of the documents in the rows a and b, (2, m).

    Args:
        queries: the queries, whose documents are numbered query by query.
        a, b: (m,) numbers of rows; a[k] and b[k] must be rows of the same query.

    Raises:
        DataError: if a or b are no numbers of rows, or if two rows belong to different queries.
    """
    if a.shape != b.shape or a.ndim != 1 or {a.dtype.kind, b.dtype.kind} - {"i", "u"}:
        raise DataError("with a context, a and b are numbers of its rows, compared one by one")
    rows = np.stack((a, b)).astype(np.int64)
    is_outside = (rows < 0) | (rows >= queries.n_docs)
    if is_outside.any():
        raise DataError(
            f"row {rows[is_outside][0]}: the context has rows 0 to {queries.n_docs - 1}"
        )
    documents: I64 = np.argsort(queries.rows)[rows]
    query_of_a, query_of_b = queries.query_of_docs()[documents]
    is_across = query_of_a != query_of_b
    if is_across.any():
        k = int(np.argmax(is_across))
        raise DataError(
            f"rows {rows[0, k]} and {rows[1, k]} are of the queries {queries.qids[query_of_a[k]]} "
            f"and {queries.qids[query_of_b[k]]}: only documents of one query compare"
        )
    return documents
