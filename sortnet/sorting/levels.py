"""Merge sort of all queries at once, for any comparator: one batch of comparisons per step."""

from __future__ import annotations

from typing import Any

import numpy as np

from sortnet.types import F32, I32, I64, Comparator


def merge_sort_levels(
    comparator: Comparator, prepared: Any, order: I64, offsets: I64
) -> tuple[I64, I32, I32, F32]:
    """Sort `order` within each query, best first; returns it and the comparisons made.

    Runs of width 1, 2, 4, ... are merged in lockstep: a step compares the heads of every merge of
    the level, in every query, with one call of `prefer`. At most n ceil(log2 n) comparisons and
    2n steps for queries of n documents.
    """
    sizes = np.diff(offsets)
    batches: list[tuple[I64, I64, F32]] = []
    width = 1
    while width < sizes.max(initial=0):
        order = _merge_level(comparator, prepared, order, *runs(offsets, width), batches)
        width *= 2
    if not batches:
        nothing = np.empty(0, np.int32)
        return order, nothing, nothing, np.empty(0, np.float32)
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


def _merge_level(
    comparator: Comparator,
    prepared: Any,
    source: I64,
    left: I64,
    middle: I64,
    right: I64,
    batches: list[tuple[I64, I64, F32]],
) -> I64:
    target = source.copy()
    a, b, out = left.copy(), middle.copy(), left.copy()
    while len(a):
        i, j = source[a], source[b]
        margin = comparator.prefer(prepared, i, j)
        batches.append((i, j, margin))
        second = margin < 0  # ties keep the first one first
        target[out] = np.where(second, j, i)
        b += second
        a += ~second
        out += 1
        done = (a == middle) | (b == right)
        if done.any():
            _copy_rests(source, target, a[done], middle[done], b[done], right[done], out[done])
            on = ~done
            a, b, out, middle, right = a[on], b[on], out[on], middle[on], right[on]
    return target


def _copy_rests(
    source: I64, target: I64, a: I64, middle: I64, b: I64, right: I64, out: I64
) -> None:
    """Copy the rest of one run of each finished merge."""
    first = np.where(a < middle, a, b)
    length = np.where(a < middle, middle - a, right - b)
    step = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    target[np.repeat(out, length) + step] = source[np.repeat(first, length) + step]
