"""The compiled sort for comparators that are dual units or have a score, one query per task."""

from __future__ import annotations

import math

import numpy as np
import torch
from numba import njit, prange

from sortnet.comparators import DualUnits, Form, Score
from sortnet.threads import in_threads
from sortnet.types import F32, F64, I32, I64

# exp(2p) below e^175 keeps (1 + e)(1 + e'), with e = exp(2p) exp(2q), within a float64.
_LARGEST = 175.0
_LINEAR, _MISSING = 1024.0, 2048.0


def in_numbers(form: Form, X: F32) -> tuple[F64, F64] | None:
    """Prepare documents for the kernel: see `exponentials`, or scores, (n,), and no weights.

    In float64 a difference of two float32 scores rounds to the one that float32 would give.
    """
    if isinstance(form, DualUnits):
        return exponentials(form, X)
    return form.embed(X)[:, 0].cpu().double().numpy(), np.empty(0)


def finish(form: Form, margin: F32) -> F32:
    """The margins, from what the kernel wrote: of scores, the differences."""
    if isinstance(form, Score):
        margin = form.of_differences(torch.from_numpy(margin)).numpy()
    return margin


@torch.no_grad()
def exponentials(layer: DualUnits, X: F32) -> tuple[F64, F64] | None:
    """Prepare documents for the kernel: exp(κp) | exp(κq), (n, 2H), and weights, (H,).

    None if these would leave the floating-point range, which unscaled features can do.

    With e = exp(κ(p_i + q_j)) and e' = exp(κ(p_j + q_i)) a dual pair of units contributes

        tanh (κ = 2):    tanh(·) - tanh(·)' = 2 (e - e') / ((1 + e)(1 + e'))
        sigmoid (κ = 1):    σ(·) - σ(·)'    =   (e - e') / ((1 + e)(1 + e'))

    to the margin, times w_> - w_<: no transcendental function is left for the comparisons.
    """
    kappa = 2.0 if layer.units == "tanh" else 1.0
    embedded = layer.embed(X).mul_(kappa)
    if embedded.numel() and not (embedded.min() >= -_LARGEST and embedded.max() <= _LARGEST):
        return None
    e: F64 = embedded.double().exp_().numpy()
    weights: F64 = (kappa * layer.w).double().numpy()
    return e, weights


# reassoc lets the sum over units be vectorised; nothing else may be allowed: a fused
# multiply-add in a*b - c*d would make a document differ from its twin.
@njit(fastmath={"reassoc"})
def _margin(E, w, i, j):  # type: ignore[no-untyped-def]
    if E.ndim == 1:  # decided when it is compiled: each form has a margin of its own
        return E[i] - E[j]
    total = 0.0
    H = w.shape[0]
    for h in range(H):
        e = E[i, h] * E[j, H + h]
        dual = E[j, h] * E[i, H + h]
        total += w[h] * (e - dual) / ((1.0 + e) * (1.0 + dual))
    return total


@in_threads
def merge_sort(
    E: F64,
    w: F64,
    order: I64,
    offsets: I64,
    room: I64,
    out_i: I32,
    out_j: I32,
    out_margin: F32,
) -> I64:
    """Sort `order` within each query in place, best first; returns each query's comparisons.

    Args:
        E, w: what `in_numbers` returns.
        order: (n,) document numbers in the arrangement to start from.
        offsets: (n_queries + 1,) of the queries in `order`.
        room: (n_queries + 1,) where each query may write its comparisons.
        out_i, out_j, out_margin: (room[-1],) the comparisons made.
    """
    n_queries = offsets.shape[0] - 1
    made = np.zeros(n_queries, np.int64)
    for query in prange(n_queries):
        begin, end = offsets[query], offsets[query + 1]
        source = order[begin:end].copy()
        target = np.empty_like(source)
        n = end - begin
        at = room[query]
        width = 1
        while width < n:
            for left in range(0, n, 2 * width):
                middle, right = min(left + width, n), min(left + 2 * width, n)
                a, b, out = left, middle, left
                while a < middle and b < right:
                    i, j = source[a], source[b]
                    margin = _margin(E, w, i, j)
                    out_i[at], out_j[at], out_margin[at] = i, j, margin
                    at += 1
                    # Ties keep the first one first; the caller checks for NaN.
                    if margin < 0.0:
                        target[out] = j
                        b += 1
                    else:
                        target[out] = i
                        a += 1
                    out += 1
                while a < middle:
                    target[out] = source[a]
                    a += 1
                    out += 1
                while b < right:
                    target[out] = source[b]
                    b += 1
                    out += 1
            source, target = target, source
            width *= 2
        order[begin:end] = source
        made[query] = at - room[query]
    return made


@in_threads
def project(X: F32, direction: F64, out: F64) -> None:
    """The product of every row with one direction, independent of the row's position.

    A BLAS sums a row's products in a different order at the edge of a block. A large value counts
    by its logarithm, so that it hides no other column's; a missing one is above all.
    """
    for row in prange(X.shape[0]):
        total = 0.0
        for column in range(X.shape[1]):
            x = float(X[row, column])
            if np.isnan(x):
                x = _MISSING
            elif abs(x) > _LINEAR:
                x = math.copysign(_LINEAR + math.log(abs(x) / _LINEAR), x)
            total += x * direction[column]
        out[row] = total


@in_threads
def arrange(key: F64, offsets: I64, order: I64) -> None:
    """The documents of every query by their keys; of equal ones the first row is the first."""
    for query in prange(offsets.shape[0] - 1):
        begin, end = offsets[query], offsets[query + 1]
        order[begin:end] = begin + np.argsort(key[begin:end], kind="mergesort")


@in_threads
def pack(
    room: I64, used: I64, shift: int, i: I32, j: I32, margin: F32, to_i: I32, to_j: I32, to_m: F32
) -> None:
    """Copy each query's comparisons from its room to `used`, documents shifted."""
    for query in prange(used.shape[0] - 1):
        at, out = room[query], used[query]
        for k in range(used[query + 1] - out):
            to_i[out + k] = i[at + k] + shift
            to_j[out + k] = j[at + k] + shift
            to_m[out + k] = margin[at + k]
