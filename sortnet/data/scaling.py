"""Scaling of features, fitted on training data only and kept in the model.

A scaling has one part or several parts joined by `+`; `query+rank` has the columns of `query`, then
the columns of `rank`. A part is a row of `_PARTS`: how its table is fitted, which feature each of
its columns comes from, and how it scales a run of whole queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from sortnet.config import BY_QUERY, scaling_parts
from sortnet.core import F32, F64, I64, Bool, Queries, large_arrays
from sortnet.core.large_arrays import allocate, runs_of_queries
from sortnet.data.half_features import HalfFeatures
from sortnet.errors import DataError
from sortnet.threads import side_by_side

_CHUNK = 1 << 20  # values scaled at a time, so that temporaries stay small
_SAMPLE = 200_000  # documents that means and quantiles are computed from, at most
_GATHERED = 1 << 24  # values of a sample copied at a time
_REFERENCES = 1_000  # quantiles kept per feature
_EDGE = 1e-7  # least distance of a quantile from 0 and 1: 5.2 standard deviations
_CLIP_QUERY = 5.0  # standard deviations at which `zscore` clips
_CLIP = 10.0  # standard deviations at which `standard` and `log` clip
_SIDE_BY_SIDE = 64  # values that are searched among the quantiles at a time
_MISSING = np.uint32(0xFFFFFFFF)  # sorts after all numbers


@dataclass(frozen=True, eq=False)
class Scaler:
    """A fitted scaling.

    Attributes:
        tables: {part: its table, one column per feature}, in the order of the parts. `none`:
            (1, n_features) means; `standard`, `log`: (2, n_features) means and 1 / standard
            deviations, 0 for a constant; `quantile`: (n_references, n_features) quantiles;
            `missing`: (1, n_features) 1 where some values were missing; `query`, `zscore`, `rank`:
            (0, n_features).
        varying: (2, n_features) whether a feature varied within a training query, and whether it
            varied at all. Nothing was learned about a feature that did not vary.

    A scaling without tables leaves the features as they are.
    """

    tables: Mapping[str, F64]
    varying: Bool

    @property
    def n_features(self) -> int:
        """The number of features before scaling."""
        return int(self.varying.shape[1])

    @property
    def n_columns(self) -> int:
        """The number of columns after scaling."""
        return len(self.sources) if self.tables else self.n_features

    @cached_property
    def sources(self) -> I64:
        """The number (n_columns,) of the feature that each column comes from."""
        if not self.tables:
            return np.arange(self.n_features)
        sources = [_PARTS[part].sources(table) for part, table in self.tables.items()]
        return np.concatenate(sources).astype(np.int64, copy=False)

    @cached_property
    def _silent(self) -> I64:
        """The numbers of the columns that were constant in training."""
        varies_within_query, varies = self.varying
        varying_columns = []
        for part, table in self.tables.items():
            if part == "missing":
                varying_features = np.ones_like(varies)
            elif part in BY_QUERY:
                varying_features = varies_within_query
            else:
                varying_features = varies
            varying_columns.append(varying_features[_PARTS[part].sources(table)])
        return np.flatnonzero(~np.concatenate(varying_columns))

    @property
    def depends_on_query(self) -> bool:
        """Whether the columns of a document depend on all documents of its query."""
        return not BY_QUERY.isdisjoint(self.tables)

    def __call__(self, queries: Queries, *, halved: bool = False) -> Queries:
        """Scale the documents' features.

        Args:
            queries: documents with the features of the training part.
            halved: give `HalfFeatures`, which are half as large, see `is_large`.

        Returns:
            The same documents with (n_docs, n_columns) features that hold no NaN.

        Raises:
            DataError: if the number of features differs.

        Cost: an array of the scaled features, on disk beyond 256 MiB (see `allocate`), filled by
        one run of queries at a time.
        """
        if queries.n_features != self.n_features:
            raise DataError(
                f"{queries.source}: {queries.n_features} features where "
                f"{self.n_features} were scaled in training"
            )
        if not self.tables:
            return queries
        shape = queries.n_docs, self.n_columns
        dtype = np.float16 if halved else np.float32
        out = allocate(shape, dtype, f"{queries.source}: the scaled features")
        docs_at_once = _CHUNK // max(self.n_columns, self.n_features, 1)

        def fill(chunk: tuple[slice, I64]) -> None:
            docs, offsets = chunk
            for first, block in self._blocks(queries.features[docs], offsets):
                out[docs, first : first + block.shape[1]] = block
            out[docs, self._silent] = 0

        side_by_side(fill, list(_chunks(queries.offsets, docs_at_once)))
        names = queries.feature_names
        names = None if names is None else tuple(names[k] for k in self.sources)
        features = HalfFeatures(out).as_features if halved else out
        return replace(queries, features=features, feature_names=names)

    def is_large(self, queries: Queries) -> bool:
        """Whether the features should be scaled to float16: float32 would take more than 256 MiB.

        False with the part `none`, whose columns may have values too large for float16.
        """
        size = 4 * queries.n_docs * self.n_columns
        return bool(self.tables) and "none" not in self.tables and size > large_arrays.IN_MEMORY

    def when_read(self, queries: Queries) -> Queries:
        """Scale documents that are read by whole queries.

        Large data are scaled when they are read, so that no scaled copy is kept.
        """
        if not self.tables or 4 * queries.n_docs * self.n_columns <= large_arrays.IN_MEMORY:
            return self(queries)
        features = cast(F32, _ScaledWhenRead(self, queries))
        return replace(queries, features=features, feature_names=None)

    def _blocks(self, X: F32, offsets: I64) -> Iterator[tuple[int, NDArray[Any]]]:
        """Scale whole queries; yield blocks of columns, each with the number of its first column.

        A block of queries longer than a chunk has a part of the features.
        """
        n_values = len(X) * max(self.n_columns, self.n_features)
        features_at_once = max(1, _CHUNK * self.n_features // max(n_values, 1))
        first = 0
        for part, table in self.tables.items():
            for k in range(0, self.n_features, features_at_once):
                features = slice(k, k + features_at_once)
                block = _PARTS[part].scale(X[:, features], offsets, table[:, features])
                yield first, block
                first += block.shape[1]


@dataclass(frozen=True, eq=False)
class _ScaledWhenRead:
    """Features that are scaled when a slice of them is read."""

    scaler: Scaler
    queries: Queries

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.scaler.n_columns

    def __len__(self) -> int:
        return self.queries.n_docs

    def __getitem__(self, docs: slice) -> F32:
        """Scaled features (m, n_columns) of documents; the slice must have whole queries."""
        first, last = np.searchsorted(self.queries.offsets, (docs.start, docs.stop))
        return self.scaler(self.queries.take(np.arange(first, last))).features


def unscaled(n_features: int) -> Scaler:
    """A scaling that leaves the features as they are, missing values included."""
    return Scaler({}, np.broadcast_to(np.True_, (2, n_features)))


def fit_scaler(spec: str, queries: Queries, *, seed: int = 0) -> Scaler:
    """Fit a scaling to the training part.

    | part | column of feature x | missing value |
    |---|---|---|
    | `query` | (x - mean) / maximum of abs(x) over the query (SortNet paper, equation 5) | 0 |
    | `zscore` | (x - mean) / standard deviation over the query, clipped at 5 | 0 |
    | `rank` | rank within the query, from -1 for the least to 1; ties get the mean rank | 0 |
    | `log` | sign(x) log(1 + abs(x)), then as `standard` | 0 |
    | `normal` | the normal deviate of x's quantile | 0, the median |
    | `quantile` | the same with standard deviation 1/3 (the DirectRanker paper) | 0, the median |
    | `standard` | (x - mean) / standard deviation of the training part, clipped at 10 | 0 |
    | `none` | x | the training mean |
    | `missing` | 0, only for features that miss some values in training | 1 |

    The columns of a feature that is constant in training are 0, even if the feature varies later.
    The columns of `query`, `zscore` and `rank` are 0 if the feature is constant within every
    training query.

    Args:
        spec: one part, or several parts joined by `+`.
        queries: the training part.
        seed: seed of the sample of 200,000 documents from which means, deviations and quantiles of
            larger data are computed; `none` and `missing` use all documents.

    Raises:
        DataError: if a part is unknown or named twice, or no column is left.

    >>> q = Queries.from_arrays([[1.0], [3.0]], [0, 1])
    >>> fit_scaler("query+rank", q)(q).features
    array([[-0.33333334, -1.        ],
           [ 0.33333334,  1.        ]], dtype=float32)

    Cost: a sort of every feature of the sample where a part takes quantiles.
    """
    tables = {part: _PARTS[part].fit(queries.features, seed) for part in scaling_parts(spec)}
    scaler = Scaler(tables, _varying(queries))
    if queries.n_features and not scaler.n_columns:
        raise DataError(
            f"{queries.source}: scaling {spec} makes no column of these features: "
            "none varies or misses a value as it needs; add another part, such as query"
        )
    return scaler


def _varying(queries: Queries) -> Bool:
    """Whether (2, n_features) each feature varies within a query, and whether it varies at all."""
    d = queries.n_features
    varies_within_query = np.zeros(d, np.bool_)
    lowest = np.full(d, np.inf)
    highest = np.full(d, -np.inf)
    for docs, offsets in _chunks(queries.offsets, _CHUNK // max(d, 1)):
        X = queries.features[docs]
        starts = offsets[:-1][np.diff(offsets) > 0]
        query_lowest = np.fmin.reduceat(X, starts)
        query_highest = np.fmax.reduceat(X, starts)
        varies_within_query |= (query_highest > query_lowest).any(axis=0)
        lowest = np.fmin(lowest, np.fmin.reduce(query_lowest, axis=0, initial=np.inf))
        highest = np.fmax(highest, np.fmax.reduce(query_highest, axis=0, initial=-np.inf))
    return np.stack((varies_within_query, highest > lowest))


def any_missing(features: F32) -> bool:
    """Whether any value is missing."""
    return any(bool(np.isnan(rows).any()) for rows in _runs(features))


def table_rows(part: str) -> tuple[float, float]:
    """The least and the largest number of rows that the table of a part can have."""
    return _PARTS[part].rows


def _chunks(offsets: I64, docs_at_once: int) -> Iterator[tuple[slice, I64]]:
    """Yield runs of whole queries with about `docs_at_once` documents, and offsets from 0."""
    for first, last in runs_of_queries(offsets, docs_at_once):
        run_offsets = offsets[first : last + 1]
        yield slice(run_offsets[0], run_offsets[-1]), run_offsets - run_offsets[0]


def _means(X: F32, seed: int) -> F64:
    """Table of `none`: the mean of each feature over all documents."""
    sums = np.zeros((1, X.shape[1]))
    counts = np.zeros(X.shape[1])
    for rows in _runs(X):
        present = ~np.isnan(rows)
        sums += np.sum(rows, axis=0, dtype=np.float64, where=present, keepdims=True)
        counts += present.sum(axis=0)
    means: F64 = sums / np.maximum(counts, 1)
    return means


def _with_missing(X: F32, seed: int) -> F64:
    """Table of `missing`: 1 for a feature that some documents miss, 0 if none or all do."""
    n_missing = np.zeros(X.shape[1], np.int64)
    for rows in _runs(X):
        n_missing += np.isnan(rows).sum(axis=0)
    return np.array([(n_missing > 0) & (n_missing < len(X))], np.float64)


def _runs(X: F32) -> Iterator[F32]:
    """Divide the rows into runs of about `_CHUNK` values."""
    rows_at_once = max(1, _CHUNK // max(X.shape[1], 1))
    return (X[start : start + rows_at_once] for start in range(0, len(X), rows_at_once))


def _moments(X: F32, seed: int, transform: Callable[[F32], F32] = lambda x: x) -> F64:
    """Table of `standard` and `log`: mean and 1 / standard deviation, 0 for a constant."""
    table = np.zeros((2, X.shape[1]))
    for k, column in _columns(X, seed):
        # In float32 the sum of equal numbers is exact, so that the deviation of a constant is 0.
        x = transform(column)
        deviation = np.std(x, dtype=np.float64)
        table[:, k] = np.mean(x, dtype=np.float64), 1 / deviation if deviation else 0
    return table


def _quantiles(X: F32, seed: int) -> F64:
    """Table of `quantile` and `normal`: quantiles of each feature."""
    n = min(_REFERENCES, max(len(X), 2))
    levels = np.linspace(0, 1, n)
    table = np.zeros((n, X.shape[1]))
    for k, column in _columns(X, seed):
        table[:, k] = np.quantile(column.astype(np.float64), levels)
    table.sort(axis=0)  # interpolation may break the order in the last bit
    return table


def _columns(X: F32, seed: int) -> Iterator[tuple[int, F32]]:
    """Yield each feature that has values: its number, and its values in a sample of documents."""
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
    """Scale by equation 5: deviation from the query's mean, over the largest absolute value."""
    deviations, sizes, starts, _ = _centred(X, offsets)
    largest = np.fmax.reduceat(np.abs(X), starts).astype(np.float64)
    # A feature that is 0 or missing in the whole query gets 0.
    factors = np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0)
    deviations *= np.repeat(factors, sizes, axis=0)
    return deviations


