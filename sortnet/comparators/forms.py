"""Forms of a comparator's margin for the sort: without torch, or without leaving the GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from sortnet.core import F32, F64

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Torch is loaded where a net needs it: learned trees rank without it.

# exp(2p) below e^175 keeps (1 + e)(1 + e'), with e = exp(2p) exp(2q), within a float64.
_LARGEST = 175.0


@dataclass(frozen=True, eq=False)
class DualUnits:
    """Margin of one layer of dual units on the CPU: w (s(p_i + q_j) - s(p_j + q_i))."""

    embed: Callable[[F32], Tensor]  # (n, d) documents -> (n, 2H) float32, p and q side by side
    w: Tensor  # (H,) float32
    units: str  # `tanh` or `sigmoid`, s

    def numbers(self, X: F32) -> tuple[F64, F64] | None:
        """Prepare documents for the compiled sort: exp(κp) | exp(κq), (n, 2H), and weights, (H,).

        None if the exponentials would leave the floating-point range, as with unscaled features.
        With e = exp(κ(p_i + q_j)) and e' = exp(κ(p_j + q_i)) a dual pair of units contributes

            tanh (κ = 2):    tanh(·) - tanh(·)' = 2 (e - e') / ((1 + e)(1 + e'))
            sigmoid (κ = 1):    σ(·) - σ(·)'    =   (e - e') / ((1 + e)(1 + e'))

        to the margin, times w_> - w_<. So a comparison needs no transcendental function.
        """
        import torch

        kappa = 2.0 if self.units == "tanh" else 1.0
        with torch.no_grad():
            embedded = self.embed(X).mul_(kappa)
            # A comparison with NaN is false.
            if embedded.numel() and not (
                embedded.min() >= -_LARGEST and embedded.max() <= _LARGEST
            ):
                return None
            e: F64 = embedded.double().exp_().numpy()
            weights: F64 = (kappa * self.w).double().numpy()
        return e, weights


@dataclass(frozen=True, eq=False)
class Score:
    """Margin τ(g_i - g_j), where τ is odd and keeps the sign: the order is the order of g."""

    scores: Callable[[F32], F64]  # (n, d) documents -> (n,), g
    tau: str  # `tanh`, `identity` or `sigmoid` (as 2σ - 1)
    of_differences: Callable[[F32], F32]  # τ

    def as_units(self) -> DualUnits | None:
        """The same margin by one dual unit with p = g and q = -g; None for the identity.

        tanh z = (tanh z - tanh(-z)) / 2 and 2σ(z) - 1 = σ(z) - σ(-z), with z = g_i - g_j.
        """
        if self.tau == "identity":
            return None

        import torch

        def embed(X: F32) -> Tensor:
            g = torch.from_numpy(self.scores(X)).float()[:, None]
            return torch.cat((g, -g), dim=1)

        w = 0.5 if self.tau == "tanh" else 1.0
        return DualUnits(embed, torch.tensor([w]), self.tau)


Form: TypeAlias = DualUnits | Score


@dataclass(frozen=True, eq=False)
class OnDevice:
    """The margins of prepared documents, as tensors that stay on the comparator's device."""

    device: torch.device  # of all tensors
    # prepared documents, (m,), (m,) their numbers -> (m,) margins
    compare: Callable[[Any, Tensor, Tensor], Tensor]


def joined(forms: Sequence[Form | None]) -> Form | None:
    """Join forms to a form whose margin is the sum of their margins; None if that is impossible.

    Differences of scores add up to a difference of the summed scores. A sum of their tanh is a sum
    over dual units instead.
    """
    if len(forms) == 1:
        return forms[0]
    scores = [form for form in forms if isinstance(form, Score) and form.tau == "identity"]
    if len(scores) == len(forms):

        def summed_scores(X: F32) -> F64:
            # In float64 the sum of a few float32 is exact but for extremes, so that only documents
            # with equal scores tie.
            g: F64 = np.sum([score.scores(X) for score in scores], axis=0)
            return g

        return Score(summed_scores, "identity", scores[0].of_differences)
    units = [form.as_units() if isinstance(form, Score) else form for form in forms]
    layers = [layer for layer in units if layer is not None]
    if len(layers) < len(forms) or len({layer.units for layer in layers}) > 1:
        return None

    import torch

    def side_by_side(X: F32) -> Tensor:
        p, q = zip(*(layer.embed(X).chunk(2, dim=1) for layer in layers), strict=True)
        return torch.cat((*p, *q), dim=1)

    return DualUnits(side_by_side, torch.cat([layer.w for layer in layers]), layers[0].units)
