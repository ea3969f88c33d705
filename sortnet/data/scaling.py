"""Scaling of features, fitted on training data only and kept in the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from sortnet.config import SCALINGS
from sortnet.errors import DataError
from sortnet.types import F32, F64, I64, Queries

_CHUNK = 1 << 16  # documents scaled at a time, so that temporaries stay small
_SAMPLE = 200_000  # documents that the quantiles are computed from, at most
_REFERENCES = 1_000  # quantiles kept per feature
_EDGE = 1e-7  # how near 0 and 1 a quantile may come: 5.2 standard deviations


@dataclass(frozen=True, eq=False)
class Scaler:
    """A fitted scaling: nothing for `query`, else a table with one column per feature.

    Attributes:
        kind: one of `sortnet.config.SCALINGS`.
        table: `quantile`: (n_references, n_features) quantiles; `none`: (1, n_features) means,
            used where a value is missing; `query`: (0, n_features).
    """

    kind: str
    table: F64

    def __call__(self, queries: Queries) -> Queries:
        """Scale the documents' features.

        Args:
            queries: documents with the features the scaler was fitted on; NaN is missing.

        Returns:
            The same documents; their features hold no NaN.

        Raises:
            DataError: if the number of features differs.

        Cost: one pass over the features, one copy of them.
        """
        if queries.n_features != self.table.shape[1]:
            raise DataError(
                f"{queries.source}: {queries.n_features} features where "
                f"{self.table.shape[1]} were scaled in training"
            )
        out = np.empty_like(queries.features)
        for docs, offsets in _chunks(queries.offsets):
            X = queries.features[docs]
            if self.kind == "query":
                out[docs] = _per_query(X, offsets)
            elif self.kind == "quantile":
                out[docs] = _to_normal(X, self.table)
            else:
                out[docs] = np.where(np.isnan(X), self.table, X)
        return queries.with_features(out)


def fit_scaler(kind: str, queries: Queries, *, seed: int = 0) -> Scaler:
    """Fit a scaling to the training part.

    `query` is equation 5 of the SortNet paper, (x - mean over the query) / max over the query
    of |x|; a missing value becomes the query's mean. `quantile` maps every feature to a normal
    of standard deviation 1/3 (the DirectRanker paper); a missing value becomes the median.
    `none` only replaces missing values by the training mean.

    >>> q = Queries.from_arrays([[1.0], [3.0]], [0, 1])
    >>> fit_scaler("query", q)(q).features.ravel()
    array([-0.33333334,  0.33333334], dtype=float32)
    """
    X = queries.features
    if kind == "query":
        return Scaler(kind, np.empty((0, queries.n_features)))
    if kind == "none":
        return Scaler(kind, _means(X)[None])
    if kind == "quantile":
        if len(X) > _SAMPLE:
            docs = np.random.default_rng(seed).choice(len(X), _SAMPLE, replace=False)
            X = X[np.sort(docs)]
        return Scaler(kind, _quantiles(X))
    raise DataError(f"unknown scaling {kind!r}; known are {', '.join(SCALINGS)}")


def _chunks(offsets: I64) -> Iterator[tuple[slice, I64]]:
    """Runs of whole queries of about _CHUNK documents, with their offsets from 0."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + _CHUNK, side="right")) - 1
        last = max(last, first + 1)  # a query longer than a chunk is a chunk
        yield slice(offsets[first], offsets[last]), offsets[first : last + 1] - offsets[first]
        first = last


def _per_query(X: F32, offsets: I64) -> F32:
    sizes = np.diff(offsets)
    sizes, starts = sizes[sizes > 0], offsets[:-1][sizes > 0]  # reduceat takes no empty query
    missing = np.isnan(X)
    if missing.any():
        X = np.where(missing, np.float32(0), X)
        present = np.add.reduceat(~missing, starts, dtype=np.int64)
    else:
        present = sizes[:, None]
    sums = np.add.reduceat(X, starts, dtype=np.float64)
    largest = np.maximum.reduceat(np.abs(X), starts).astype(np.float64)
    means = sums / np.maximum(present, 1)
    # A feature that is 0 all over the query stays 0.
    factors = np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0)
    scaled = (X - np.repeat(means, sizes, axis=0)) * np.repeat(factors, sizes, axis=0)
    scaled[missing] = 0
    out: F32 = scaled.astype(np.float32)
    return out


def _means(X: F32) -> F64:
    present = ~np.isnan(X)
    sums = np.sum(X, axis=0, dtype=np.float64, where=present)
    means: F64 = sums / np.maximum(present.sum(axis=0), 1)
    return means


def _quantiles(X: F32) -> F64:
    levels = np.linspace(0, 1, min(_REFERENCES, max(len(X), 2)))
    table = np.zeros((len(levels), X.shape[1]))
    for k in range(X.shape[1]):
        column = X[:, k][~np.isnan(X[:, k])].astype(np.float64)
        if len(column):
            table[:, k] = np.quantile(column, levels)
    table.sort(axis=0)  # interpolation may break the order in the last bit
    return table


def _to_normal(X: F32, table: F64) -> F32:
    levels = np.linspace(0, 1, len(table))
    out = np.empty_like(X)
    for k in range(X.shape[1]):
        x, knots = X[:, k].astype(np.float64), table[:, k]
        # A value that many training documents share gets the middle of its quantiles:
        # the mean of the interpolation from below and from above.
        above = np.interp(x, knots, levels)
        below = -np.interp(-x, -knots[::-1], -levels[::-1])
        out[:, k] = ndtri(np.clip((above + below) / 2, _EDGE, 1 - _EDGE)) / 3
    out[np.isnan(X)] = 0
    return out
