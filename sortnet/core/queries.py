"""Queries: the documents of many queries, their features, and grades or judgements of pairs."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from sortnet.core.arrays import F32, F64, I32, I64, Array, Bool, Ints, Str, refuse_masked
from sortnet.core.float32 import origins_of_dates, refuse_lost
from sortnet.core.memory import joined_ranges, rows_of, texts
from sortnet.core.named_columns import UNNAMED, NamedColumns
from sortnet.core.pairs import Pairs
from sortnet.errors import DataError

if TYPE_CHECKING:
    from sortnet.core.protocols import Judge

_KINDS_WITH_MISSING = ("O", "f", "M")  # kinds of NumPy types that can have missing values


@dataclass(frozen=True, eq=False)
class Queries:
    """The documents of many queries, stored query by query.

    Query `k` has the documents `offsets[k]:offsets[k + 1]`. A *document number* is an index into
    the arrays with n_docs rows; `Pairs` and `ComparedPairs` use document numbers.

    Attributes:
        features: (n_docs, n_features) float32 features, counted from `origins`; NaN for a missing
            value. While SortNet learns from large data, they are float16, see `features_of`.
        grades: (n_docs,) int32 grades, 0 or more; a higher grade is more relevant.
        offsets: (n_queries + 1,) int64 number of each query's first document, and n_docs.
        qids: (n_queries,) names of the queries, all different.
        rows: (n_docs,) int64 number of each document's row in the caller's data, or of its data
            line in the file, from 0.
        docids: (n_docs,) names of the documents, if the source has names.
        feature_names: the names of the features, if the source has names.
        source: the name of the source of the data, for messages.
        weights: (n_docs,) float32 weights, 0 or more; None if all are 1. A pair of documents has
            the weight weights[i] * weights[j] in training.
        judged: judged pairs of documents, in place of grades.
        judge: a function that answers questions about pairs, see `Judge`; its answers are added to
            `judged`.
        describer: an object that makes features from texts and images, see
            `sortnet.items.Describer`.
        columns: the names of the source's columns that have a role, and the edges of grades.
        roles: the role of each column of a table, see `sortnet.tables.roles.Columns`.
        dates: the names of features that are dates, as days since 1970.
        origins: (n_features,) the number that was subtracted from each feature before the feature
            was rounded to float32; None: nothing was subtracted.

    >>> q = Queries.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], qid=["b", "a", "b"])
    >>> q.qids.tolist(), q.offsets.tolist(), q.rows.tolist()
    (['b', 'a'], [0, 2, 3], [0, 2, 1])
    """

    features: F32
    grades: I32
    offsets: I64
    qids: Str
    rows: I64
    docids: Str | None = None
    feature_names: tuple[str, ...] | None = None
    source: str = "data"
    weights: F32 | None = None
    judged: Pairs | None = None
    judge: Judge | None = None
    describer: Any = None
    columns: NamedColumns = UNNAMED
    roles: Any = None
    dates: tuple[str, ...] = ()
    origins: F64 | None = None

    @classmethod
    def from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        qid: ArrayLike | None = None,
        group: ArrayLike | None = None,
        docids: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        source: str = "data",
        weights: ArrayLike | None = None,
        dates: Sequence[str] = (),
        origins: F64 | None = None,
    ) -> Queries:
        """Group rows into queries; the queries are in the order of their first rows.

        Args:
            X: (n_docs, n_features) numbers; NaN is a missing value, infinity is refused.
            y: (n_docs,) integer grades from 0; None for documents that are only ranked.
            qid: (n_docs,) the name of each row's query; the rows of a query need not be together.
            group: (n_queries,) sizes of consecutive queries, in place of `qid`. Without `qid` and
                `group` all rows are one query.
            docids: (n_docs,) names of the documents.
            feature_names: (n_features,) names of the features.
            source: the name of the data in messages.
            weights: (n_docs,) weights of the rows; or (n_queries,) weights of the queries, in the
                order of their first rows. The documents of a query of weight w get the weight
                sqrt(w), so that the pairs of the query get the weight w.
            dates: the names of the features that are dates, as days.
            origins: (n_features,) the number to subtract from each feature, as in the training
                data. None: `origins_of_dates` chooses the numbers.

        Raises:
            DataError: if shapes disagree, features are infinite, grades are negative or fractional;
                if weights are negative, no numbers or all 0; if a document id is much longer than
                the other ids; if there are grades, and float32 loses the differences of a feature
                within queries.

        Cost: one stable sort of the query ids; X is copied only if rows must move.
        """
        refuse_masked(**{f"{source}: grades": y, f"{source}: qid": qid, f"{source}: group": group})
        refuse_masked(**{f"{source}: features": X, f"{source}: weights": weights})
        table = _table(X, source)
        n = len(table)
        grades = np.zeros(n, np.int32) if y is None else whole_grades(y, source)
        _refuse_other_number(grades, "grades", n, "rows of features", source)
        if group is None:
            qids, codes = _codes_of_qids(qid, n, source)
        elif qid is None:
            qids, codes = _codes_of_groups(group, n, source)
        else:
            raise DataError(f"{source}: give qid or group, not both")
        _refuse_other_number(docids, "document ids", n, "rows of features", source)
        _refuse_other_number(feature_names, "feature names", table.shape[1], "features", source)
        if origins is None:
            origins = origins_of_dates(table, np.isin(feature_names or [], dates))
        if origins is not None:
            table = table - origins
        if y is not None:  # documents without grades are only ranked, and always get a ranking
            refuse_lost(table, codes, feature_names, source)
        features = _features(table, source)
        doc_names = None
        if docids is not None:
            doc_names = texts([str(docid) for docid in docids], f"{source}: docids")
        row_weights = None
        if weights is not None and group is not None and np.shape(weights) == np.shape(group):
            weights = np.asarray(weights)[np.asarray(group) > 0]  # an empty query has no rows
        if weights is not None:
            row_weights = _weights_of_rows(weights, codes, len(qids), source)
        queries = cls.from_codes(
            features,
            grades,
            codes,
            qids,
            docids=doc_names,
            feature_names=None if feature_names is None else tuple(map(str, feature_names)),
            source=source,
            weights=row_weights,
        )
        return replace(queries, dates=tuple(dates), origins=origins)

    @classmethod
    def from_codes(
        cls,
        features: F32,
        grades: I32,
        codes: Ints,
        qids: Str,
        *,
        docids: Str | None = None,
        feature_names: tuple[str, ...] | None = None,
        source: str = "data",
        weights: F32 | None = None,
    ) -> Queries:
        """Group rows into queries; the rows are checked already.

        Args:
            features: (n_docs, n_features) features.
            grades: (n_docs,) grades.
            codes: (n_docs,) the index into `qids` of each row's query.
            qids: (n_queries,) names of the queries.
            docids, feature_names, source, weights: see the attributes of `Queries`.

        Cost: rows are moved only if they are not in the order of the queries.
        """
        offsets = np.zeros(len(qids) + 1, np.int64)
        np.cumsum(np.bincount(codes, minlength=len(qids)), out=offsets[1:])
        rows = np.arange(len(codes), dtype=np.int64)
        if len(codes) and np.any(np.diff(codes) < 0):
            rows = np.argsort(codes, kind="stable").astype(np.int64, copy=False)
            features = rows_of(features, rows, source)
            grades = grades[rows]
            docids = None if docids is None else docids[rows]
            weights = None if weights is None else weights[rows]
        return cls(features, grades, offsets, qids, rows, docids, feature_names, source, weights)

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.qids)

    def __repr__(self) -> str:
        return (
            f"Queries({self.source!r}: {len(self)} queries, {self.n_docs} documents, "
            f"{self.n_features} features)"
        )

    @property
    def n_docs(self) -> int:
        """The number of documents of all queries."""
        return len(self.features)

    @property
    def n_features(self) -> int:
        """The number of features of a document."""
        return int(self.features.shape[1])

    @property
    def sizes(self) -> I64:
        """Number (n_queries,) of documents of each query."""
        return np.diff(self.offsets)

    def query_of_docs(self) -> I32:
        """Return the index of each document's query, (n_docs,)."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.sizes)

    def ranks(self, order: I64) -> I64:
        """Compute the rank of each document in its query, (n_docs,), from 1 for the best.

        Args:
            order: (n_docs,) document numbers query by query, the best first.
        """
        ranks = np.empty(self.n_docs, np.int64)
        ranks[order] = np.arange(1, self.n_docs + 1) - np.repeat(self.offsets[:-1], self.sizes)
        return ranks

    def features_of(self, docs: I64 | slice) -> F32:
        """Return the features of some documents, (n, n_features), in float32."""
        return np.asarray(self.features[docs], np.float32)

    def with_features(self, features: F32) -> Queries:
        """Return the same documents with other features, such as scaled features."""
        return replace(self, features=features)

    def take(self, queries: ArrayLike) -> Queries:
        """Select queries by index, in the given order; `rows` still has row numbers of the source.

        Consecutive queries are a view: nothing is copied.
        """
        indexes = np.asarray(queries, dtype=np.int64)
        sizes = self.sizes[indexes]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        if len(indexes) and np.all(np.diff(indexes) == 1):
            begin = int(self.offsets[indexes[0]])
            run = slice(begin, begin + int(offsets[-1]))
            return self._of_docs(run, offsets, self.qids[indexes])
        docs = joined_ranges(self.offsets[indexes], sizes)
        return self._of_docs(docs, offsets, self.qids[indexes])

    def only(self, docs: Bool) -> Queries:
        """Select documents by a mask, (n_docs,); leave out queries without selected documents."""
        # `n_selected_before[i]` documents are selected among the first i documents.
        n_selected_before = np.append(0, np.cumsum(docs))
        n_selected_of_query = np.diff(n_selected_before[self.offsets])
        is_kept = n_selected_of_query > 0
        offsets = np.append(0, np.cumsum(n_selected_of_query[is_kept]))
        return self._of_docs(np.flatnonzero(docs), offsets, self.qids[is_kept])

    def _of_docs(self, docs: I64 | slice, offsets: I64, qids: Str) -> Queries:
        """Make queries that have only the selected documents, numbered again from 0.

        Args:
            docs: the numbers of the selected documents, query by query.
            offsets: `Queries.offsets` of the new queries.
            qids: the names of the new queries.
        """
        judged = self.judged
        if judged is not None:
            new_number = np.full(self.n_docs, -1, np.int64)  # -1: the document is left out
            new_number[docs] = np.arange(offsets[-1])
            judged = judged.renumbered(new_number)
        if isinstance(docs, slice):
            features = self.features[docs]
        else:
            features = rows_of(self.features, docs, self.source)
        return replace(
            self,
            features=features,
            grades=self.grades[docs],
            offsets=offsets,
            qids=qids,
            rows=self.rows[docs],
            docids=None if self.docids is None else self.docids[docs],
            weights=None if self.weights is None else self.weights[docs],
            judged=judged,
        )

    def with_judgements(
        self,
        better: ArrayLike,
        worse: ArrayLike,
        *,
        soft: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> Queries:
        """Return the same documents with judgements of pairs, which replace the grades.

        Args:
            better, worse: (m,) rows in the source of the better and the worse document of each
                pair.
            soft, weight: see `Pairs.judged`.

        Raises:
            DataError: if a row does not exist, the documents of a pair belong to different
                queries, or `Pairs.judged` refuses the judgements.

        >>> q = Queries.from_arrays([[1.0], [2.0], [3.0]], qid=["b", "a", "b"])
        >>> q.with_judgements([2], [0]).judged.winner.tolist()
        [1]
        """
        document_of_row = np.empty(self.n_docs, np.int64)
        document_of_row[self.rows] = np.arange(self.n_docs)
        better_documents = document_of_row[self._checked_rows(better)]
        worse_documents = document_of_row[self._checked_rows(worse)]
        judged = Pairs.judged(better_documents, worse_documents, soft=soft, weight=weight)
        query_of_document = self.query_of_docs()
        is_across = query_of_document[judged.winner] != query_of_document[judged.loser]
        if is_across.any():
            pair = int(np.argmax(is_across))
            row = self.rows[judged.winner[pair]]
            other_row = self.rows[judged.loser[pair]]
            raise DataError(
                f"{self.source}: rows {row} and {other_row} are of two queries: not comparable"
            )
        return replace(self, judged=judged)

    def _checked_rows(self, rows: ArrayLike) -> I64:
        """Convert row numbers of the source to an array; raise DataError if a row is missing."""
        checked = np.asarray(rows, np.int64).reshape(-1)
        is_missing = (checked < 0) | (checked >= self.n_docs)
        if is_missing.any():
            missing_row = checked[is_missing][0]
            raise DataError(f"{self.source}: there is no row {missing_row} among {self.n_docs}")
        return checked

    def exact_features(self) -> F32 | F64:
        """Return the features (n_docs, n_features) as the source has them, with `origins` added."""
        return self.features if self.origins is None else self.features + self.origins

    def counted_from(self, origins: F64 | None) -> Queries:
        """Return the same documents with features that are counted from other origins."""
        old = np.zeros(1) if self.origins is None else self.origins
        new = np.zeros(1) if origins is None else origins
        shift = np.broadcast_to(old - new, self.n_features)
        moved = np.flatnonzero(shift)
        if not len(moved):
            return self
        features = np.array(self.features)
        features[:, moved] = self.features[:, moved] + shift[moved]
        return replace(self, features=features, origins=origins)

    def in_row_order(self, per_doc: Array) -> Array:
        """Put values of documents, (n_docs, ...), into the order of the source's rows.

        The queries must have all documents of the source.
        """
        per_row = np.empty_like(per_doc)
        per_row[self.rows] = per_doc
        return per_row


def whole_grades(y: ArrayLike, source: str = "data") -> I32:
    """Convert grades to int32.

    Raises:
        DataError: if a grade is not a whole number from 0 that fits an int32.
    """
    values = _numbers(y, f"{source}: grades")
    if values.ndim != 1:
        raise DataError(f"{source}: grades must be one number a row, got shape {values.shape}")
    is_whole = values == np.floor(values)
    is_grade = (values >= 0) & is_whole & (values <= np.iinfo(np.int32).max)
    if not is_grade.all():
        row = int(np.argmin(is_grade))
        value = float(values[row])
        raise DataError(f"{source}, row {row}: {grade_fault(f'{value:g}', value)}")
    return values.astype(np.int32)


def grade_fault(text: str, value: float) -> str:
    """Return the message for an invalid grade, a text with a value."""
    grade = f"grade {text[:60]!r}"
    most = np.iinfo(np.int32).max
    if np.isnan(value):
        return f"{grade} is missing"
    if value > most and not np.isinf(value):
        return f"{grade} is larger than {most}, the largest grade that there can be"
    return (
        f"{grade} is not a whole number from 0; "
        "MAP, P@n, MRR and NDCG@n (gain 2^grade - 1) take just those"
    )


def _numbers(values: ArrayLike, name: str) -> F64:
    """Convert values to float64; raise DataError with the `name` of the values if that fails."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} must be numbers: {error}") from None


def _table(X: ArrayLike, source: str) -> Array:
    """Convert the features X to an array (n, d) of their own number type.

    Raises:
        DataError: if X has no numbers or is no table.
    """
    try:
        table = np.asarray(X)
        if table.dtype.kind not in "biuf":  # such as objects and texts, which may be numbers
            table = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"{source}: features must be numbers: {error}") from None
    if table.ndim != 2:
        raise DataError(f"{source}: features must be a table, got shape {table.shape}")
    return table


def _features(table: Array, source: str) -> F32:
    """Round the features to float32; raise DataError if a value is infinite."""
    with np.errstate(over="ignore"):  # values that overflow a float32 are refused below
        features = np.ascontiguousarray(table, dtype=np.float32)
    # The extremes need no array of the size of the features, and ignore missing values.
    extremes = [
        reduce(features, axis=None, initial=0) for reduce in (np.fmin.reduce, np.fmax.reduce)
    ]
    if np.isinf(extremes).any():
        row, column = np.argwhere(np.isinf(features))[0]
        value = table[row, column]
        raise DataError(f"{source}, row {row}, feature {column + 1}: {value} is not finite")
    return features


def _weights_of_rows(weights: ArrayLike, codes: I64, n_queries: int, source: str) -> F32:
    """Convert weights of rows or of queries to weights of rows, (n_docs,).

    In training, the weight of a pair is the product of the weights of its two rows. So the rows of
    a query of weight w get the weight sqrt(w), and the pairs of the query get the weight w.

    Args:
        weights: (n_docs,) weights of the rows, or (n_queries,) weights of the queries. If there are
            as many rows as queries, they are weights of the rows.
        codes: (n_docs,) the index of each row's query.
        n_queries: the number of queries.
        source: the name of the data in messages.

    Raises:
        DataError: if the shape is wrong, or weights are negative, no numbers, or all 0.
    """
    values = _numbers(weights, f"{source}: weights")
    if values.shape not in ((len(codes),), (n_queries,)):
        raise DataError(
            f"{source}: weights must be one a row ({len(codes)}) or one a query ({n_queries}), "
            f"got shape {values.shape}"
        )
    is_weight = (values >= 0) & (values <= np.finfo(np.float32).max)
    if not is_weight.all():
        k = int(np.argmin(is_weight))
        raise DataError(f"{source}: weight {k} is {values[k]:g}, not a finite number from 0")
    is_per_row = len(values) == len(codes)
    if is_per_row:
        row_weights = values.astype(np.float32)
    else:
        row_weights = np.sqrt(values)[codes].astype(np.float32)
    if not row_weights.any():
        raise DataError(f"{source}: all weights are zero: there is nothing to learn from")
    return row_weights


def _refuse_other_number(
    values: Sized | None, name: str, n: int, name_of_n: str, source: str
) -> None:
    """Raise a DataError unless there are n values, or none are given.

    Args:
        values: the values; None: the caller of `Queries.from_arrays` has not given them.
        name: the name of the values in the message.
        n: the number of values that there must be.
        name_of_n: what n is the number of, such as "features".
        source: the name of the data in the message.
    """
    if values is not None and len(values) != n:
        raise DataError(f"{source}: {n} {name_of_n} but {len(values)} {name}")


def _codes_of_qids(qid: ArrayLike | None, n: int, source: str) -> tuple[Str, I64]:
    """Number the queries in the order of their first rows.

    Args:
        qid: (n,) the name of each row's query; if None, all rows are one query.
        n: the number of rows.
        source: the name of the data in messages.

    Returns:
        The names of the queries, and (n,) the number of each row's query.

    Raises:
        DataError: if a name is missing or infinite, or the number of names is wrong.
    """
    if qid is None:
        only_name = ["0"] if n else []  # no rows, no query
        return np.array(only_name, dtype=np.str_), np.zeros(n, np.int64)
    values = _checked_qids(qid, n, source)
    if values.dtype.kind == "f":
        is_exact_whole = (values == np.floor(values)) & (np.abs(values) < 2**53)
        if np.all(is_exact_whole):
            values = values.astype(np.int64)  # 7.0 is the name of query 7
    is_integer_or_text = values.dtype.kind in "iuU"
    if not is_integer_or_text:
        values = values.astype(np.str_)
    # np.unique sorts the names; number them in the order of their first rows instead.
    names, first_row, name_of_row = np.unique(values, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first_row, kind="stable")
    number_of_name = np.empty(len(names), np.int64)
    number_of_name[by_appearance] = np.arange(len(names))
    return names[by_appearance].astype(np.str_), number_of_name[name_of_row]


def _checked_qids(qid: ArrayLike, n: int, source: str) -> Array:
    """Convert the names of the rows' queries to an array.

    Raises:
        DataError: if a name is missing or infinite, or the number of names is not n.
    """
    values = np.asarray(qid)
    if values.shape != (n,):
        raise DataError(f"{source}: {n} rows of features but qid has shape {values.shape}")
    # In an array of texts, NumPy has turned missing values into texts such as "None". So texts are
    # checked as the caller gave them.
    is_missing = _is_missing(qid if values.dtype.kind == "U" else values)
    if is_missing.any():
        raise DataError(f"{source}, row {int(np.argmax(is_missing))}: there is no qid")
    if values.dtype.kind == "f":
        is_infinite = np.isinf(values)
        if is_infinite.any():
            row = int(is_infinite.argmax())
            raise DataError(f"{source}, row {row}: the qid is {values[row]}")
    return values


def _is_missing(qid: ArrayLike) -> Bool:
    """Check which names of queries are missing, a mask (n_docs,): NaN, None, NaT or pandas' NA."""
    is_array = hasattr(qid, "dtype")
    # The items of a list stay the objects that they are, since NumPy would turn None into a text.
    values = np.asarray(qid) if is_array else np.asarray(qid, dtype=object)
    if values.dtype.kind not in _KINDS_WITH_MISSING:
        return np.zeros(len(values), np.bool_)
    import pandas as pd

    is_missing: Bool = pd.isna(values)
    return is_missing


def _codes_of_groups(group: ArrayLike, n: int, source: str) -> tuple[Str, I64]:
    """Name and number the queries of rows, given the sizes of consecutive queries.

    Args:
        group: (n_queries,) sizes of the queries; a query of size 0 is left out.
        n: the number of rows.
        source: the name of the data in messages.

    Returns:
        The names of the queries, their numbers from 0, and (n,) the number of each row's query.

    Raises:
        DataError: if the sizes are no whole numbers from 0, or do not add up to n.
    """
    sizes = _numbers(group, f"{source}: sizes of queries")
    are_sizes = (sizes >= 0) & (sizes == np.floor(sizes))  # false for NaN
    if sizes.ndim != 1 or not are_sizes.all() or sizes.sum() != n:
        raise DataError(f"{source}: group must be sizes of queries that add up to {n} rows")
    numbers = np.flatnonzero(sizes)
    return numbers.astype(np.str_), np.repeat(np.arange(len(numbers)), sizes[numbers].astype(int))