def _z_scores(X: F32, offsets: I64, table: F64) -> F64:
    """Scale to standard deviations from the query's mean."""
    deviations, sizes, starts, n_present = _centred(X, offsets)
    variances = np.add.reduceat(deviations * deviations, starts) / n_present
    factors = np.divide(1, np.sqrt(variances), out=np.zeros_like(variances), where=variances > 0)
    deviations *= np.repeat(factors, sizes, axis=0)
    return np.clip(deviations, -_CLIP_QUERY, _CLIP_QUERY, out=deviations)


def _centred(X: F32, offsets: I64) -> tuple[F64, I64, I64, NDArray[Any]]:
    """Subtract the query's mean from each value.

    Returns:
        The deviations, 0 for missing values. For the queries with documents: their sizes, their
        first documents, and the number of values that are present, at least 1.
    """
    all_sizes = np.diff(offsets)
    # `reduceat` accepts no empty query.
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
    """Scale to ranks within the query, for all queries of the same size at once.

    Many short sorts are faster than a long sort.
    """
    sizes = np.diff(offsets)
    bits = (X + np.float32(0)).view(np.uint32)  # -0 as 0
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
    """Fill whole numbers that sort as the values do, given the bits of the values.

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
    """Fill the ranks of each feature's values in their query, given its sorted keys."""
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
    """Scale to standard deviations from the mean of the training part."""
    means, factors = table
    scaled: F64 = (X - means) * factors
    scaled[np.isnan(X)] = 0
    return np.clip(scaled, -_CLIP, _CLIP, out=scaled)


