"""Sort the documents of every query with a comparator, and record its comparisons."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sortnet.comparators import DualUnits, Form
from sortnet.comparators.forms import OnDevice
from sortnet.errors import ComparatorError
from sortnet.sorting.gpu import merge_sort_on_device
from sortnet.sorting.kernel import arrange, finish, in_numbers, merge_sort, pack, project
from sortnet.sorting.levels import merge_sort_levels
from sortnet.types import F32, F64, I32, I64, Comparator, Queries, Sorting
from sortnet.types.memory import runs_of_queries

# Documents prepared at a time, which bounds memory whatever the data's size. Dual units are to
# stay in the cache, the other comparators want large batches, a GPU the largest.
_COMPILED_CHUNK = 1 << 14
_BATCHED_CHUNK = 1 << 17
_DEVICE_CHUNK = 1 << 19
_VALUES = 1 << 26  # of features, whatever the chunk
_LEAST_SPREAD = 1e-6  # of votes


def sort(comparator: Comparator, queries: Queries, *, start: I64 | None = None) -> Sorting:
    """Sort every query by merge sort, at most n ceil(log2 n) comparisons for n documents.

    A comparator that offers a `kernel` (a CmpNN of one hidden layer on the CPU, a DirectRanker, a
    committee of either) is sorted by compiled code, one query per thread; any other level by level,
    in batches over all queries: on the GPU, if it is there. All make the same comparisons: a margin
    of 0 is a tie, which keeps the two documents in the order they were in.

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
    parts = [run for _, run in sorted_runs(comparator, queries, start=start)]
    if not parts:
        return Sorting(np.empty(0, np.int64), *_room_for(0))
    fields = ((run.order, run.i, run.j, run.margin) for run in parts)
    return Sorting(*(np.concatenate(each) for each in zip(*fields, strict=True)))


def sorted_runs(
    comparator: Comparator, queries: Queries, *, start: I64 | None = None
) -> Iterator[tuple[slice, Sorting]]:
    """The same sort in parts: the documents of some queries, and the sort of these.

    So nothing but what is made of a part need be kept. Document numbers are those of `queries`.

    Cost: memory for a part, 16,384, 131,072 or on a GPU 524,288 documents, or one query where that
    is longer.
    """
    form = comparator.kernel() if hasattr(comparator, "kernel") else None
    for first, last in _chunks(queries, _docs_at_once(comparator, form)):
        yield _sorted_run(comparator, queries, first, last, start, form)


def _sorted_run(
    comparator: Comparator,
    queries: Queries,
    first: int,
    last: int,
    start: I64 | None,
    form: Form | None,
) -> tuple[slice, Sorting]:
    """A part of `sorted_runs`; its features are gone before those of the next one are read."""
    part = slice(int(queries.offsets[first]), int(queries.offsets[last]))
    offsets = queries.offsets[first : last + 1] - part.start
    X = queries.features[part]
    if start is None:
        order = _arranged(X, offsets)
    else:
        order = np.asarray(start[part], np.int64) - part.start
    return part, _sort_part(comparator, queries, X, order, offsets, part.start, form)


def _docs_at_once(comparator: Comparator, form: Form | None) -> int:
    if isinstance(form, DualUnits):
        return _COMPILED_CHUNK
    return _BATCHED_CHUNK if form or _on_device(comparator) is None else _DEVICE_CHUNK


def _on_device(comparator: Comparator) -> OnDevice | None:
    return comparator.on_device() if hasattr(comparator, "on_device") else None


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
    return _arranged(queries.features, queries.offsets)


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
    by_query = np.argsort(i, kind="stable")
    ascending = i[by_query]
    for first, last in _chunks(queries, _BATCHED_CHUNK):
        begin, end = queries.offsets[first], queries.offsets[last]
        here = by_query[slice(*np.searchsorted(ascending, (begin, end)))]
        if len(here):
            prepared = comparator.prepare(queries.features[begin:end])
            pair = i[here] - begin, j[here] - begin
            margin, spread = comparator.prefer(prepared, *pair), spread_of(prepared, *pair)
            certainty[here] = np.abs(margin) / (1 if spread is None else spread + _LEAST_SPREAD)
    return certainty


def _chunks(queries: Queries, docs: int) -> Iterator[tuple[int, int]]:
    return runs_of_queries(queries.offsets, min(docs, _VALUES // max(queries.n_features, 1)))


def _sort_part(
    comparator: Comparator,
    queries: Queries,
    X: F32,
    order: I64,
    offsets: I64,
    begin: int,
    form: Form | None,
) -> Sorting:
    """The sort of the documents from `begin` on, whose features are X, in that order at first."""
    ready = None if form is None else in_numbers(form, X)
    if form is not None and ready is not None:
        i, j, margin = _sort_compiled(*ready, order, offsets, begin)
        margin = finish(form, margin)
    else:
        prepared, there = comparator.prepare(X), _on_device(comparator)
        if there is None:
            order, i, j, margin = merge_sort_levels(comparator, prepared, order, offsets)
        else:
            order, i, j, margin = merge_sort_on_device(there, prepared, order, offsets)
        i, j = i + np.int32(begin), j + np.int32(begin)
    refuse_nan(margin, queries, i)
    return Sorting(order + begin, i, j, margin)


def _sort_compiled(
    E: F64, weights: F64, order: I64, offsets: I64, shift: int
) -> tuple[I32, I32, F32]:
    room = np.concatenate(([0], np.cumsum(most_comparisons(np.diff(offsets)))))
    i, j, margin = _room_for(int(room[-1]))
    made = merge_sort(E, weights, order, offsets, room, i, j, margin)
    used = np.concatenate(([0], np.cumsum(made)))
    packed = _room_for(int(used[-1]))
    pack(room, used, shift, i, j, margin, *packed)
    return packed


def _room_for(m: int) -> tuple[I32, I32, F32]:
    return np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.float32)


def most_comparisons(n: I64) -> I64:
    """n ceil(log2 n), the most comparisons a merge sort of n documents makes."""
    most: I64 = n * np.ceil(np.log2(np.maximum(n, 1))).astype(np.int64)
    return most


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
