"""Parts of a scaling: each fits a table of statistics to the features and computes scaled columns.

`PARTS` lists the parts. A `Part` has functions that fit its table, say which feature each of its
columns comes from, and scale whole queries. In these functions, X has the features
(n_docs, n_features) of consecutive documents, NaN where a value is missing. All functions of a kind
have the same arguments, although some of them use no seed, no offsets or no table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sortnet.compiled import compiled
from sortnet.core import F32, F64, I64

CHUNK = 1 << 20  # values scaled at a time, so that temporaries stay small
_SAMPLE = 200_000  # documents that means and quantiles are computed from, at most
_VALUES_COPIED_AT_ONCE = 1 << 24  # values of a sample that are copied at a time
_REFERENCES = 1_000  # quantiles kept per feature
_EDGE = 1e-7  # least distance of a quantile from 0 and 1: 5.2 standard deviations
_CLIP_QUERY = 5.0  # standard deviations at which `zscore` clips
_CLIP = 10.0  # standard deviations at which `standard` and `log` clip
_SIDE_BY_SIDE = 64  # values whose positions among the quantiles are searched at the same time
_MISSING = np.uint32(0xFFFFFFFF)  # sorts after all numbers
_UPPER_HALF = np.uint64(32)  # bits: a shift by this number leaves the upper half of a sort key


def _sometimes_missing(X: F32, seed: int) -> F64:
    """Mark the features that some documents lack, but not all: the table of the scaling `missing`.

    Returns:
        (1, n_features) 1 for each such feature, 0 for every other feature.
    """
    n_missing = np.zeros(X.shape[1], np.int64)
    for rows in runs(X):
        n_missing += np.isnan(rows).sum(axis=0)
    is_sometimes_missing = (n_missing > 0) & (n_missing < len(X))
    return is_sometimes_missing[None, :].astype(np.float64)


def runs(X: F32) -> Iterator[F32]:
    """Divide the rows of X into runs of about a million values."""
    rows_at_once = max(1, CHUNK // max(X.shape[1], 1))
    return (X[start : start + rows_at_once] for start in range(0, len(X), rows_at_once))


def _moments(X: F32, seed: int, transform: Callable[[F32], F32] = lambda x: x) -> F64:
    """Fit the table of the scalings `standard` and `log`: mean and 1 / standard deviation.

    The table is (2, n_features). The first row has the mean of each feature; the second row has
    1 / standard deviation, or 0 for a constant feature.
    """
    table = np.zeros((2, X.shape[1]))
    for feature, column in _present_values(X, seed):
        values = transform(column)
        table[0, feature] = np.mean(values, dtype=np.float64)
        # A float64 sum of equal float32 numbers is exact: a constant has exactly the deviation 0.
        deviation = np.std(values, dtype=np.float64)
        if deviation:
            table[1, feature] = 1 / deviation
    return table


def _quantiles(X: F32, seed: int) -> F64:
    """Fit the table of the scalings `quantile` and `normal`: evenly spaced quantiles of a feature.

    The table is (n_quantiles, n_features); each column ascends.
    """
    n_quantiles = min(_REFERENCES, max(len(X), 2))
    levels = np.linspace(0, 1, n_quantiles)
    table = np.zeros((n_quantiles, X.shape[1]))
    for feature, column in _present_values(X, seed):
        table[:, feature] = np.quantile(column.astype(np.float64), levels)
    table.sort(axis=0)  # interpolation may break the order in the last bit
    return table


def _present_values(X: F32, seed: int) -> Iterator[tuple[int, F32]]:
    """Yield the number of each feature and its values that are not missing.

    From more than 200,000 documents a random sample is drawn. A feature without values is left
    out. Several features are copied at a time, because memory is read in whole rows.
    """
    docs: Any = slice(None)
    if len(X) > _SAMPLE:
        sample = np.random.default_rng(seed).choice(len(X), _SAMPLE, replace=False)
        docs = np.sort(sample)
    features_at_once = max(1, _VALUES_COPIED_AT_ONCE // _SAMPLE)
    for first in range(0, X.shape[1], features_at_once):
        block = X[docs, first : first + features_at_once]
        for k in range(block.shape[1]):
            column = block[:, k]
            values = column[~np.isnan(column)]
            if len(values):
                yield first + k, values


def _per_query(X: F32, offsets: I64, table: F64) -> F64:
    """Scale each value x to (x - mean) / max |x|, with mean and maximum over the query.

    This is equation 5 of the SortNet paper.
    """
    deviations, sizes, starts, _ = _centred(X, offsets)
    largest = np.fmax.reduceat(np.abs(X), starts).astype(np.float64)
    # A feature that is 0 or missing in the whole query gets 0 instead of a division by 0.
    factors = np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0)
    deviations *= np.repeat(factors, sizes, axis=0)
    return deviations


def _z_scores(X: F32, offsets: I64, table: F64) -> F64:
    """Scale each value x to (x - mean) / standard deviation, both over the query, and clip it."""
    deviations, sizes, starts, n_present = _centred(X, offsets)
    variances = np.add.reduceat(deviations * deviations, starts) / n_present
    factors = np.divide(1, np.sqrt(variances), out=np.zeros_like(variances), where=variances > 0)
    deviations *= np.repeat(factors, sizes, axis=0)
    return np.clip(deviations, -_CLIP_QUERY, _CLIP_QUERY, out=deviations)


def _centred(X: F32, offsets: I64) -> tuple[F64, I64, I64, NDArray[Any]]:
    """Subtract from each value the mean of its feature in the query.

    Returns:
        (n_docs, n_features) the deviations, 0 for missing values; and for each query that has
        documents the number of its documents, its first document, and for each feature the number
        of values that are not missing, at least 1.
    """
    all_sizes = np.diff(offsets)
    # Empty queries are left out, because np.add.reduceat returns a wrong sum for them.
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
    """Scale each value to its rank within the query, from -1 to 1.

    All queries of the same size are sorted by one call of numpy, because many short sorts are
    faster than one long sort.
    """
    sizes = np.diff(offsets)
    values = _sortable(X)
    ranks = np.zeros(X.shape)
    for size in np.unique(sizes[sizes > 0]):
        starts = offsets[:-1][sizes == size]
        positions = np.arange(size)
        # The upper half of a key sorts like the value, the lower half is the place in the query.
        values_of_queries = values[starts[:, None] + positions].swapaxes(1, 2)
        keys = values_of_queries << _UPPER_HALF | positions.astype(np.uint64)
        keys.sort(axis=2)
        _fill_ranks(keys, starts, ranks)
    return ranks


def _sortable(X: F32) -> NDArray[np.uint64]:
    """Convert float32 to whole numbers below 2^32 that sort like them; NaN becomes _MISSING."""
    bits = (X + np.float32(0)).view(np.uint32)  # adding 0 turns -0 into 0
    sign = np.uint32(1 << 31)
    # The bits of positive floats ascend with the number, those of negative floats descend. All bits
    # of a negative float are flipped, so that they ascend, too.
    ascending = np.where(bits & sign, ~bits, bits | sign)
    return np.where(np.isnan(X), _MISSING, ascending).astype(np.uint64)


@compiled()
def _fill_ranks(keys: NDArray[np.uint64], starts: I64, ranks: F64) -> None:
    """Write the scaled rank of each value that is not missing into `ranks`.

    Ranks from 0 to n - 1 become numbers from -1 to 1. Equal values get the mean of their ranks; a
    single value gets 0.

    Args:
        keys: (n_queries, n_features, n_docs) ascending sort keys, see `_ranks`.
        starts: (n_queries,) the row of each query's first document in `ranks`.
        ranks: the scaled ranks to fill.
    """
    for query in range(len(starts)):
        for feature in range(keys.shape[1]):
            values = keys[query, feature] >> _UPPER_HALF
            n_present = np.searchsorted(values, np.uint64(_MISSING))
            divisor = n_present - 1 if n_present > 1 else 1
            first = 0
            while first < n_present:
                after = first + 1
                while after < n_present and values[after] == values[first]:
                    after += 1
                rank = (first + after - n_present) / divisor
                for k in range(first, after):
                    position = np.uint32(keys[query, feature, k])  # the lower half
                    ranks[starts[query] + position, feature] = rank
                first = after


def _standard(X: F32, offsets: I64, table: F64) -> F64:
    """Scale each value x to (x - mean) / standard deviation of the training data, and clip it."""
    means, factors = table
    scaled: F64 = (X - means) * factors
    scaled[np.isnan(X)] = 0
    return np.clip(scaled, -_CLIP, _CLIP, out=scaled)


def _logarithm(X: F32) -> F32:
    """Compute sign(x) log(1 + |x|)."""
    logs: F32 = np.copysign(np.log1p(np.abs(X)), X)
    return logs


def _to_normal(X: F32, offsets: I64, table: F64, divisor: int = 1) -> F32:
    """Scale each value to the normal deviate of its quantile level in the training data.

    Args:
        X: (n_docs, n_features) the features.
        offsets: not used; each document is scaled by itself.
        table: (n_quantiles, n_features) quantiles of the training data.
        divisor: number by which the normal deviates are divided.
    """
    from scipy.special import ndtri  # takes an eighth of a second to import

    levels = np.empty(X.shape)
    _fill_levels(X, np.ascontiguousarray(table.T), levels)
    deviates: F32 = (ndtri(levels, out=levels) / divisor).astype(np.float32)
    return deviates


@compiled()
def _fill_levels(X: F32, quantiles_of_features: F64, levels: F64) -> None:
    """Write the quantile level of each value of X, from 0 to 1, into `levels`.

    The level of a value between two quantiles is interpolated. A value that equals several
    quantiles gets their middle, and a missing value gets 1/2.
    """
    n_quantiles = quantiles_of_features.shape[1]
    last_equal = np.empty(n_quantiles, np.int64)  # the last quantile that is equal to each quantile
    x = np.zeros(_SIDE_BY_SIDE)
    n_lower = np.empty(_SIDE_BY_SIDE, np.int64)
    for feature in range(X.shape[1]):
        quantiles = quantiles_of_features[feature]
        _fill_last_equal(quantiles, last_equal)
        for first in range(0, len(X), _SIDE_BY_SIDE):
            n_rows = min(_SIDE_BY_SIDE, len(X) - first)
            for row in range(n_rows):
                x[row] = X[first + row, feature]
            _count_lower(quantiles, x, n_lower)
            for row in range(n_rows):
                after = n_lower[row]  # the first quantile that is not below x
                if np.isnan(x[row]):
                    position = (n_quantiles - 1) / 2
                elif after == n_quantiles:  # x is above all quantiles
                    position = np.float64(n_quantiles)
                elif quantiles[after] == x[row]:
                    position = (after + last_equal[after]) / 2
                elif after == 0:  # x is below all quantiles
                    position = 0.0
                else:
                    width = quantiles[after] - quantiles[after - 1]
                    position = after - 1 + (x[row] - quantiles[after - 1]) / width
                level = position / (n_quantiles - 1)
                levels[first + row, feature] = min(max(level, _EDGE), 1 - _EDGE)


@compiled()
def _fill_last_equal(quantiles: F64, last_equal: I64) -> None:
    """Write the number of the last quantile that is equal to each quantile into `last_equal`."""
    n_quantiles = len(quantiles)
    for k in range(n_quantiles - 1, -1, -1):
        if k + 1 < n_quantiles and quantiles[k + 1] == quantiles[k]:
            last_equal[k] = last_equal[k + 1]
        else:
            last_equal[k] = k


@compiled()
def _count_lower(ascending: F64, x: F64, n_lower: I64) -> None:
    """Count for each x the numbers in `ascending` that are below x, and write it into `n_lower`.

    The binary searches for all x take each step together: a processor overlaps steps that do not
    depend on each other.
    """
    n_lower[:] = 0  # at least this many numbers are below x
    size = len(ascending)  # at most this many further numbers are below x
    while size > 0:
        half = (size + 1) // 2
        for k in range(_SIDE_BY_SIDE):
            n_lower[k] += half * (ascending[n_lower[k] + half - 1] < x[k])
        size -= half


@dataclass(frozen=True)
class Part:
    """Functions that fit and apply one part of a scaling, a name in `sortnet.config.SCALINGS`.

    Attributes:
        scale: computes the scaled columns (n_docs, n_columns) from the features
            (n_docs, n_features) of whole queries, the offsets of the queries, and the table.
        fit: computes the table from the training features and a seed for sampling.
        rows: the least and the largest number of rows that the table can have.
        sources: returns the number of the feature that each column comes from, given the table.
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
    "none": Part(
        lambda X, offsets, table: np.where(np.isnan(X), table, X),
        lambda X, seed: _moments(X, seed)[:1],
        (1, 1),
    ),
    "missing": Part(
        lambda X, offsets, table: np.isnan(X[:, table[0] > 0]),
        _sometimes_missing,
        (1, 1),
        lambda table: np.flatnonzero(table[0] > 0),
    ),
}
