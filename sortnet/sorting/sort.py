"""Sort the documents of every query with a comparator, and record its comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numba import njit, prange

from sortnet.comparators.forms import DualUnits, Form, OnDevice, Score
from sortnet.core import F32, F64, I32, I64, Comparator, ComparedPairs, Queries, Sorting
from sortnet.core.large_arrays import runs_of_queries
from sortnet.errors import ComparatorError
from sortnet.sorting.merge_sort_levels import merge_sort_levels
from sortnet.threads import in_threads

# Documents prepared at a time, which bounds memory whatever the data's size. Dual units are to
# stay in the cache, the other comparators want large batches, a GPU the largest.
_COMPILED_CHUNK = 1 << 14
_BATCHED_CHUNK = 1 << 17
_DEVICE_CHUNK = 1 << 19
_VALUES = 1 << 26  # of features, whatever the chunk
_READ_AT_ONCE = 1 << 23  # values of features where a part is read for compiled code
_LEAST_SPREAD = 1e-6  # of votes
_LINEAR, _MISSING = 1024.0, 2048.0


def sort(comparator: Comparator, queries: Queries, *, start: I64 | None = None) -> Sorting:
    """Sort every query by merge sort, at most n ceil(log2 n) comparisons for n documents.

    A comparator that offers a `kernel` is sorted by compiled code, one query per thread: soft
    trees, a DirectRanker, a CmpNN of one hidden layer on the CPU, and committees of these nets. Any
    other comparator is sorted level by level, in batches over all queries, on the GPU if its
    documents are there. Both ways make the same comparisons: a margin of 0 is a tie, which keeps
    the two documents in the order they were in.

    Args:
        comparator: anything with `prepare` and `prefer`; it need not be transitive.
        start: (n_docs,) document numbers, the arrangement each query is sorted from. By default
            it depends on the documents' features alone, so that the order of the rows in a file
            changes neither the ranking nor, through ties, its quality.

    Returns:
        The ranking and all comparisons made; always a permutation of each query's documents.

    Raises:
        ComparatorError: if a margin is not a number.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], [0, 1, 0])
    >>> sort(ByFirstFeature(), q).order.tolist()
    [1, 2, 0]

    Cost: preparing every document once; a comparison takes CmpNN about 10 nanoseconds
    per unit, DirectRanker about 30.
    """
    if start is not None and len(start) != queries.n_docs:
        raise ComparatorError(f"start has {len(start)} documents, the data {queries.n_docs}")
    nothing = Sorting(np.empty(0, np.int64), ComparedPairs.empty())
    parts = [nothing, *(run for _, run in sorted_runs(comparator, queries, start=start))]
    order = np.concatenate([run.order for run in parts])
    i, j, margin = (
        np.concatenate([getattr(run.compared, column) for run in parts])
        for column in ("i", "j", "margin")
    )
    return Sorting(order, ComparedPairs.of(i, j, margin=margin))


def sorted_runs(
    comparator: Comparator, queries: Queries, *, start: I64 | None = None
) -> Iterator[tuple[slice, Sorting]]:
    """The same sort in parts: the documents of some queries, and the sort of these.

    So nothing but what is made of a part need be kept. Document numbers are those of `queries`.

    Cost: memory for a part, 16,384, 131,072 or on a GPU 524,288 documents, fewer of many features,
    or one query where that is longer.
    """
    form = comparator.kernel() if hasattr(comparator, "kernel") else None
    there = comparator.on_device() if hasattr(comparator, "on_device") else None
    at_once = _BATCHED_CHUNK if form or there is None else _DEVICE_CHUNK
    if isinstance(form, DualUnits):
        at_once = _COMPILED_CHUNK
    values = _VALUES if form is None else _READ_AT_ONCE
    for first, last in _chunks(queries, at_once, values):
        yield _sorted_run(comparator, queries, first, last, start, form, there)


def _sorted_run(
    comparator: Comparator,
    queries: Queries,
    first: int,
    last: int,
    start: I64 | None,
    form: Form | None,
    there: OnDevice | None,
) -> tuple[slice, Sorting]:
    """A part of `sorted_runs`; its features are gone before those of the next one are read."""
    part = slice(int(queries.offsets[first]), int(queries.offsets[last]))
    offsets = queries.offsets[first : last + 1] - part.start
    X = queries.features[part]
    if start is None:
        order = _arranged(X, offsets)
    else:
        order = np.asarray(start[part], np.int64) - part.start
    numbers = None if form is None else _numbers_of(form, X)
    if numbers is not None:
        i, j, margin = _sort_compiled(*numbers, order, offsets, part.start)
        if isinstance(form, Score):  # the kernel wrote the differences
            margin = form.of_differences(margin)
    else:
        prepared = comparator.prepare(X)
        if there is None:
            order, i, j, margin = merge_sort_levels(comparator, prepared, order, offsets)
        else:
            from sortnet.sorting.merge_sort_on_device import merge_sort_on_device

            order, i, j, margin = merge_sort_on_device(there, prepared, order, offsets)
        i, j = i + np.int32(part.start), j + np.int32(part.start)
    refuse_nan(margin, queries, i)
    return part, Sorting(order + part.start, ComparedPairs.of(i, j, margin=margin))


def order_of(comparator: Comparator, queries: Queries) -> I64:
    """(n_docs,) the ranking alone, as `sort` gives it; no comparison is kept."""
    order = np.empty(queries.n_docs, np.int64)
    for docs, run in sorted_runs(comparator, queries):
        order[docs] = run.order
    return order


def arrangement(queries: Queries) -> I64:
    """(n_docs,) document numbers, by query, in an order that depends on the features alone.

    The key is the documents' product with one fixed random direction, in float64; only documents
    with the same features tie, and no ranker can distinguish these: they stay in the order of the
    rows.
    """
    order = np.empty(queries.n_docs, np.int64)
    for first, last in _chunks(queries, _BATCHED_CHUNK, _READ_AT_ONCE):
        offsets = queries.offsets[first : last + 1]
        docs = slice(int(offsets[0]), int(offsets[-1]))
        order[docs] = docs.start + _arranged(queries.features[docs], offsets - docs.start)
    return order


def _arranged(X: F32, offsets: I64) -> I64:
    direction: F64 = np.random.default_rng(0).standard_normal((X.shape[1],))
    key, order = np.empty(len(X)), np.empty(len(X), np.int64)
    project(X, direction, key)
    arrange(key, offsets, order)
    return order


def certainty_of(comparator: Comparator, queries: Queries, i: I64, j: I64) -> F32:
    """(m,) how sure a comparator is of documents i and j, each pair of one query; i in any order.

    That is abs(margin), divided by the spread of the votes that it is the mean of, if there are.

    Cost: every document is prepared, those of some queries at a time.
    """
    certainty = np.empty(len(i), np.float32)
    spread_of = getattr(comparator, "spread", lambda prepared, i, j: None)
    for rows, prepared, of_i, of_j in _prepared_runs(comparator, queries, i, j):
        margin, spread = comparator.prefer(prepared, of_i, of_j), spread_of(prepared, of_i, of_j)
        certainty[rows] = np.abs(margin) / (1 if spread is None else spread + _LEAST_SPREAD)
    return certainty


def margins_of(comparator: Comparator, queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
    """(m,) margins of documents i over documents j, each pair of one query; i in any order.

    Cost: every document of these queries is prepared, those of some queries at a time.
    """
    margins = np.empty(len(i), np.float32)
    for rows, prepared, of_i, of_j in _prepared_runs(comparator, queries, i, j):
        margins[rows] = comparator.prefer(prepared, of_i, of_j)
    return margins


def _prepared_runs(
    comparator: Comparator, queries: Queries, i: I64 | I32, j: I64 | I32
) -> Iterator[tuple[I64, Any, I64 | I32, I64 | I32]]:
    """Some queries at a time: the rows of their pairs, their documents as prepared, and the pairs
    as numbers of prepared documents."""
    by_query = np.argsort(i, kind="stable")
    ascending = i[by_query]
    for first, last in _chunks(queries, _BATCHED_CHUNK, _VALUES):
        begin, end = queries.offsets[first], queries.offsets[last]
        rows = by_query[slice(*np.searchsorted(ascending, (begin, end)))]
        if len(rows):
            prepared = comparator.prepare(queries.features[begin:end])
            yield rows, prepared, i[rows] - begin, j[rows] - begin


def _chunks(queries: Queries, docs: int, values: int) -> Iterator[tuple[int, int]]:
    return runs_of_queries(queries.offsets, min(docs, values // max(queries.n_features, 1)))


def _sort_compiled(
    E: F64, weights: F64, order: I64, offsets: I64, shift: int
) -> tuple[I32, I32, F32]:
    n = np.diff(offsets)
    most = n * np.ceil(np.log2(np.maximum(n, 1))).astype(np.int64)
    room = np.concatenate(([0], np.cumsum(most)))
    i, j, margin = _room_for(int(room[-1]))
    made = merge_sort(E, weights, order, offsets, room, i, j, margin)
    used = np.concatenate(([0], np.cumsum(made)))
    packed = _room_for(int(used[-1]))
    pack(room, used, shift, i, j, margin, *packed)
    return packed


def _room_for(m: int) -> tuple[I32, I32, F32]:
    return np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.float32)


def refuse_nan(margin: F32, queries: Queries, i: I32 | I64) -> None:
    """Refuse margins that are not numbers, naming the first one's query and row."""
    bad = np.isnan(margin)
    if bad.any():
        doc = int(i[np.argmax(bad)])
        query = int(np.searchsorted(queries.offsets, doc, side="right")) - 1
        raise ComparatorError(
            f"the comparator's margin is not a number (query {queries.qids[query]}, row "
            f"{queries.rows[doc]} of {queries.source}): are its weights or the features finite?"
        )


