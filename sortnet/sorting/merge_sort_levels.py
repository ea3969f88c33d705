"""Merge sort of all queries at once, for any comparator: each step compares one batch of pairs.

This module works with arrays; `sortnet.sorting.merge_sort_on_device` does the same with tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sortnet.core import F32, I32, I64, Comparator


def merge_sort_levels(
    comparator: Comparator, prepared: Any, order: I64, offsets: I64
) -> tuple[I64, I32, I32, F32]:
    """Sort `order` within each query, best first; return the ranking and all comparisons.

    Runs of width 1, 2, 4, ... are merged in lockstep: a step compares the heads of every merge of
    the level, in every query, with one call of `prefer`. At most n ceil(log2 n) comparisons and
    2n steps for queries of n documents.
    """
    nothing = np.empty(0, np.int64)
    batches = [(nothing, nothing, np.empty(0, np.float32))]
    longest = np.diff(offsets).max(initial=0)
    width = 1
    while width < longest:
        # Each merge has the heads a and b of its two runs, the ends of both runs, and the next
        # place to fill.
        a, end_a, end_b = runs(offsets, width)
        b = end_a.copy()
        next_place = a.copy()
        # At first each document is placed behind the whole other run. A comparison that the
        # document wins corrects its place.
        place = np.arange(len(order))
        place[a[:, None] + np.arange(width)] += (end_b - end_a)[:, None]
        while len(a):
            i, j = order[a], order[b]
            margin = comparator.prefer(prepared, i, j)
            batches.append((i, j, margin))
            takes_b = margin < 0  # a tie takes the first run's document
            place[np.where(takes_b, b, a)] = next_place
            a = a + ~takes_b
            b = b + takes_b
            next_place = next_place + 1
            goes_on = (a < end_a) & (b < end_b)
            a, end_a = a[goes_on], end_a[goes_on]
            b, end_b = b[goes_on], end_b[goes_on]
            next_place = next_place[goes_on]
        merged = np.empty_like(order)
        merged[place] = order
        order = merged
        width *= 2
    i, j, margin = (np.concatenate(column) for column in zip(*batches, strict=True))
    return order, i.astype(np.int32), j.astype(np.int32), margin


def runs(offsets: I64, width: int) -> tuple[I64, I64, I64]:
    """Bounds of all merges of a level: starts of first runs, starts of second runs, and ends."""
    sizes = np.diff(offsets)
    n_merges = -(-sizes // (2 * width))
    query = np.repeat(np.arange(len(sizes)), n_merges)
    number = np.arange(len(query)) - np.repeat(np.cumsum(n_merges) - n_merges, n_merges)
    start = offsets[query] + number * 2 * width
    end_of_query = offsets[query + 1]
    middle = np.minimum(start + width, end_of_query)
    end = np.minimum(start + 2 * width, end_of_query)
    has_two_runs = middle < end  # a single run is merged already
    return start[has_two_runs], middle[has_two_runs], end[has_two_runs]
