"""Quicksort, to check how much a ranking depends on the sorting algorithm."""

from __future__ import annotations

import numpy as np

from sortnet.errors import ComparatorError
from sortnet.sorting.sort import refuse_nan
from sortnet.types import I64, Bool, Comparator, Queries, Sorting


def quicksort(comparator: Comparator, queries: Queries, *, start: I64 | None = None) -> Sorting:
    """Sort every query by quicksort, all queries at once: a permutation for any comparator.

    Every part of a level is split by its middle document, with one call of `prefer` per level. Ties
    stay on their side of the pivot.

    Args:
        start: (n_docs,) document numbers, by query, to sort from; by default in row order.

    Raises:
        ComparatorError: if a margin is not a number, or `start` has a wrong length.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], [0, 1, 0])
    >>> quicksort(ByFirstFeature(), q).order.tolist()
    [1, 2, 0]

    Cost: about 1.4 n log2 n comparisons for n documents in random order, at worst n^2 / 2; all
    documents are prepared together.
    """
    order = np.arange(queries.n_docs) if start is None else np.array(start, dtype=np.int64)
    if len(order) != queries.n_docs:
        raise ComparatorError(f"start has {len(order)} documents, the data {queries.n_docs}")
    batches = [(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))]
    if queries.n_docs:
        prepared = comparator.prepare(queries.features)
    begin, end = queries.offsets[:-1], queries.offsets[1:]
    while (many := end - begin > 1).any():
        begin, end = begin[many], end[many]
        middle = (begin + end) // 2
        at, part = _members(begin, end, middle)
        i, j = order[at].astype(np.int32), order[middle].astype(np.int32)[part]
        margin = comparator.prefer(prepared, i, j)
        refuse_nan(margin, queries, i.astype(np.int64))
        batches.append((i, j, margin))
        first = (margin > 0) | ((margin == 0) & (at < middle[part]))
        pivots = _partition(order, at, part, first, begin, middle)
        begin, end = np.concatenate((begin, pivots + 1)), np.concatenate((pivots, end))
    i, j, margin = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Sorting(order, i, j, margin)


def _members(begin: I64, end: I64, middle: I64) -> tuple[I64, I64]:
    """The positions of each part without its pivot, and the part each belongs to."""
    sizes = end - begin - 1
    part = np.repeat(np.arange(len(sizes)), sizes)
    at = np.arange(len(part)) - (np.cumsum(sizes) - sizes - begin)[part]
    return at + (at >= middle[part]), part


def _partition(order: I64, at: I64, part: I64, first: Bool, begin: I64, middle: I64) -> I64:
    """Move each part's documents around its pivot, keeping their order; the pivots' new places."""
    pivots = begin + np.bincount(part[first], minlength=len(begin))
    documents, pivot_documents = order[at], order[middle]
    side = np.argsort(2 * part + ~first, kind="stable")
    place = at - (at > middle[part])  # the places without the old pivot's ...
    place += place >= pivots[part]  # ... and without the new one's
    order[place] = documents[side]
    order[pivots] = pivot_documents
    return pivots