def _logarithm(X: F32) -> F32:
    """The logarithm of 1 + |x|, with the sign of x."""
    logs: F32 = np.copysign(np.log1p(np.abs(X)), X)
    return logs


def _to_normal(X: F32, offsets: I64, table: F64, divisor: int = 1) -> F32:
    """Scale to the normal deviates of the quantiles."""
    from scipy.special import ndtri  # takes an eighth of a second to import

    level = np.empty(X.shape)
    _fill_levels(X, np.ascontiguousarray(table.T), level)
    normal: F32 = (ndtri(level, out=level) / divisor).astype(np.float32)
    return normal


@njit(cache=True, nogil=True)
def _fill_levels(X: F32, knots: F64, level: F64) -> None:
    """Fill the level of each value among the (d, m) quantiles; missing values get the median's.

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
    """Count the numbers below each x by binary searches side by side.

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
class _Part:
    """The functions of a part of a scaling, a name in `sortnet.config.SCALINGS`.

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


_PARTS = {
    "query": _Part(_per_query),
    "zscore": _Part(_z_scores),
    "rank": _Part(_ranks),
    "log": _Part(
        lambda X, offsets, table: _standard(_logarithm(X), offsets, table),
        lambda X, seed: _moments(X, seed, _logarithm),
        (2, 2),
    ),
    "quantile": _Part(partial(_to_normal, divisor=3), _quantiles, (2, math.inf)),
    "normal": _Part(_to_normal, _quantiles, (2, math.inf)),
    "standard": _Part(_standard, _moments, (2, 2)),
    "none": _Part(lambda X, offsets, table: np.where(np.isnan(X), table, X), _means, (1, 1)),
    "missing": _Part(
        lambda X, offsets, table: np.isnan(X[:, table[0] > 0]),
        _with_missing,
        (1, 1),
        lambda table: np.flatnonzero(table[0] > 0),
    ),
}
