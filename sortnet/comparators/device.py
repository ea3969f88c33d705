"""Choice of the device, CPU or GPU, on which a comparator's weights are created."""

from __future__ import annotations

import torch

from sortnet.errors import ComparatorError


def resolve_device(name: str) -> torch.device:
    """Look up a torch device by name; `auto` is the GPU if there is one, else the CPU.

    Raises:
        ComparatorError: if `cuda` is asked for and torch sees no GPU.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ComparatorError("device cuda was asked for, but torch sees no GPU here; use cpu")
    return torch.device(name)
