"""Merge sort of all queries at once in tensors that stay on a comparator's device.

`sortnet.comparators.make` decides the device.
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
    there: OnDevice, prepared: Any, order: I64, offsets: I64
) -> tuple[I64, I32, I32, F32]:
    """As `merge_sort_levels`; the device is waited for once, after the last level.

    A level takes as many steps as its longest merge has documents, 2n in all for a longest query
    of n, and merges that end earlier take part in vain: how many are left only the device knows.
    """
    longest = int(np.diff(offsets).max(initial=0))
    # Merges that have ended read what is behind the last document.
    source = to_device(np.pad(order, (0, longest)), there.device)
    nothing = torch.empty(0, dtype=torch.int32, device=there.device)
    levels: list[list[Tensor]] = [[nothing, nothing, nothing.float()]]
    width = 1
    while width < longest:
        source, *made = _merge_level(there, prepared, source, len(order), *runs(offsets, width))
        levels.append(made)
        width *= 2
    i, j, margin = (torch.cat(parts) for parts in zip(*levels, strict=True))
    compared = i >= 0
    made_i, made_j, margins = (each[compared].cpu().numpy() for each in (i, j, margin))
    return source[: len(order)].cpu().numpy(), made_i, made_j, margins


def _merge_level(
    there: OnDevice, prepared: Any, source: Tensor, n: int, *bounds: I64
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The merged documents and what every step compared, -1 where a merge had ended."""
    left, middle, right = (to_device(each, there.device) for each in bounds)
    steps = int((bounds[2] - bounds[0]).max())
    a, b = left.clone(), middle.clone()
    at = torch.empty((2, steps, len(left)), dtype=torch.int64, device=there.device)
    margin = torch.empty((steps, len(left)), device=there.device)
    for step in range(steps):
        at[0, step], at[1, step] = a, b
        margin[step] = there.compare(prepared, source[a], source[b])
        second = _second_next(margin[step], a, b, middle, right)
        a += ~second
        b += second
    i, j = source[at]
    out = left + torch.arange(steps, device=there.device)[:, None]
    target = source.clone()  # of n documents, and room for what ended merges write
    target[out.masked_fill(out >= right, n)] = torch.where(
        _second_next(margin, at[0], at[1], middle, right), j, i
    )
    ended = (at[0] >= middle) | (at[1] >= right)
    made = (each.int().masked_fill_(ended, -1).flatten() for each in (i, j))
    return target, *made, margin.flatten()


def _second_next(margin: Tensor, a: Tensor, b: Tensor, middle: Tensor, right: Tensor) -> Tensor:
    """Whether the second run's head is the next one; ties keep the first one first."""
    return ((margin < 0) | (a >= middle)) & (b < right)
