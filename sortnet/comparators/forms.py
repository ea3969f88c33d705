"""What a comparator offers to the sort: its margin without torch, or without leaving the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from sortnet.core import F32

Embed: TypeAlias = Callable[[F32], Tensor]  # of (n, d) documents


@dataclass(frozen=True, eq=False)
class DualUnits:
    """One layer of dual units on the CPU: margin(i, j) = w (s(p_i + q_j) - s(p_j + q_i))."""

    embed: Embed  # (n, d) documents -> (n, 2H) float32, p and q side by side
    w: Tensor  # (H,) float32
    units: str  # `tanh` or `sigmoid`, s


@dataclass(frozen=True, eq=False)
class Score:
    """margin(i, j) = τ(g_i - g_j), with τ odd and sign-preserving: the order is that of g."""

    embed: Embed  # (n, d) documents -> (n, 1), g
    tau: str  # `tanh`, `identity` or `sigmoid` (as 2σ - 1)
    of_differences: Callable[[Tensor], Tensor]  # τ, of a tensor

    def as_units(self) -> DualUnits | None:
        """The same margin of one dual unit, p = g and q = -g; None for the identity.

        tanh z = (tanh z - tanh(-z)) / 2 and 2σ(z) - 1 = σ(z) - σ(-z), with z = g_i - g_j.
        """
        if self.tau == "identity":
            return None

        def both(X: F32) -> Tensor:
            g = self.embed(X).cpu()
            return torch.cat((g, -g), dim=1)

        return DualUnits(both, torch.tensor([0.5 if self.tau == "tanh" else 1.0]), self.tau)


Form: TypeAlias = DualUnits | Score


@dataclass(frozen=True, eq=False)
class OnDevice:
    """The margins of prepared documents, as tensors that stay on the comparator's device."""

    device: torch.device  # of all tensors
    # prepared documents, (m,), (m,) their numbers -> (m,) margins
    compare: Callable[[Any, Tensor, Tensor], Tensor]


def joined(forms: Sequence[Form | None]) -> Form | None:
    """The form whose margin is the sum of the forms' margins; None if there is none.

    Differences of scores add up to one of the summed scores. A sum of their tanh is that of no
    score, but one of dual units.
    """
    if len(forms) == 1:
        return forms[0]
    scores = [form for form in forms if isinstance(form, Score) and form.tau == "identity"]
    if len(scores) == len(forms):
        embeds = [score.embed for score in scores]

        def total(X: F32) -> Tensor:
            # In float64, in which the sums of a few float32 are exact but for extremes: documents
            # whose scores are equal tie, and no others.
            return torch.stack([embed(X).double() for embed in embeds]).sum(0)

        return Score(total, "identity", scores[0].of_differences)
    units = [form.as_units() if isinstance(form, Score) else form for form in forms]
    layers = [layer for layer in units if layer is not None]
    if len(layers) < len(forms) or len({layer.units for layer in layers}) > 1:
        return None

    def side_by_side(X: F32) -> Tensor:
        p, q = zip(*(layer.embed(X).chunk(2, dim=1) for layer in layers), strict=True)
        return torch.cat((*p, *q), dim=1)

    return DualUnits(side_by_side, torch.cat([layer.w for layer in layers]), layers[0].units)
