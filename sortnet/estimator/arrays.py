"""What an estimator is given: arrays, frames and sparse matrices, and the queries of their rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from sortnet.errors import DataError
from sortnet.types import I64, Queries
from sortnet.types.free import refuse_too_large


def as_table(X: Any, source: str) -> Any:
    """A data frame as one of pandas, a sparse matrix as an array, what is masked as missing; the
    rest as it is."""
    if issparse(X):
        needed = (X.dtype.itemsize + 4) * math.prod(X.shape)  # and the copy in float32
        refuse_too_large(needed, f"{source}: the rows of the sparse matrix, zeros included,")
        return X.toarray()
    if np.ma.isMaskedArray(X):
        return np.ma.filled(X.astype(np.float64), np.nan)
    if not hasattr(X, "columns"):
        return X
    from sortnet.data.tabular import as_pandas

    return as_pandas(X)


def numbers(X: Any, source: str) -> Any:
    """Refuse texts, dates and other objects by the name of their column."""
    dates = getattr(getattr(X, "dtype", None), "kind", None) in ("m", "M")
    if not dates and not hasattr(X, "columns"):
        return X
    from sortnet.data.tabular import with_numbers

    return with_numbers(numbered(X) if dates else X, source)


def numbered(X: Any) -> Any:
    """An array as a frame whose columns are called by their numbers from 1."""
    import pandas as pd

    return pd.DataFrame(np.asarray(X)).rename(columns=lambda k: f"feature {k + 1}")


def column_qid(X: Any, qid: ArrayLike | None, source: str) -> tuple[Any, ArrayLike | None]:
    """Take the column `qid` out of a DataFrame."""
    columns = [str(c) for c in getattr(X, "columns", ())]
    if renamed := [c for c in columns if c.endswith("__qid")]:
        raise DataError(
            f"{source}: the column {renamed[0]!r} is no feature: call it 'qid' "
            "(a ColumnTransformer does with verbose_feature_names_out=False)"
        )
    if "qid" not in columns:
        return X, qid
    if qid is not None:
        raise DataError(f"{source} has a column 'qid', so give no qid besides")
    return X.drop(columns="qid"), X["qid"]


def refuse_qid_as_feature(X: NDArray[Any], qid: Any, names: Any, source: str) -> None:
    """Refuse a feature that is the qid in every row, if there are two queries at least."""
    try:
        number = np.asarray(qid, dtype=X.dtype)
    except (TypeError, ValueError):  # no qid, or names
        return
    if number.shape != (len(X),) or (number == number[0]).all():
        return
    for k in np.flatnonzero(X[0] == number[0]):
        if np.array_equal(X[:, k], number):
            name = f"feature {k + 1}" if names is None else f"the column {names[k]!r}"
            raise DataError(f"{source}: {name} is the qid in every row, no feature: leave it out")


def documents(queries: Queries, a: Any, b: Any) -> tuple[I64, I64]:
    """Document numbers of the rows a and b, which must be of one query pair by pair."""
    rows = np.stack(_whole(a, b))
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


def _whole(a: NDArray[Any], b: NDArray[Any]) -> tuple[I64, I64]:
    if a.shape != b.shape or a.ndim != 1:
        raise DataError(f"rows of shapes {a.shape} and {b.shape} cannot be compared one by one")
    if a.dtype.kind not in "iu" or b.dtype.kind not in "iu":
        raise DataError("with a context, a and b are numbers of its rows")
    return a.astype(np.int64), b.astype(np.int64)