def _numbers_of(form: Form, X: F32) -> tuple[F64, F64] | None:
    """Prepare documents for the kernel: scores, (n,), and no weights; or `DualUnits.numbers`."""
    if isinstance(form, Score):  # of two float32 scores float64 rounds the same difference
        return form.scores(X), np.empty(0)
    return form.numbers(X)


# reassoc lets the sum over units be vectorised; nothing else may be allowed: a fused
# multiply-add in a*b - c*d would make a document differ from its twin.
@njit(fastmath={"reassoc"})
def _margin(E, w, i, j):  # type: ignore[no-untyped-def]
    if E.ndim == 1:  # decided when it is compiled: each form has a margin of its own
        return E[i] - E[j]
    total = 0.0
    H = w.shape[0]
    for h in range(H):
        e = E[i, h] * E[j, H + h]
        dual = E[j, h] * E[i, H + h]
        total += w[h] * (e - dual) / ((1.0 + e) * (1.0 + dual))
    return total


@in_threads
def merge_sort(
    E: F64,
    w: F64,
    order: I64,
    offsets: I64,
    room: I64,
    out_i: I32,
    out_j: I32,
    out_margin: F32,
) -> I64:
    """Sort `order` within each query in place, best first; returns each query's comparisons.

    Args:
        E, w: what `_numbers_of` returns.
        order: (n,) document numbers in the arrangement to start from.
        offsets: (n_queries + 1,) of the queries in `order`.
        room: (n_queries + 1,) where each query may write its comparisons.
        out_i, out_j, out_margin: (room[-1],) the comparisons made.
    """
    n_queries = offsets.shape[0] - 1
    made = np.zeros(n_queries, np.int64)
    for query in prange(n_queries):
        begin, end = offsets[query], offsets[query + 1]
        source = order[begin:end].copy()
        target = np.empty_like(source)
        n = end - begin
        at = room[query]
        width = 1
        while width < n:
            for left in range(0, n, 2 * width):
                middle, right = min(left + width, n), min(left + 2 * width, n)
                a, b, out = left, middle, left
                while a < middle and b < right:
                    i, j = source[a], source[b]
                    margin = _margin(E, w, i, j)
                    out_i[at], out_j[at], out_margin[at] = i, j, margin
                    at += 1
                    # Ties keep the first one first; the caller checks for NaN.
                    if margin < 0.0:
                        target[out] = j
                        b += 1
                    else:
                        target[out] = i
                        a += 1
                    out += 1
                while a < middle:
                    target[out] = source[a]
                    a += 1
                    out += 1
                while b < right:
                    target[out] = source[b]
                    b += 1
                    out += 1
            source, target = target, source
            width *= 2
        order[begin:end] = source
        made[query] = at - room[query]
    return made


