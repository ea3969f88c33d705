"""Scaling of features, fitted on training data only and kept in the model.

A scaling has one part or several parts joined by `+`; `query+rank` has the columns of `query`, then
the columns of `rank`. `scaled_columns` has the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sortnet.config import BY_QUERY, scaling_parts
from sortnet.core import F32, F64, I64, Bool, Queries, memory
from sortnet.core.memory import allocate, runs_of_queries
from sortnet.data.scaled_columns import CHUNK, PARTS, runs
from sortnet.errors import DataError
from sortnet.threads import side_by_side


@dataclass(frozen=True, eq=False)
class Scaler:
    """A fitted scaling.

    Attributes:
        tables: {part: its table, one column per feature}, in the order of the parts. The tables
            are for `none`: (1, n_features) means; for `standard` and `log`: (2, n_features) means
            and 1 / standard deviations, 0 for a constant; for `quantile` and `normal`:
            (n_quantiles, n_features) quantiles; for `missing`: (1, n_features) 1 where some
            values were missing; for `query`, `zscore` and `rank`: empty, (0, n_features).
        varying: (2, n_features); the first row says whether a feature varied within a training
            query, the second row whether it varied at all. Nothing was learned about a feature
            that did not vary.
        origins: (n_features,) the numbers from which the features were counted in training, see
            `Queries.origins`.

    A scaling without tables leaves the features as they are.
    """

    tables: Mapping[str, F64]
    varying: Bool
    origins: F64 | None = None

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
        """The index of the feature from which each column is computed, (n_columns,)."""
        if not self.tables:
            return np.arange(self.n_features)
        sources = [PARTS[part].sources(table) for part, table in self.tables.items()]
        return np.concatenate(sources).astype(np.int64, copy=False)

    @cached_property
    def _constant_columns(self) -> I64:
        """The numbers of the columns that were constant in training, and are always set to 0."""
        varies_within_query, varies = self.varying
        varying_columns = []
        for part, table in self.tables.items():
            if part == "missing":  # it has columns only for features that lack some values
                varying_features = np.ones_like(varies)
            elif part in BY_QUERY:
                varying_features = varies_within_query
            else:
                varying_features = varies
            varying_columns.append(varying_features[PARTS[part].sources(table)])
        return np.flatnonzero(~np.concatenate(varying_columns))

    @property
    def depends_on_query(self) -> bool:
        """Whether the columns of a document depend on all documents of its query."""
        return not BY_QUERY.isdisjoint(self.tables)

    def __call__(self, queries: Queries, *, halved: bool = False) -> Queries:
        """Scale the documents' features.

        Args:
            queries: documents that have the same features as the training part.
            halved: whether the scaled features are float16, see `is_large`.

        Returns:
            The same documents with (n_docs, n_columns) features that hold no NaN.

        Raises:
            DataError: if the number of features differs.

        Cost: an array of the scaled features, on disk beyond 256 MiB (see `allocate`). It is
        filled in pieces of a few queries.
        """
        if queries.n_features != self.n_features:
            raise DataError(
                f"{queries.source}: {queries.n_features} features where "
                f"{self.n_features} were scaled in training"
            )
        queries = queries.counted_from(self.origins)
        if not self.tables:
            return queries
        shape = queries.n_docs, self.n_columns
        dtype = np.float16 if halved else np.float32
        scaled = allocate(shape, dtype, f"{queries.source}: the scaled features")
        docs_at_once = CHUNK // max(self.n_columns, self.n_features, 1)
        scale_chunk = partial(self._scale_chunk, queries.features, scaled)
        side_by_side(scale_chunk, list(_chunks(queries.offsets, docs_at_once)))
        names = None
        if queries.feature_names is not None:
            names = tuple(queries.feature_names[k] for k in self.sources)
        return replace(queries, features=scaled, feature_names=names, origins=None)

    def _scale_chunk(self, features: F32, scaled: NDArray[Any], chunk: tuple[slice, I64]) -> None:
        """Scale the documents of a chunk into their rows of `scaled`.

        Args:
            features: (n_docs, n_features) unscaled features of all documents.
            scaled: (n_docs, n_columns) scaled columns of all documents, which are filled.
            chunk: the documents to scale, and the offsets of their queries, see `_chunks`.
        """
        docs, offsets = chunk
        for first, block in self._blocks(features[docs], offsets):
            scaled[docs, first : first + block.shape[1]] = block
        scaled[docs, self._constant_columns] = 0

    def is_large(self, queries: Queries) -> bool:
        """Whether to scale the features to float16, because float32 would exceed 256 MiB.

        Features are never scaled to float16 with the part `none`, whose columns may have values
        that are too large for float16.
        """
        if not self.tables or "none" in self.tables:
            return False
        return not self._fits_in_memory(queries)

    def scale_lazily(self, queries: Queries) -> Queries:
        """Scale small data now; scale a slice of large data whenever the slice is read.

        So no scaled copy of large data is kept. A slice must have whole queries, because scaling
        may depend on all documents of a query.
        """
        if not self.tables or self._fits_in_memory(queries):
            return self(queries)
        features = cast(F32, _LazyFeatures(self, queries))
        return replace(queries, features=features, feature_names=None, origins=None)

    def _fits_in_memory(self, queries: Queries) -> bool:
        """Whether the scaled features are small enough for memory, as float32."""
        n_bytes = 4 * queries.n_docs * self.n_columns
        return n_bytes <= memory.IN_MEMORY

    def _blocks(self, X: F32, offsets: I64) -> Iterator[tuple[int, NDArray[Any]]]:
        """Scale whole queries, and yield blocks of scaled columns.

        A block has the columns of one part of the scaling. If the documents have more than `CHUNK`
        values, a block has the columns of a few features only.

        Args:
            X: (n_docs, n_features) the features of the queries.
            offsets: (n_queries + 1,) the first document of each query, and the end.

        Yields:
            The number of the first column, and the block (n_docs, n_columns_of_block).
        """
        n_values = len(X) * max(self.n_columns, self.n_features)  # the larger of input and output
        features_at_once = max(1, CHUNK * self.n_features // max(n_values, 1))
        first = 0
        for part, table in self.tables.items():
            for k in range(0, self.n_features, features_at_once):
                features = slice(k, k + features_at_once)
                block = PARTS[part].scale(X[:, features], offsets, table[:, features])
                yield first, block
                first += block.shape[1]


@dataclass(frozen=True, eq=False)
class _LazyFeatures:
    """Array-like features of large data, which are scaled whenever a slice of documents is read."""

    scaler: Scaler
    queries: Queries

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.scaler.n_columns

    def __len__(self) -> int:
        return self.queries.n_docs

    def __getitem__(self, docs: slice) -> F32:
        """Scale a slice of the documents, (n_docs, n_columns), which must have whole queries."""
        first, last = np.searchsorted(self.queries.offsets, (docs.start, docs.stop))
        queries_of_slice = self.queries.take(np.arange(first, last))
        return self.scaler(queries_of_slice).features


def unscaled(n_features: int, origins: F64 | None) -> Scaler:
    """Make a scaling that leaves the features as they are, missing values included."""
    return Scaler({}, np.broadcast_to(np.True_, (2, n_features)), origins)


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
        seed: seed of a random sample. For data of more than 200,000 documents, means, deviations
            and quantiles are computed from a sample of that size; `missing` always uses all
            documents.

    Raises:
        DataError: if a part is unknown or named twice, or no column is left.

    >>> q = Queries.from_arrays([[1.0], [3.0]], [0, 1])
    >>> fit_scaler("query+rank", q)(q).features
    array([[-0.33333334, -1.        ],
           [ 0.33333334,  1.        ]], dtype=float32)

    Cost: for `quantile` and `normal` a sort of every feature of the sample.
    """
    tables = {part: PARTS[part].fit(queries.features, seed) for part in scaling_parts(spec)}
    scaler = Scaler(tables, _varying(queries), queries.origins)
    if queries.n_features and not scaler.n_columns:
        raise DataError(
            f"{queries.source}: scaling {spec} makes no column of these features: "
            "none varies or misses a value as it needs; add another part, such as query"
        )
    return scaler


