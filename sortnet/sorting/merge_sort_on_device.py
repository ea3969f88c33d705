"""Merge sort of all queries at once, in tensors that stay on the comparator's device.

`sortnet.comparators.device` decides the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators.base import to_device
from sortnet.comparators.forms import OnDevice
from sortnet.core import F32, I32, I64
from sortnet.sorting.merge_sort_levels import runs


def merge_sort_on_device(
    on_device: OnDevice, prepared: Any, order: I64, offsets: I64
) -> tuple[I64, I32, I32, F32]:
    """Sort as `merge_sort_levels` does, in tensors; wait for the device only once, at the end.

    A level takes as many steps as its longest merge has documents, 2n in all for a longest query
    of n. Merges that end earlier take part in the remaining steps in vain, since only the device
    knows which merges have ended.
    """
    longest = int(np.diff(offsets).max(initial=0))
    # Merges that have ended still read, behind the last document, so the order is padded.
    source = to_device(np.pad(order, (0, longest)), on_device.device)
    nothing = torch.empty(0, dtype=torch.int32, device=on_device.device)
    levels: list[list[Tensor]] = [[nothing, nothing, nothing.float()]]
    width = 1
    while width < longest:
        source, *comparisons = _merge_level(
            on_device, prepared, source, len(order), *runs(offsets, width)
        )
        levels.append(comparisons)
        width *= 2
    i, j, margin = (torch.cat(column) for column in zip(*levels, strict=True))
    is_compared = i >= 0
    return (
        source[: len(order)].cpu().numpy(),
        i[is_compared].cpu().numpy(),
        j[is_compared].cpu().numpy(),
        margin[is_compared].cpu().numpy(),
    )


def _merge_level(
    on_device: OnDevice, prepared: Any, source: Tensor, n: int, *bounds: I64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Merge the runs of a level, whose `bounds` are those that `runs` returns.

    Returns:
        The merged documents, and of every comparison i, j, -1 where a merge had ended, and the
        margin.
    """
    start, end_a, end_b = (to_device(bound, on_device.device) for bound in bounds)
    n_steps = int((bounds[2] - bounds[0]).max())
    a, b = start.clone(), end_a.clone()  # the heads of the two runs of each merge
    heads = torch.empty((2, n_steps, len(start)), dtype=torch.int64, device=on_device.device)
    margin = torch.empty((n_steps, len(start)), device=on_device.device)
    for step in range(n_steps):
        heads[0, step] = a
        heads[1, step] = b
        margin[step] = on_device.compare(prepared, source[a], source[b])
        takes_b = _takes_b(margin[step], a, b, end_a, end_b)
        a += ~takes_b
        b += takes_b
    i, j = source[heads]
    place = start + torch.arange(n_steps, device=on_device.device)[:, None]
    target = source.clone()  # n documents, and room behind them that ended merges write to
    target[place.masked_fill(place >= end_b, n)] = torch.where(
        _takes_b(margin, heads[0], heads[1], end_a, end_b), j, i
    )
    has_ended = (heads[0] >= end_a) | (heads[1] >= end_b)
    compared_i = i.int().masked_fill_(has_ended, -1).flatten()
    compared_j = j.int().masked_fill_(has_ended, -1).flatten()
    return target, compared_i, compared_j, margin.flatten()


def _takes_b(margin: Tensor, a: Tensor, b: Tensor, end_a: Tensor, end_b: Tensor) -> Tensor:
    """Whether each merge takes the head of its second run next; a tie takes the first run's."""
    return ((margin < 0) | (a >= end_a)) & (b < end_b)
