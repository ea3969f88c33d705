"""Base of the neural comparators: torch modules that embed documents, then compare them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from sortnet.comparators.forms import Form, OnDevice
from sortnet.core import F32, F64
from sortnet.core.memory import refuse_too_large
from sortnet.errors import ComparatorError
from sortnet.threads import one_thread_an_operation, threads_set_aside, use_set_threads

use_set_threads()

Margin: TypeAlias = Callable[[Tensor, Tensor], Tensor]
Numbers: TypeAlias = NDArray[np.integer[Any]]  # of documents

# Products of more rows are divided into such blocks, each of which one thread works out.
_FEW_ROWS, _BLOCK = 1 << 12, 1 << 10
# A BLAS sums some rows in another order, so that a document would differ from its twin, unless the
# columns are a multiple of this.
_COLUMNS = 4
# Multiplications of an operation below which its threads wait for each other rather than work: on
# a busy machine a product of a few microseconds takes them a hundred milliseconds.
_ONE_THREAD = 1 << 22


def sigmoid(z: Tensor) -> Tensor:
    """σ(z) by tanh: torch's own rounds the last few numbers that a thread takes differently."""
    return (torch.tanh(z / 2) + 1) / 2


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": sigmoid,
    "relu": torch.relu,
}


class NeuralComparator(nn.Module, ABC):
    """A trainable comparator: `embed` once per document, `margin` and `loss` once per pair.

    `prepare` and `prefer` are the same functions without gradients, numpy in and numpy out.
    """

    n_features: int
    generator: torch.Generator  # of dropout; training reseeds it, so that a run can be resumed

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """(n, n_features) -> (n, width)."""

    @abstractmethod
    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        """(m, width), (m, width) -> (m,) margins of i over j."""

    @abstractmethod
    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        """(m, width), (m, width) -> (m,) losses of pairs whose first document should be first."""

    def logistic_loss(
        self, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        """(n, width), (m,), (m,), (m,) -> the sum of weight * log(1 + exp(-logit)), ()."""
        losses = nn.functional.softplus(-self.logit(embedded[winner], embedded[loser]))
        return weight @ losses

    def logit(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        """(m, width), (m, width) -> (m,) margins before a function that bounds them."""
        return self.margin(e_i, e_j)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def anneal(self, share: float) -> None:
        """Called before each epoch of a training with the share of it that is done, 0 to 1."""

    def score(self, prepared: Tensor) -> Tensor | None:
        """(n, width) -> (n,) g, where the margins are an odd function of its differences."""
        return None

    @torch.no_grad()
    def scores(self, X: F32) -> F32 | None:
        """(n, n_features) scaled features -> (n,) g, where the net has a `score`."""
        g = self.score(self.prepare(X))
        return None if g is None else g.cpu().numpy()

    def feature_shares(self) -> F64 | None:
        """(n_features,) the share of all splits that each column has; None of what has no trees."""
        return None

    def votes(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        """(m, width), (m, width) -> (k, m) the margins of which `margin` is the mean."""
        return self.margin(e_i, e_j)[None]

    @property
    def members(self) -> tuple[NeuralComparator, ...]:
        """The nets of which the comparator consists: itself, or the members of a committee."""
        return (self,)

    def kernel(self) -> Form | None:
        """The form that the compiled sort takes; None if it would not give the same margins."""
        return None

    def on_device(self) -> OnDevice | None:
        """`prefer` of tensors, if the net is on a GPU and no subclass has overridden it."""
        if self.device.type == "cpu" or type(self).prefer is not NeuralComparator.prefer:
            return None
        return OnDevice(self.device, self._compare)

    def _compares_as(self, ours: type[NeuralComparator], names: Sequence[str]) -> bool:
        """Whether no subclass has overridden these, and so its margins."""
        return all(getattr(type(self), name) is getattr(ours, name) for name in names)

    @torch.no_grad()
    def verdicts(self, prepared: Tensor, i: int, j: int) -> list[dict[str, float]]:
        """The outputs for one pair by name: of each vote its margin, and what else there is."""
        votes = self.votes(prepared[[i]], prepared[[j]])
        return [{"margin": float(margin)} for margin in votes[:, 0]]

    @torch.no_grad()
    def prepare(self, X: F32) -> Tensor:
        """(n, n_features) scaled features -> (n, width) embeddings on the module's device."""
        check_features(X, self.n_features)
        was_training = self.training
        self.eval()
        with self._threads_for(len(X)):
            embedded = self.embed(torch.from_numpy(np.ascontiguousarray(X)).to(self.device))
        self.train(was_training)
        return embedded

    def prefer(self, prepared: Tensor, i: Numbers, j: Numbers) -> F32:
        """(m,) margins of prepared document i over prepared document j."""
        i_, j_ = (torch.as_tensor(k, device=prepared.device) for k in (i, j))
        out: F32 = self._compare(prepared, i_, j_).cpu().numpy()
        return out

    @torch.no_grad()
    def spread(self, prepared: Tensor, i: Numbers, j: Numbers) -> F32 | None:
        """(m,) the standard deviation of the votes; None where there is one vote."""
        votes = self.votes(prepared[i], prepared[j])
        return None if len(votes) == 1 else votes.std(dim=0, correction=0).cpu().numpy()

    @torch.no_grad()
    def _compare(self, prepared: Tensor, i: Tensor, j: Tensor) -> Tensor:
        was_training = self.training
        self.eval()
        with self._threads_for(len(i)):
            margins = self.margin(prepared[i], prepared[j])
        self.train(was_training)
        return margins

    def _threads_for(self, rows: int) -> AbstractContextManager[Any]:
        """One thread an operation for little work, else as many as are set."""
        little = rows * sum(weights.numel() for weights in self.parameters()) < _ONE_THREAD
        return one_thread_an_operation() if little else nullcontext()


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """The array there; to a GPU it is copied while the caller continues, through pinned memory."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def margin_of(comparator: Any) -> Margin:
    """(m, d), (m, d) float64 scaled documents -> (m,) margins, with gradients; on a copy.

    Raises:
        ComparatorError: if the comparator has no `embed` and `margin` of torch.
    """
    nets = []
    for member in getattr(comparator, "members", (comparator,)):
        if not (hasattr(member, "embed") and hasattr(member, "margin")):
            raise ComparatorError(
                f"{type(member).__name__} has no gradients: only a NeuralComparator or a Committee "
                "of them is explained"
            )
        # In float64 rounding stays far below the tolerance, and the caller's weights stay alone.
        nets.append(copy.deepcopy(member).cpu().double().eval().requires_grad_(False))

    def margin(x: Tensor, y: Tensor) -> Tensor:
        return torch.stack([net.margin(net.embed(x), net.embed(y)) for net in nets]).sum(0)

    return margin


def check_features(X: F32, n_features: int) -> None:
    """Refuse documents with a different number of features."""
    if X.shape[1] != n_features:
        raise ComparatorError(
            f"the comparator takes {n_features} features, the data has {X.shape[1]}"
        )


def activation(name: str, known: Sequence[str] = tuple(ACTIVATIONS)) -> Callable[[Tensor], Tensor]:
    """Look an activation function up by its name."""
    if name not in known:
        raise ComparatorError(f"unknown activation {name!r}; known are {', '.join(known)}")
    return ACTIVATIONS[name]


def initial_weights(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """(rows, columns) Glorot-uniform weights, drawn from the comparator's own generator.

    Raises:
        DataError: if they, their gradient and Adam's two moments would not fit into memory.
    """
    refuse_too_large(16 * rows * columns, f"{rows} x {columns} weights of a hidden layer")
    bound = (6.0 / (rows + columns)) ** 0.5
    return nn.Parameter((torch.rand(rows, columns, generator=generator) * 2 - 1) * bound)


def product(rows: Tensor, weights: Tensor) -> Tensor:
    """(n, d), (d, H) or (d,) -> (n, H) or (n,), by many threads where there are many documents.

    A BLAS sums in an order that depends on how it divides a product among its threads; of blocks
    each thread works out whole ones. Rows that need a gradient are multiplied in one thread. Equal
    rows have equal products with a matrix.

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