@in_threads
def project(X: F32, direction: F64, out: F64) -> None:
    """The product of every row with one direction, independent of the row's position.

    A BLAS sums a row's products in a different order at the edge of a block. A large value counts
    by its logarithm, so that it hides no other column's; a missing one is above all.
    """
    for row in prange(X.shape[0]):
        total = 0.0
        for column in range(X.shape[1]):
            x = float(X[row, column])
            if np.isnan(x):
                x = _MISSING
            elif abs(x) > _LINEAR:
                x = math.copysign(_LINEAR + math.log(abs(x) / _LINEAR), x)
            total += x * direction[column]
        out[row] = total


@in_threads
def arrange(key: F64, offsets: I64, order: I64) -> None:
    """The documents of every query by their keys; of equal ones the first row is the first."""
    for query in prange(offsets.shape[0] - 1):
        begin, end = offsets[query], offsets[query + 1]
        order[begin:end] = begin + np.argsort(key[begin:end], kind="mergesort")


@in_threads
def pack(
    room: I64, used: I64, shift: int, i: I32, j: I32, margin: F32, to_i: I32, to_j: I32, to_m: F32
) -> None:
    """Copy each query's comparisons from its room to `used`, documents shifted."""
    for query in prange(used.shape[0] - 1):
        at, out = room[query], used[query]
        for k in range(used[query + 1] - out):
            to_i[out + k] = i[at + k] + shift
            to_j[out + k] = j[at + k] + shift
            to_m[out + k] = margin[at + k]
