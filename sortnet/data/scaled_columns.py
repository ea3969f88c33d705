"""Columns of scaled features: how each part of a scaling fits its table and computes its columns.

A part is a row of `PARTS`: how its table is fitted, which feature each of its columns comes from,
and how it scales a run of whole queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sortnet.core import F32, F64, I64

CHUNK = 1 << 20  # values scaled at a time, so that temporaries stay small
_SAMPLE = 200_000  # documents that means and quantiles are computed from, at most
_GATHERED = 1 << 24  # values of a sample copied at a time
_REFERENCES = 1_000  # quantiles kept per feature
_EDGE = 1e-7  # least distance of a quantile from 0 and 1: 5.2 standard deviations
_CLIP_QUERY = 5.0  # standard deviations at which `zscore` clips
_CLIP = 10.0  # standard deviations at which `standard` and `log` clip
_SIDE_BY_SIDE = 64  # values that are searched among the quantiles at a time
_MISSING = np.uint32(0xFFFFFFFF)  # sorts after all numbers


def _means(X: F32, seed: int) -> F64:
    """Fit the table of the scaling `none`: the mean of each feature over all documents."""
    sums = np.zeros((1, X.shape[1]))
    counts = np.zeros(X.shape[1])
    for rows in runs(X):
        present = ~np.isnan(rows)
        sums += np.sum(rows, axis=0, dtype=np.float64, where=present, keepdims=True)
        counts += present.sum(axis=0)
    means: F64 = sums / np.maximum(counts, 1)
    return means


def _with_missing(X: F32, seed: int) -> F64:
    """Fit the table of `missing`: 1 for a feature that some but not all documents miss, else 0."""
    n_missing = np.zeros(X.shape[1], np.int64)
    for rows in runs(X):
        n_missing += np.isnan(rows).sum(axis=0)
    return np.array([(n_missing > 0) & (n_missing < len(X))], np.float64)


def runs(X: F32) -> Iterator[F32]:
    """Divide the rows of X into runs of about `CHUNK` values."""
    rows_at_once = max(1, CHUNK // max(X.shape[1], 1))
    return (X[start : start + rows_at_once] for start in range(0, len(X), rows_at_once))


def _moments(X: F32, seed: int, transform: Callable[[F32], F32] = lambda x: x) -> F64:
    """Fit the table of `standard` and `log`: each feature's mean and 1 / standard deviation.

    The second number is 0 for a constant feature.
    """
    table = np.zeros((2, X.shape[1]))
    for k, column in _columns(X, seed):
        # A float64 sum of equal float32 numbers is exact: a constant has exactly the deviation 0.
        x = transform(column)
        deviation = np.std(x, dtype=np.float64)
        table[:, k] = np.mean(x, dtype=np.float64), 1 / deviation if deviation else 0
    return table


def _quantiles(X: F32, seed: int) -> F64:
    """Fit the table of `quantile` and `normal`: evenly spaced quantiles of each feature."""
    n = min(_REFERENCES, max(len(X), 2))
    levels = np.linspace(0, 1, n)
    table = np.zeros((n, X.shape[1]))
    for k, column in _columns(X, seed):
        table[:, k] = np.quantile(column.astype(np.float64), levels)
    table.sort(axis=0)  # interpolation may break the order in the last bit
    return table


def _columns(X: F32, seed: int) -> Iterator[tuple[int, F32]]:
    """Yield the number and the present values of each feature, from a sample of large data."""
    docs: Any = slice(None)
    if len(X) > _SAMPLE:
        docs = np.sort(np.random.default_rng(seed).choice(len(X), _SAMPLE, replace=False))
    features_at_once = max(1, _GATHERED // _SAMPLE)
    for first in range(0, X.shape[1], features_at_once):
        block = X[docs, first : first + features_at_once]
        for k in range(block.shape[1]):
            column = block[:, k]
            values = column[~np.isnan(column)]
            if len(values):
                yield first + k, values


def _per_query(X: F32, offsets: I64, table: F64) -> F64:
    """Divide a value's deviation from the query's mean by the query's largest absolute value.

    This is equation 5 of the SortNet paper.
    """
    deviations, sizes, starts, _ = _centred(X, offsets)
    largest = np.fmax.reduceat(np.abs(X), starts).astype(np.float64)
    # A feature that is 0 or missing in the whole query gets 0 instead of a division by 0.
    factors = np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0)
    deviations *= np.repeat(factors, sizes, axis=0)
    return deviations


def _z_scores(X: F32, offsets: I64, table: F64) -> F64:
    """Scale to deviations from the query's mean, in standard deviations of the query."""
    deviations, sizes, starts, n_present = _centred(X, offsets)
    variances = np.add.reduceat(deviations * deviations, starts) / n_present
    factors = np.divide(1, np.sqrt(variances), out=np.zeros_like(variances), where=variances > 0)
    deviations *= np.repeat(factors, sizes, axis=0)
    return np.clip(deviations, -_CLIP_QUERY, _CLIP_QUERY, out=deviations)