def _varying(queries: Queries) -> Bool:
    """Find the features that vary, missing values aside.

    Returns:
        (2, n_features) whether a feature varies within a query, and whether it varies at all.
    """
    n_features = queries.n_features
    varies_within_query = np.zeros(n_features, np.bool_)
    lowest = np.full(n_features, np.inf)
    highest = np.full(n_features, -np.inf)
    for docs, offsets in _chunks(queries.offsets, CHUNK // max(n_features, 1)):
        # `docs` counts among all documents, `offsets` from the start of the chunk.
        X = queries.features[docs]
        # `reduceat` needs ranges that are not empty, so queries without documents are left out.
        starts = offsets[:-1][np.diff(offsets) > 0]
        query_lowest = np.fmin.reduceat(X, starts)
        query_highest = np.fmax.reduceat(X, starts)
        varies_within_query |= (query_highest > query_lowest).any(axis=0)
        lowest = np.fmin(lowest, np.fmin.reduce(query_lowest, axis=0, initial=np.inf))
        highest = np.fmax(highest, np.fmax.reduce(query_highest, axis=0, initial=-np.inf))
    return np.stack((varies_within_query, highest > lowest))


def any_missing(features: F32) -> bool:
    """Whether any value of the features is missing."""
    return any(bool(np.isnan(rows).any()) for rows in runs(features))


def table_rows(part: str) -> tuple[float, float]:
    """Return how many rows of statistics a part of a scaling can have: the least and the most."""
    return PARTS[part].rows


def _chunks(offsets: I64, docs_at_once: int) -> Iterator[tuple[slice, I64]]:
    """Divide documents into chunks of whole queries with about `docs_at_once` documents.

    Yields:
        The slice of a chunk's documents among all documents; and (n_queries + 1,) the number of the
        first document of each query, and the end, both counted from the start of the chunk.
    """
    for first, last in runs_of_queries(offsets, docs_at_once):
        run_offsets = offsets[first : last + 1]
        yield slice(run_offsets[0], run_offsets[-1]), run_offsets - run_offsets[0]
