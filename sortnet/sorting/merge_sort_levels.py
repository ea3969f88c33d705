"""Merge sort of all queries at once, for any comparator: each step compares a batch of pairs."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from sortnet.core import F32, I32, I64, Comparator

_Step: TypeAlias = tuple[I64, I64, F32]  # i, j and margin of the comparisons of one step


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
