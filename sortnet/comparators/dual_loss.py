"""The logistic loss of pairs under one layer of dual units, compiled with its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from sortnet.types import F64, I64

# exp(2p) below e^175 keeps 1 + exp(2p) exp(2q) within a float64; tanh has long been 1 there.
_LARGEST = 175.0


class DualLogisticLoss(torch.autograd.Function):
    """sum of weight * log(1 + exp(-margin)) over pairs, as CmpNN's margin has it for tanh units.

    With e = exp(2p) exp(2q) a unit is tanh(p + q) = 1 - 2 / (1 + e): exponentials are computed once
    a document, and no transcendental function is left for the units of a pair. The gradients are
    found in the same pass: about four times faster than torch's operations on mini-batches.
    """

    @staticmethod
    def forward(
        ctx: Any, embedded: Tensor, w: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        """(n, 2H) p | q, (H,) w_> - w_<, (m,) document numbers and weights -> the loss, ()."""
        E = embedded.double().mul_(2).clamp_(-_LARGEST, _LARGEST).exp_().numpy()
        d_embedded, d_w = np.zeros_like(E), np.zeros(len(w))
        total = _loss(
            E, w.double().numpy(), winner.numpy(), loser.numpy(), weight.double().numpy(),
            d_embedded, d_w,
        )  # fmt: skip
        ctx.gradients = [torch.from_numpy(g).to(w.dtype) for g in (d_embedded, d_w)]
        return torch.tensor(total, dtype=w.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        d_embedded, d_w = ctx.gradients
        return grads[0] * d_embedded, grads[0] * d_w, None, None, None


# Sums may be reordered to be vectorised; NaN must stay NaN, which ends the training.
@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp"})
def _loss(E: F64, w: F64, winner: I64, loser: I64, weight: F64, d_embedded: F64, d_w: F64) -> float:
    H = w.shape[0]
    h = np.empty(2 * H)  # the units, then their duals
    total = 0.0
    for k in range(len(winner)):
        i, j = winner[k], loser[k]
        Ei, Ej, di, dj = E[i], E[j], d_embedded[i], d_embedded[j]
        margin = 0.0
        for u in range(H):
            h[u] = 1.0 - 2.0 / (1.0 + Ei[u] * Ej[H + u])
            h[H + u] = 1.0 - 2.0 / (1.0 + Ej[u] * Ei[H + u])
        for u in range(H):
            margin += w[u] * (h[u] - h[H + u])
        e = np.exp(-abs(margin))
        total += weight[k] * (max(-margin, 0.0) + np.log1p(e))
        g = -weight[k] * (e if margin > 0.0 else 1.0) / (1.0 + e)
        for u in range(H):
            d_w[u] += g * (h[u] - h[H + u])
            direct = g * w[u] * (1.0 - h[u] * h[u])
            dual = g * w[u] * (1.0 - h[H + u] * h[H + u])
            di[u] += direct
            di[H + u] -= dual
            dj[H + u] += direct
            dj[u] -= dual
    return total
