"""Merge sort of all queries at once, for any comparator: one batch of comparisons per step.

In arrays; `sortnet.sorting.merge_sort_on_device` has it in tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sortnet.core import F32, I32, I64, Comparator


def merge_sort_levels(
    comparator: Comparator, prepared: Any, order: I64, offsets: I64
) -> tuple[I64, I32, I32, F32]:
    """Sort `order` within each query, best first; returns it and the comparisons made.

    Runs of width 1, 2, 4, ... are merged in lockstep: a step compares the heads of every merge of
    the level, in every query, with one call of `prefer`. At most n ceil(log2 n) comparisons and
    2n steps for queries of n documents.
    """
    nothing = np.empty(0, np.int64)
    batches = [(nothing, nothing, np.empty(0, np.float32))]
    width, longest = 1, np.diff(offsets).max(initial=0)
    while width < longest:
        a, middle, right = runs(offsets, width)
        # Where a document stands if the other run is all before it; a comparison it wins corrects.
        place = np.arange(len(order))
        place[a[:, None] + np.arange(width)] += (right - middle)[:, None]
        b, out = middle.copy(), a.copy()
        while len(a):
            i, j = order[a], order[b]
            margin = comparator.prefer(prepared, i, j)
            batches.append((i, j, margin))
            second = margin < 0  # ties keep the first one first
            place[np.where(second, b, a)] = out
            a, b, out = a + ~second, b + second, out + 1
            on = (a < middle) & (b < right)
            a, b, out, middle, right = (each[on] for each in (a, b, out, middle, right))
        merged = np.empty_like(order)
        merged[place] = order
        order, width = merged, 2 * width
    i, j, margin = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    return order, i.astype(np.int32), j.astype(np.int32), margin


def runs(offsets: I64, width: int) -> tuple[I64, I64, I64]:
    """Where the merges of a level start, where their second runs start, and where they end."""
    sizes = np.diff(offsets)
    merges = -(-sizes // (2 * width))
    query = np.repeat(np.arange(len(sizes)), merges)
    number = np.arange(len(query)) - np.repeat(np.cumsum(merges) - merges, merges)
    left = offsets[query] + number * 2 * width
    end = offsets[query + 1]
    middle, right = np.minimum(left + width, end), np.minimum(left + 2 * width, end)
    two = middle < right  # a single run is merged already
    return left[two], middle[two], right[two]
