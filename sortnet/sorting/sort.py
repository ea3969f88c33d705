"""Sort the documents of every query with a comparator, and record its comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numba import njit

from sortnet.comparators.forms import DualUnits, Form, Score
from sortnet.compiled import compiled
from sortnet.core import F32, F64, I32, I64, Comparator, ComparedPairs, Ints, Queries, Sorting
from sortnet.core.memory import joined_ranges, runs_of_queries
from sortnet.errors import ComparatorError
from sortnet.threads import side_by_side

# The largest numbers of documents that are sorted together, which bound memory. The prepared
# documents of a CmpNN, `DualUnits`, must stay in the cache; other comparators are fast with large
# batches.
_COMPILED_CHUNK = 1 << 14
_BATCHED_CHUNK = 1 << 17
_VALUES = 1 << 26  # largest number of feature values in a chunk
_READ_AT_ONCE = 1 << 23  # largest number of feature values in a chunk for compiled code
_DOCS_OF_A_THREAD = 1 << 12  # documents sorted together; fewer are faster in one thread
_LEAST_SPREAD = 1e-6  # added to the spread of votes, so that no certainty is infinite
_LINEAR = 1024.0  # `project` takes the logarithm of larger values
_MISSING = 2048.0  # the value that `project` uses for a missing value

_Step: TypeAlias = tuple[I64, I64, F32]  # i, j and margin of the comparisons of one step


def sort(comparator: Comparator, queries: Queries, *, start: I64 | None = None) -> Sorting:
    """Sort every query by merge sort, with at most n ceil(log2 n) comparisons for n documents.

    Compiled code sorts by a comparator that offers a `kernel`, one query per thread: soft trees, a
    DirectRanker, a CmpNN of one hidden layer, and committees of these nets. The sort by any other
    comparator goes level by level, in batches over all queries. Both ways make the same
    comparisons. A margin of 0 is a tie, which keeps the two documents in their order.

    Args:
        comparator: any object with `prepare` and `prefer`; it need not be transitive.
        queries: the queries, with scaled features if the comparator learned from scaled features.
        start: (n_docs,) document numbers, query by query, in the order before the sort. The default
            order, `arrangement`, depends only on the documents' features. So the order of rows in a
            file changes neither the ranking nor, through ties, its quality.

    Returns:
        The ranking, which is always a permutation of each query's documents, and all comparisons.

    Raises:
        ComparatorError: if a margin is not a number.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> q = Queries.from_arrays([[1.0], [3.0], [2.0]], [0, 1, 0])
    >>> sort(ByFirstFeature(), q).order.tolist()
    [1, 2, 0]

    Cost: preparing every document once; a comparison by a CmpNN takes about 10 nanoseconds per
    hidden unit, a comparison by a DirectRanker about 30 nanoseconds.
    """
    if start is not None and len(start) != queries.n_docs:
        raise ComparatorError(f"start has {len(start)} documents, the data {queries.n_docs}")
    orders = [np.empty(0, np.int64)]
    tables = [ComparedPairs.empty()]
    for _, sorting in sorted_runs(comparator, queries, start=start):
        orders.append(sorting.order)
        tables.append(sorting.compared)
    return Sorting(np.concatenate(orders), ComparedPairs.joined(tables))


def sorted_runs(
    comparator: Comparator,
    queries: Queries,
    *,
    start: I64 | None = None,
    among: tuple[int, int] | None = None,
) -> Iterator[tuple[slice, Sorting]]:
    """Sort as `sort` does, but yield the results for some queries at a time.

    The caller need not keep all comparisons in memory.

    Args:
        comparator, queries, start: see `sort`.
        among: the first query to sort, and the first query after those to sort. If None, all
            queries are sorted.

    Yields:
        A slice of document numbers, whole queries, and their ranking and comparisons. Document
        numbers count the documents of all `queries`.

    Cost: memory for the documents that are sorted together: about 16,000 of a CmpNN, 131,000
    otherwise, fewer with many features. A longer query is sorted as a whole.
    """
    form = comparator.kernel() if hasattr(comparator, "kernel") else None
    n_docs = _COMPILED_CHUNK if isinstance(form, DualUnits) else _BATCHED_CHUNK
    n_values = _VALUES if form is None else _READ_AT_ONCE
    for first, last in _runs_of_queries(queries, n_docs, n_values, among):
        yield _sorted_run(comparator, queries, first, last, start, form)


def _sorted_run(
    comparator: Comparator,
    queries: Queries,
    first: int,
    last: int,
    start: I64 | None,
    form: Form | None,
) -> tuple[slice, Sorting]:
    """Sort the queries from `first` to `last` - 1; return their documents and the result.

    The features of these queries are freed when this function returns, before the next queries are
    read.

    Args:
        comparator, queries, start: see `sorted_runs`.
        first, last: the first query to sort, and the first query after the run.
        form: the form of the margin for compiled code; None: compiled code cannot compute it.
    """
    docs = slice(int(queries.offsets[first]), int(queries.offsets[last]))
    offsets = queries.offsets[first : last + 1] - docs.start
    X = queries.features_of(docs)
    if start is None:
        order = _arrange_run(X, offsets)
    else:
        order = np.asarray(start[docs], np.int64) - docs.start
    numbers = None if form is None else form.numbers(X)
    if numbers is not None:
        values, weights = numbers
        # `order` is sorted in place.
        i, j, margin = _sort_compiled(values, weights, order, offsets, shift=docs.start)
        if isinstance(form, Score):  # the compiled code returns differences of scores
            margin = form.of_differences(margin)
    else:
        prepared = comparator.prepare(X)
        order, i, j, margin = merge_sort_levels(comparator, prepared, order, offsets)
        i = i + np.int32(docs.start)
        j = j + np.int32(docs.start)
    refuse_nan(margin, queries, i)
    return docs, Sorting(order + docs.start, ComparedPairs.of(i, j, margin=margin))


def order_of(comparator: Comparator, queries: Queries, among: tuple[int, int] | None = None) -> I64:
    """Return the ranking of `sort`, (n_docs,), without keeping the comparisons.

    If `among` names some of the queries, as in `sorted_runs`, only their documents are ranked.
    """
    runs = sorted_runs(comparator, queries, among=among)
    return np.concatenate([np.empty(0, np.int64), *(sorting.order for _, sorting in runs)])


def arrangement(queries: Queries) -> I64:
    """Arrange the documents of each query in an order that depends only on their features.

    The documents are ordered by the product of their features with a fixed random direction, in
    float64. Only documents with the same features tie. They stay in the order of the rows, and no
    ranker can distinguish them.

    Returns:
        (n_docs,) document numbers, query by query.
    """
    order = np.empty(queries.n_docs, np.int64)
    for first, last in _runs_of_queries(queries, _BATCHED_CHUNK, _READ_AT_ONCE):
        offsets = queries.offsets[first : last + 1]
        docs = slice(int(offsets[0]), int(offsets[-1]))
        order[docs] = docs.start + _arrange_run(queries.features_of(docs), offsets - docs.start)
    return order


def _arrange_run(X: F32, offsets: I64) -> I64:
    """Compute the `arrangement`, (n,), of the n documents of some queries.

    Args:
        X: (n, n_features) features.
        offsets: (n_queries + 1,) the number of each query's first document, and n.
    """
    direction: F64 = np.random.default_rng(0).standard_normal((X.shape[1],))
    key = np.empty(len(X))

    def fill(rows: slice) -> None:
        """Compute the keys of some documents."""
        project(X[rows], direction, key[rows])

    starts = range(0, len(X), _DOCS_OF_A_THREAD)
    side_by_side(fill, [slice(start, start + _DOCS_OF_A_THREAD) for start in starts])
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order: I64 = np.lexsort((key, query))  # equal keys stay in the order of the rows
    return order


def certainty_of(comparator: Comparator, queries: Queries, i: I64, j: I64) -> F32:
    """Compute how certain a comparator is about pairs (i, j) of documents, (m,).

    The certainty is |margin|. If the margin is a mean of several votes, it is |margin| divided by
    the standard deviation of the votes.

    Args:
        comparator: the comparator.
        queries: the queries.
        i, j: (m,) numbers of the documents of each pair, two documents of one query.

    Cost: preparing the documents of the queries of all pairs, some queries at a time.
    """
    certainty = np.empty(len(i), np.float32)
    spread_of = getattr(comparator, "spread", lambda prepared, i, j: None)
    for rows, prepared, i_prepared, j_prepared in _prepare_pairs(comparator, queries, i, j):
        margin = comparator.prefer(prepared, i_prepared, j_prepared)
        spread = spread_of(prepared, i_prepared, j_prepared)
        divisor = 1 if spread is None else spread + _LEAST_SPREAD
        certainty[rows] = np.abs(margin) / divisor
    return certainty


def margins_of(comparator: Comparator, queries: Queries, i: Ints, j: Ints) -> F32:
    """Compute the margins, (m,), of documents i over documents j.

    Args:
        comparator: the comparator.
        queries: the queries.
        i, j: (m,) numbers of the documents of each pair, two documents of one query.

    Raises:
        ComparatorError: if a margin is not a number.

    Cost: preparing the documents of the queries of all pairs, some queries at a time.
    """
    margins = np.empty(len(i), np.float32)
    for rows, prepared, i_prepared, j_prepared in _prepare_pairs(comparator, queries, i, j):
        margins[rows] = comparator.prefer(prepared, i_prepared, j_prepared)
    refuse_nan(margins, queries, i)
    return margins


def _prepare_pairs(
    comparator: Comparator, queries: Queries, i: Ints, j: Ints
) -> Iterator[tuple[I64, Any, Ints, Ints]]:
    """Prepare the documents of pairs (i, j), some queries at a time.

    Yields:
        (m,) row numbers of the pairs of these queries; the prepared documents of the queries; and
        the numbers of the documents of each pair among the prepared documents.
    """
    by_query = np.argsort(i, kind="stable")
    ascending = i[by_query]
    for first, last in _runs_of_queries(queries, _BATCHED_CHUNK, _VALUES):
        begin, end = queries.offsets[[first, last]]
        first_row, end_row = np.searchsorted(ascending, (begin, end))
        rows = by_query[first_row:end_row]
        if len(rows):
            prepared = comparator.prepare(queries.features_of(slice(begin, end)))
            yield rows, prepared, i[rows] - begin, j[rows] - begin


def _runs_of_queries(
    queries: Queries, n_docs: int, n_values: int, among: tuple[int, int] | None = None
) -> Iterator[tuple[int, int]]:
    """Divide queries into runs of at most `n_docs` documents and `n_values` values of features.

    Yields:
        The first query of a run, and the first query after the run.
    """
    begin, end = among or (0, len(queries))
    most_docs = n_values // max(queries.n_features, 1)
    offsets = queries.offsets[begin : end + 1]
    for first, last in runs_of_queries(offsets, min(n_docs, most_docs)):
        yield begin + first, begin + last


def _sort_compiled(
    values: F64, weights: F64, order: I64, offsets: I64, shift: int
) -> tuple[I32, I32, F32]:
    """Sort the documents of some queries by compiled code, and return the comparisons.

    Args:
        values, weights: the result of `DualUnits.numbers` or `Score.numbers`.
        order: (n,) document numbers, query by query, which are sorted in place.
        offsets: (n_queries + 1,) where each query begins in `order`; the last entry is n.
        shift: the number to add to the document numbers of the result.

    Returns:
        The columns i, j and margin of the comparisons.
    """
    # Each query writes into rows of its own, as many as a sort may need at most.
    n_docs = np.diff(offsets)
    most_comparisons = n_docs * np.ceil(np.log2(np.maximum(n_docs, 1))).astype(np.int64)
    first_rows = np.concatenate(([0], np.cumsum(most_comparisons)))
    n_rows = int(first_rows[-1])
    i, j = np.empty(n_rows, np.int32), np.empty(n_rows, np.int32)
    margin = np.empty(n_rows, np.float32)
    n_comparisons = np.empty_like(n_docs)

    def sort_queries(range_of_queries: tuple[int, int]) -> None:
        """Sort the documents of the queries first to last - 1."""
        first, last = range_of_queries
        bounds = slice(first, last + 1)
        n_comparisons[first:last] = merge_sort(
            values, weights, order, offsets[bounds], first_rows[bounds], i, j, margin
        )

    side_by_side(sort_queries, list(runs_of_queries(offsets, _DOCS_OF_A_THREAD)))
    # The rows that a query did not need are left out.
    rows = joined_ranges(first_rows[:-1], n_comparisons)
    shift_int32 = np.int32(shift)
    return i[rows] + shift_int32, j[rows] + shift_int32, margin[rows]


def refuse_nan(margin: F32, queries: Queries, i: Ints) -> None:
    """Raise ComparatorError if a margin is not a number, with the place of its document i."""
    is_nan = np.isnan(margin)
    if is_nan.any():
        doc = int(i[np.argmax(is_nan)])
        query = int(np.searchsorted(queries.offsets, doc, side="right")) - 1
        raise ComparatorError(
            f"the comparator's margin is not a number (query {queries.qids[query]}, row "
            f"{queries.rows[doc]} of {queries.source}): are its weights or the features finite?"
        )


# The flag reassoc lets the compiler vectorise the sum over units. No other flag may be set: with a
# fused multiply-add in a*b - c*d, two equal documents could get a margin that is not 0.
@njit(fastmath={"reassoc"})
def _margin(values, weights, i, j):  # type: ignore[no-untyped-def]
    """Compute the margin of document i over document j.

    Args:
        values, weights: the result of `Score.numbers`, a vector of scores, or of
            `DualUnits.numbers`, which explains the formula.
        i, j: numbers of documents.
    """
    if values.ndim == 1:  # numba decides this at compile time
        return values[i] - values[j]
    total = 0.0
    H = weights.shape[0]  # number of dual units
    for h in range(H):
        e_ij = values[i, h] * values[j, H + h]
        e_ji = values[j, h] * values[i, H + h]
        total += weights[h] * (e_ij - e_ji) / ((1.0 + e_ij) * (1.0 + e_ji))
    return total


@njit(inline="always")
def _merge_runs(
    values: F64, weights: F64, source: I64, target: I64, start: int, middle: int, stop: int,
    out_i: I32, out_j: I32, out_margin: F32, row: int,
) -> int:  # fmt: skip
    """Merge the sorted runs start .. middle - 1 and middle .. stop - 1 of `source` into `target`.

    Args:
        values, weights: the result of `DualUnits.numbers` or `Score.numbers`.
        source: (n,) document numbers.
        target: (n,) array whose places start .. stop - 1 are filled.
        start, middle, stop: the bounds of the two runs.
        out_i, out_j, out_margin: columns that the comparisons are written to.
        row: the row of the first comparison.

    Returns:
        The row after the last comparison.
    """
    a = start
    b = middle
    out = start
    while a < middle and b < stop:
        i, j = source[a], source[b]
        margin = _margin(values, weights, i, j)
        out_i[row] = i
        out_j[row] = j
        out_margin[row] = margin
        row += 1
        # In a tie the document of the first run goes first. The caller refuses NaN.
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
    while b < stop:
        target[out] = source[b]
        b += 1
        out += 1
    return row


@compiled()
def merge_sort(
    values: F64,
    weights: F64,
    order: I64,
    offsets: I64,
    first_rows: I64,
    out_i: I32,
    out_j: I32,
    out_margin: F32,
) -> I64:
    """Sort `order` within each query in place, best first.

    The documents of a query are runs of 1, 2, 4, ... sorted documents. Neighbouring runs are merged
    until a single run is left.

    Args:
        values, weights: the result of `DualUnits.numbers` or `Score.numbers`.
        order: (n,) document numbers in the order before the sort, query by query.
        offsets: (n_queries + 1,) where each query begins in `order`, and n.
        first_rows: (n_queries + 1,) the first row for each query's comparisons, and the end.
        out_i, out_j, out_margin: (first_rows[-1],) columns that the comparisons are written to.

    Returns:
        (n_queries,) the number of each query's comparisons.
    """
    n_queries = offsets.shape[0] - 1
    n_comparisons = np.zeros(n_queries, np.int64)
    for query in range(n_queries):
        begin, end = offsets[query], offsets[query + 1]
        source = order[begin:end].copy()
        target = np.empty_like(source)
        n = end - begin
        row = first_rows[query]  # row of the next comparison
        width = 1
        while width < n:
            for start in range(0, n, 2 * width):
                middle = min(start + width, n)
                stop = min(start + 2 * width, n)
                row = _merge_runs(
                    values, weights, source, target, start, middle, stop,
                    out_i, out_j, out_margin, row,
                )  # fmt: skip
            source, target = target, source
            width *= 2
        order[begin:end] = source
        n_comparisons[query] = row - first_rows[query]
    return n_comparisons


@compiled()
def project(X: F32, direction: F64, out: F64) -> None:
    """Compute the product of every row with a direction, so that equal rows get equal products.

    A BLAS (library of matrix products) may sum the products of a row in another order, depending on
    the row's position. Large values are replaced by their logarithms, so that they do not hide the
    values of other columns. A missing value is replaced by a number above all values.

    Args:
        X: (n, d) features.
        direction: (d,) factors of the columns.
        out: (n,) array that is filled with the products.
    """
    for row in range(X.shape[0]):
        total = 0.0
        for column in range(X.shape[1]):
            x = float(X[row, column])
            if np.isnan(x):
                x = _MISSING
            elif abs(x) > _LINEAR:
                x = math.copysign(_LINEAR + math.log(abs(x) / _LINEAR), x)
            total += x * direction[column]
        out[row] = total


def merge_sort_levels(
    comparator: Comparator, prepared: Any, order: I64, offsets: I64
) -> tuple[I64, I32, I32, F32]:
    """Sort the documents of each query, best first.

    A level merges neighbouring runs of 1, 2, 4, ... sorted documents. All merges of a level, in all
    queries, make their steps together: a step compares the first remaining documents of the two
    runs of every merge, with a single call of `prefer`. Queries of n documents need at most
    n ceil(log2 n) comparisons each, and 2n steps.

    Args:
        comparator: the comparator.
        prepared: the prepared documents.
        order: (n_docs,) document numbers, query by query, in the order before the sort.
        offsets: (n_queries + 1,) where each query begins in `order`, and n_docs.

    Returns:
        The ranking, (n_docs,), and the columns i, j and margin of all comparisons.
    """
    nothing = np.empty(0, np.int64)
    steps: list[_Step] = [(nothing, nothing, np.empty(0, np.float32))]
    longest = np.diff(offsets).max(initial=0)
    width = 1
    while width < longest:
        order, steps_of_level = _merge_level(comparator, prepared, order, offsets, width)
        steps += steps_of_level
        width *= 2
    i, j, margin = (np.concatenate(column) for column in zip(*steps, strict=True))
    return order, i.astype(np.int32), j.astype(np.int32), margin


def _merge_level(
    comparator: Comparator, prepared: Any, order: I64, offsets: I64, width: int
) -> tuple[I64, list[_Step]]:
    """Merge neighbouring runs of `width` sorted documents.

    Args:
        comparator, prepared, order, offsets: see `merge_sort_levels`.
        width: the number of documents of a run; the last run of a query may be shorter.

    Returns:
        The order after the merges, and the comparisons of each step.
    """
    steps = []
    # For each merge, a and b are the places in `order` of the first remaining documents of its two
    # runs, end_a and end_b the ends of the runs, and next_place the next place to fill.
    a, end_a, end_b = _merge_bounds(offsets, width)  # bounds of the two runs
    b = end_a.copy()
    next_place = a.copy()
    # The new place of each document. A step sets the final place of the document that it takes.
    # The steps end when one run is used up, and the rest of the other run keeps its places from
    # here: the rest of a first run is behind the whole second run, the rest of a second run stays.
    new_place = np.arange(len(order))
    new_place[a[:, None] + np.arange(width)] += (end_b - end_a)[:, None]
    while len(a):
        i, j = order[a], order[b]
        margin = comparator.prefer(prepared, i, j)
        steps.append((i, j, margin))
        takes_b = margin < 0  # in a tie the document of the first run goes first
        new_place[np.where(takes_b, b, a)] = next_place
        a = a + ~takes_b
        b = b + takes_b
        next_place = next_place + 1
        # A merge is done when one of its runs is used up.
        remains = (a < end_a) & (b < end_b)
        a, end_a = a[remains], end_a[remains]
        b, end_b = b[remains], end_b[remains]
        next_place = next_place[remains]
    merged = np.empty_like(order)
    merged[new_place] = order
    return merged, steps


def _merge_bounds(offsets: I64, width: int) -> tuple[I64, I64, I64]:
    """Compute where the two runs of each of k merges of a level begin and end.

    Args:
        offsets: (n_queries + 1,) where each query begins, and the end.
        width: the number of documents of a run; the last run of a query may be shorter.

    Returns:
        (k,) where the first run begins, (k,) where it ends and the second run begins, and (k,)
        where the second run ends.
    """
    sizes = np.diff(offsets)
    n_merges = -(-sizes // (2 * width))  # rounded up
    query = np.repeat(np.arange(len(sizes)), n_merges)  # the query of each merge
    first_merge = np.cumsum(n_merges) - n_merges  # the first merge of each query
    number_in_query = np.arange(len(query)) - first_merge[query]
    start = offsets[query] + number_in_query * 2 * width
    end_of_query = offsets[query + 1]
    middle = np.minimum(start + width, end_of_query)
    end = np.minimum(start + 2 * width, end_of_query)
    has_two_runs = middle < end  # a run without a second run needs no merge
    return start[has_two_runs], middle[has_two_runs], end[has_two_runs]
