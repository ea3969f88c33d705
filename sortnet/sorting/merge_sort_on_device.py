"""Merge sort of all queries at once, in tensors that stay on the comparator's device.

`sortnet.comparators.make` chooses the device of a comparator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators.base import to_device
from sortnet.comparators.forms import OnDevice
from sortnet.core import F32, I32, I64
from sortnet.sorting.merge_sort_levels import MergeBounds, merge_bounds


def merge_sort_on_device(
    on_device: OnDevice, prepared: Any, order: I64, offsets: I64
) -> tuple[I64, I32, I32, F32]:
    """Sort as `merge_sort_levels` does, in tensors; wait for the device only once, at the end.

    A level makes as many steps as its longest merge has documents, 2n in all if the longest query
    has n documents. A merge that ends earlier still makes the remaining steps, without effect,
    since only the device knows which merges have ended.

    Args:
        on_device: the function that computes margins on the device.
        prepared, order, offsets: see `merge_sort_levels`.

    Returns:
        The ranking, (n_docs,), and the columns i, j and margin of all comparisons.
    """
    longest = int(np.diff(offsets).max(initial=0))
    # The order is padded, because merges that have ended read places behind the last document.
    source = to_device(np.pad(order, (0, longest)), on_device.device)
    nothing = torch.empty(0, dtype=torch.int32, device=on_device.device)
    levels: list[list[Tensor]] = [[nothing, nothing, nothing.float()]]
    width = 1
    while width < longest:
        source, *comparisons = _merge_level(
            on_device, prepared, source, len(order), merge_bounds(offsets, width)
        )
        levels.append(comparisons)
        width *= 2
    i, j, margin = (torch.cat(column) for column in zip(*levels, strict=True))
    is_compared = i >= 0  # -1 marks a step of a merge that had ended
    return (
        source[: len(order)].cpu().numpy(),
        i[is_compared].cpu().numpy(),
        j[is_compared].cpu().numpy(),
        margin[is_compared].cpu().numpy(),
    )


def _merge_level(
    on_device: OnDevice, prepared: Any, source: Tensor, n: int, bounds: MergeBounds
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Make all merges of one level of the merge sort.

    Args:
        on_device: the function that computes margins on the device.
        prepared: the prepared documents.
        source: document numbers, query by query, with padding behind the last document.
        n: the number of documents.
        bounds: the bounds of the two runs of each merge.

    Returns:
        The documents after the merges, and i, j and margin of every comparison; i and j are -1 for
        a merge that had ended.
    """
    start = to_device(bounds.start, on_device.device)
    end_a = to_device(bounds.middle, on_device.device)
    end_b = to_device(bounds.end, on_device.device)
    n_steps = int((bounds.end - bounds.start).max())
    heads, margin = _make_steps(on_device, prepared, source, n_steps, start, end_a, end_b)
    a, b = heads
    i, j = source[heads]

    # Step k of a merge fills the place start + k. A merge that has ended fills place n, behind the
    # last document.
    place = start + torch.arange(n_steps, device=on_device.device)[:, None]
    place = place.masked_fill(place >= end_b, n)
    takes_j = _takes_b(margin, a, b, end_a, end_b)
    target = source.clone()
    target[place] = torch.where(takes_j, j, i)

    has_ended = (a >= end_a) | (b >= end_b)
    compared_i = i.int().masked_fill_(has_ended, -1).flatten()
    compared_j = j.int().masked_fill_(has_ended, -1).flatten()
    return target, compared_i, compared_j, margin.flatten()


def _make_steps(
    on_device: OnDevice,
    prepared: Any,
    source: Tensor,
    n_steps: int,
    start: Tensor,
    end_a: Tensor,
    end_b: Tensor,
) -> tuple[Tensor, Tensor]:
    """Make the steps of all merges of a level; a step compares two documents of each merge.

    Args:
        on_device, prepared, source: see `_merge_level`.
        n_steps: the number of steps.
        start, end_a, end_b: (n_merges,) where the first run begins, where it ends and the second
            run begins, and where the second run ends.

    Returns:
        The places a and b of the first remaining documents of the two runs before each step,
        (2, n_steps, n_merges); and the margins of these documents, (n_steps, n_merges).
    """
    n_merges = len(start)
    a = start.clone()
    b = end_a.clone()
    heads = torch.empty((2, n_steps, n_merges), dtype=torch.int64, device=on_device.device)
    margin = torch.empty((n_steps, n_merges), device=on_device.device)
    for step in range(n_steps):
        heads[0, step] = a
        heads[1, step] = b
        margin[step] = on_device.compare(prepared, source[a], source[b])
        takes_b = _takes_b(margin[step], a, b, end_a, end_b)
        a += ~takes_b
        b += takes_b
    return heads, margin


def _takes_b(margin: Tensor, a: Tensor, b: Tensor, end_a: Tensor, end_b: Tensor) -> Tensor:
    """Mask of the merges that take the next document of their second run.

    In a tie the document of the first run goes first. When one run is used up, a merge takes the
    documents of the other run.
    """
    return ((margin < 0) | (a >= end_a)) & (b < end_b)
