"""Products and functions of torch that any number of threads rounds alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from sortnet.threads import one_thread_an_operation, threads_set_aside

# Products of more rows are divided into such blocks, each of which one thread works out.
_FEW_ROWS, _BLOCK = 1 << 12, 1 << 10
# Products are of a multiple of that number of columns: of others a BLAS sums some rows in another
# order, and a document would differ from its twin.
_COLUMNS = 4


def product(rows: Tensor, weights: Tensor) -> Tensor:
    """(n, d), (d, H) or (d,) -> (n, H) or (n,), by many threads where there are many documents.

    A BLAS divides a product among its threads, and sums in an order that depends on how; of blocks
    each thread works out whole ones. Rows that need a gradient, the units of a layer before, are
    multiplied in one thread. Equal rows have equal products with a matrix.

    >>> product(torch.tensor([[1.0, 2.0]]), torch.eye(2)).tolist()
    [[1.0, 2.0]]

    Cost: that of the product; for its gradient a (d, H) matrix for each 1,024 rows.
    """
    one_column = weights.ndim == 1
    if not one_column and (missing := -weights.shape[1] % _COLUMNS):
        return product(rows, pad(weights, (0, missing)))[:, :-missing]
    if rows.is_cuda or len(rows) <= _FEW_ROWS or rows.requires_grad or one_column:
        with one_thread_an_operation():
            return rows @ weights
    return _InBlocks.apply(rows, weights)  # type: ignore[no-any-return,no-untyped-call]


class _InBlocks(torch.autograd.Function):
    """The product of many documents, which need no gradient, with weights."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        whole, blocks, _ = _blocks_of(rows)
        out = rows.new_empty(len(rows), weights.shape[1])
        with threads_set_aside():
            each = weights.expand(len(blocks), *weights.shape)
            torch.bmm(blocks, each, out=out[:whole].view(len(blocks), _BLOCK, -1))
        # The last rows as a block that begins within the one before: of fewer rows a product may
        # be rounded in another way, and a document would differ from its twin.
        with one_thread_an_operation():
            torch.bmm(rows[None, -_BLOCK:], weights[None], out=out[None, -_BLOCK:])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (rows,) = ctx.saved_tensors
        _, blocks, rest = _blocks_of(rows)
        _, d_blocks, d_rest = _blocks_of(grads[0])
        with threads_set_aside():
            each = torch.bmm(blocks.transpose(1, 2), d_blocks)
        with one_thread_an_operation():
            return None, each.sum(0) + rest.T @ d_rest


def _blocks_of(rows: Tensor) -> tuple[int, Tensor, Tensor]:
    whole = len(rows) // _BLOCK * _BLOCK
    return whole, rows[:whole].reshape(-1, _BLOCK, rows.shape[1]), rows[whole:]


def sigmoid(z: Tensor) -> Tensor:
    """σ(z) by tanh: torch's own rounds the last few numbers that a thread takes differently."""
    return (torch.tanh(z / 2) + 1) / 2