def _centred(X: F32, offsets: I64) -> tuple[F64, I64, I64, NDArray[Any]]:
    """Subtract from each value the mean of its feature in the query.

    Returns:
        The deviations, 0 for missing values. For the queries with documents: their sizes, their
        first documents, and the number of values that are present, at least 1.
    """
    all_sizes = np.diff(offsets)
    # For an empty query np.add.reduceat would return a wrong sum.
    sizes = all_sizes[all_sizes > 0]
    starts = offsets[:-1][all_sizes > 0]
    is_missing = np.isnan(X)
    any_is_missing = bool(is_missing.any())
    n_present: NDArray[Any] = sizes[:, None]
    if any_is_missing:
        X = np.where(is_missing, np.float32(0), X)
        n_present = np.maximum(np.add.reduceat(~is_missing, starts, dtype=np.int64), 1)
    means = np.add.reduceat(X, starts, dtype=np.float64) / n_present
    deviations: F64 = X - np.repeat(means, sizes, axis=0)
    if any_is_missing:
        deviations[is_missing] = 0
    return deviations, sizes, starts, n_present


def _ranks(X: F32, offsets: I64, table: F64) -> F64:
    """Scale to ranks within the query, from -1 to 1, for all queries of the same size at once.

    Many short sorts are faster than a long sort.
    """
    sizes = np.diff(offsets)
    bits = (X + np.float32(0)).view(np.uint32)  # turns -0 into 0
    ranks = np.empty(X.shape)
    for size in np.unique(sizes[sizes > 0]):
        starts = offsets[:-1][sizes == size]
        keys = np.empty((len(starts), X.shape[1], size), np.uint64)
        _fill_keys(bits, starts, keys)
        keys.sort(axis=2)
        _fill_ranks(keys, starts, ranks)
    return ranks


@njit(cache=True, nogil=True)
def _fill_keys(bits: NDArray[np.uint32], starts: I64, keys: NDArray[np.uint64]) -> None:
    """Fill sort keys: whole numbers that sort as the values do, given the bits of the values.

    Missing values sort last. The lower half of a number is the document's place in its query.
    """
    sign, infinity = np.uint32(1 << 31), np.uint32(0x7F800000)
    for query in range(len(starts)):
        for place in range(keys.shape[2]):
            values = bits[starts[query] + place]
            for feature in range(len(values)):
                value = values[feature]
                number = ~value if value & sign else value | sign
                if value & ~sign > infinity:
                    number = _MISSING
                key = (np.uint64(number) << np.uint64(32)) | np.uint64(place)
                keys[query, feature, place] = key


@njit(cache=True, nogil=True)
def _fill_ranks(keys: NDArray[np.uint64], starts: I64, ranks: F64) -> None:
    """Fill the rank of each value in its query, given the sorted keys of the feature."""
    half = np.uint64(32)
    for query in range(len(starts)):
        begin = starts[query]
        for feature in range(keys.shape[1]):
            key = keys[query, feature]
            end = len(key)
            while end > 0 and key[end - 1] >> half == _MISSING:
                end -= 1
                ranks[begin + np.uint32(key[end]), feature] = 0
            varies = end > 1
            factor = 2 / (end - 1) if varies else 0.0
            first = 0
            while first < end:  # equal values have their mean place
                after = first + 1
                while after < end and key[after] >> half == key[first] >> half:
                    after += 1
                mean_place = first + (after - first - 1) / 2
                for k in range(first, after):
                    ranks[begin + np.uint32(key[k]), feature] = mean_place * factor - varies
                first = after


def _standard(X: F32, offsets: I64, table: F64) -> F64:
    """Scale to deviations from the training mean, in standard deviations of the training data."""
    means, factors = table
    scaled: F64 = (X - means) * factors
    scaled[np.isnan(X)] = 0
    return np.clip(scaled, -_CLIP, _CLIP, out=scaled)


def _logarithm(X: F32) -> F32:
    """Logarithm of 1 + |x|, with the sign of x."""
    logs: F32 = np.copysign(np.log1p(np.abs(X)), X)
    return logs


def _to_normal(X: F32, offsets: I64, table: F64, divisor: int = 1) -> F32:
    """Scale each value to the normal deviate of its quantile in the training data."""
    from scipy.special import ndtri  # takes an eighth of a second to import

    level = np.empty(X.shape)
    _fill_levels(X, np.ascontiguousarray(table.T), level)
    normal: F32 = (ndtri(level, out=level) / divisor).astype(np.float32)
    return normal


@njit(cache=True, nogil=True)
def _fill_levels(X: F32, knots: F64, level: F64) -> None:
    """Fill the quantile level, from 0 to 1, of each value; a missing value gets the level ½.

    A value that many training documents share gets the middle of its quantiles.
    """
    m = knots.shape[1]
    last_equal = np.empty(m, np.int64)  # the last quantile that is equal to each quantile
    x = np.zeros(_SIDE_BY_SIDE)
    counts = np.empty(_SIDE_BY_SIDE, np.int64)
    for k in range(X.shape[1]):
        quantiles = knots[k]
        for j in range(m - 1, -1, -1):
            if j + 1 < m and quantiles[j + 1] == quantiles[j]:
                last_equal[j] = last_equal[j + 1]
            else:
                last_equal[j] = j
        for first in range(0, len(X), _SIDE_BY_SIDE):
            n = min(_SIDE_BY_SIDE, len(X) - first)
            for row in range(n):
                x[row] = X[first + row, k]
            _fill_counts(quantiles, x, counts)
            for row in range(n):
                low = counts[row]
                place = np.float64(low)
                if low < m and quantiles[low] == x[row]:
                    place = (low + last_equal[low]) / 2
                elif 0 < low < m:
                    width = quantiles[low] - quantiles[low - 1]
                    place = low - 1 + (x[row] - quantiles[low - 1]) / width
                if x[row] != x[row]:  # NaN
                    place = (m - 1) / 2
                level[first + row, k] = min(max(place / (m - 1), _EDGE), 1 - _EDGE)


@njit(cache=True, nogil=True)
def _fill_counts(ascending: F64, x: F64, counts: I64) -> None:
    """Count the numbers below each x by binary searches that advance side by side.

    No search waits for the comparisons of another search.
    """
    counts[:] = 0
    size = len(ascending)
    while size > 0:
        half = (size + 1) // 2
        for k in range(_SIDE_BY_SIDE):
            counts[k] += half * (ascending[counts[k] + half - 1] < x[k])
        size -= half


@dataclass(frozen=True)
class Part:
    """Functions that fit and apply one part of a scaling, a name in `sortnet.config.SCALINGS`.

    Attributes:
        scale: (n, n_features) documents of whole queries, their offsets and the table -> the
            columns, (n, len(sources(table))).
        fit: (n_docs, n_features) training documents and a seed -> the table.
        rows: the least and the largest number of rows of the table.
        sources: a table -> the feature of each column.
    """

    scale: Callable[[F32, I64, F64], NDArray[Any]]
    fit: Callable[[F32, int], F64] = lambda X, seed: np.empty((0, X.shape[1]))
    rows: tuple[float, float] = (0, 0)
    sources: Callable[[F64], I64] = lambda table: np.arange(table.shape[1])


PARTS = {
    "query": Part(_per_query),
    "zscore": Part(_z_scores),
    "rank": Part(_ranks),
    "log": Part(
        lambda X, offsets, table: _standard(_logarithm(X), offsets, table),
        lambda X, seed: _moments(X, seed, _logarithm),
        (2, 2),
    ),
    "quantile": Part(partial(_to_normal, divisor=3), _quantiles, (2, math.inf)),
    "normal": Part(_to_normal, _quantiles, (2, math.inf)),
    "standard": Part(_standard, _moments, (2, 2)),
    "none": Part(lambda X, offsets, table: np.where(np.isnan(X), table, X), _means, (1, 1)),
    "missing": Part(
        lambda X, offsets, table: np.isnan(X[:, table[0] > 0]),
        _with_missing,
        (1, 1),
        lambda table: np.flatnonzero(table[0] > 0),
    ),
}
