"""Base of the neural comparators: torch modules that embed documents, then compare them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad

from sortnet.comparators.forms import Form, OnDevice
from sortnet.core import F32, F64, Margin
from sortnet.core.memory import refuse_too_large
from sortnet.errors import ComparatorError
from sortnet.threads import one_thread_an_operation, threads_set_aside, use_set_threads

use_set_threads()

Numbers: TypeAlias = NDArray[np.integer[Any]]  # document numbers

# Products of more than `_FEW_ROWS` rows are divided into blocks of `_BLOCK` rows, so that each
# block can have a thread of its own.
_FEW_ROWS = 1 << 12
_BLOCK = 1 << 10
# A BLAS (library of matrix products) sums some rows in another order unless the number of columns
# is a multiple of `_COLUMN_MULTIPLE`. Two equal documents would then get different products.
_COLUMN_MULTIPLE = 4
# Bytes for each float32 weight: the weight, its gradient, and the two moments of Adam.
_BYTES_A_WEIGHT = 16
# An operation of fewer multiplications than `_ONE_THREAD` uses one thread. Several threads would
# mostly wait for each other: on a busy machine a product of a few microseconds would take a hundred
# milliseconds.
_ONE_THREAD = 1 << 22


def sigmoid(z: Tensor) -> Tensor:
    """Compute the logistic function, 1 / (1 + exp(-z)), as (tanh(z / 2) + 1) / 2.

    `torch.sigmoid` may round equal numbers differently, depending on their position in the tensor.
    Equal documents would then get different margins.
    """
    return (torch.tanh(z / 2) + 1) / 2


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": sigmoid,
    "relu": torch.relu,
}


class Net(nn.Module):
    """Net of torch whose weights are read and written as numpy arrays."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights of the net as arrays, by name."""
        return {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the values of arrays with the names and shapes of `arrays`."""
        self.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})


class NeuralComparator(Net, ABC):
    """Trainable comparator: `embed` runs once per document, `margin` and `loss` once per pair.

    A sort calls `prepare` and `prefer`, which are `embed` and `margin` without gradients.
    """

    n_features: int
    # The generator of the random numbers of dropout. A training seeds it again in each iteration,
    # so that a resumed run draws the same numbers.
    generator: torch.Generator

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """Embed documents, (n, n_features), as vectors, (n, width)."""

    @abstractmethod
    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        """Compute the margins (m,) of documents i over documents j from embeddings, (m, width)."""

    @abstractmethod
    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        """Compute the losses (m,) of pairs from embeddings (m, width) of winners and losers."""

    def logistic_loss(
        self, embedded: Tensor, winner: Tensor, loser: Tensor, weight: Tensor
    ) -> Tensor:
        """Sum weight * log(1 + exp(-logit)) over m pairs of documents.

        Args:
            embedded: (n, width) embeddings of documents.
            winner, loser: (m,) row numbers in `embedded`; the winner should be ranked first.
            weight: (m,) weights of the pairs.
        """
        losses = nn.functional.softplus(-self.logit(embedded[winner], embedded[loser]))
        return weight @ losses

    def logit(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        """Compute the margins (m,) before a function such as tanh bounds them."""
        return self.margin(e_i, e_j)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def score(self, prepared: Tensor) -> Tensor | None:
        """Return scores of prepared documents, (n,), that order the documents as the margins do.

        Each margin is f(s_i - s_j) with the scores s and an increasing function f, where
        f(-z) = -f(z). Return None if the comparator has no such scores.
        """
        return None

    @torch.no_grad()
    def scores(self, X: F32) -> F32 | None:
        """Compute the scores of documents, see `score`, from scaled features X, (n, n_features).

        Returns:
            (n,) scores, or None if the net has no scores.
        """
        scores = self.score(self.prepare(X))
        return None if scores is None else scores.cpu().numpy()

    def feature_shares(self) -> F64 | None:
        """Compute the share of all tree splits that use each feature; return None without trees."""
        return None

    def votes(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        """Compute margins (k, m) by each of the k heads; their mean over the heads is `margin`.

        A head is an output of the net that compares documents by itself; most nets have one head.
        """
        return self.margin(e_i, e_j)[None]

    def differentiable(self) -> Margin:
        """Return a function that computes margins and their gradients in float64, see `Margin`.

        The function computes with a copy of the weights.
        """
        # In float64 the rounding errors stay far below the tolerance of an explanation. The copy
        # leaves the caller's weights in float32.
        net = copy.deepcopy(self).cpu().double().eval().requires_grad_(False)

        def margin(x: F64, y: F64) -> tuple[F64, F64, F64]:
            """Compute the margins of documents x over y, and the gradients in x and in y."""
            first, second = (torch.from_numpy(X).requires_grad_() for X in (x, y))
            margins = net.margin(net.embed(first), net.embed(second))
            if not margins.requires_grad:  # no feature changes the margin
                return margins.numpy(), np.zeros_like(x), np.zeros_like(y)
            # A margin depends only on its own pair, so the gradient of the sum of the margins has
            # the gradients of all margins.
            d_x, d_y = torch.autograd.grad(margins.sum(), (first, second))
            return margins.detach().numpy(), d_x.numpy(), d_y.numpy()

        return margin

    @property
    def members(self) -> tuple[NeuralComparator, ...]:
        """The nets of the comparator: itself, or the members of a committee."""
        return (self,)

    def kernel(self) -> Form | None:
        """Describe the margin so that the compiled sort can compute it; None if it cannot."""
        return None

    def on_device(self) -> OnDevice | None:
        """Return a function that computes margins on the net's GPU.

        Return None for a net on the CPU, and if a subclass overrides `prefer`.
        """
        if self.device.type == "cpu" or type(self).prefer is not NeuralComparator.prefer:
            return None
        return OnDevice(self.device, self._compare)

    def _compares_as(self, base: type[NeuralComparator], names: Sequence[str]) -> bool:
        """Whether this class inherits all methods `names` from `base` and overrides none."""
        return all(getattr(type(self), name) is getattr(base, name) for name in names)

    @torch.no_grad()
    def verdicts(self, prepared: Tensor, i: int, j: int) -> list[dict[str, float]]:
        """Return how each head of the net votes on two documents: a dict for each head.

        A head is an output of the net that compares documents by itself; most nets have one head.
        The dict has the head's "margin", which is above 0 if the head ranks document i before j.

        Args:
            prepared: (n, width) embeddings of documents, see `prepare`.
            i, j: row numbers of the two documents in `prepared`.
        """
        # `votes` takes the embeddings of many pairs, (m, width), here of a single pair.
        e_i = prepared[[i]]
        e_j = prepared[[j]]
        margins = self.votes(e_i, e_j)[:, 0]
        return [{"margin": float(margin)} for margin in margins]

    @torch.no_grad()
    def prepare(self, X: F32) -> Tensor:
        """Embed documents with the scaled features X, (n, n_features), without dropout.

        Returns:
            (n, width) embeddings on the net's device.
        """
        check_features(X, self.n_features)
        was_training = self.training
        self.eval()
        with self._threads_for(len(X)):
            embedded = self.embed(torch.from_numpy(np.ascontiguousarray(X)).to(self.device))
        self.train(was_training)
        return embedded

    def prefer(self, prepared: Tensor, i: Numbers, j: Numbers) -> F32:
        """Compute the margins (m,) of the prepared documents i over the prepared documents j."""
        i_tensor = torch.as_tensor(i, device=prepared.device)
        j_tensor = torch.as_tensor(j, device=prepared.device)
        margins: F32 = self._compare(prepared, i_tensor, j_tensor).cpu().numpy()
        return margins

    @torch.no_grad()
    def spread(self, prepared: Tensor, i: Numbers, j: Numbers) -> F32 | None:
        """Compute the standard deviation of the votes about each pair, (m,).

        Return None if the comparator has a single vote.
        """
        votes = self.votes(prepared[i], prepared[j])
        return None if len(votes) == 1 else votes.std(dim=0, correction=0).cpu().numpy()

    @torch.no_grad()
    def _compare(self, prepared: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """Compute the margins (m,) of prepared documents i over j, as a tensor, without dropout."""
        was_training = self.training
        self.eval()
        with self._threads_for(len(i)):
            margins = self.margin(prepared[i], prepared[j])
        self.train(was_training)
        return margins

    def _threads_for(self, rows: int) -> AbstractContextManager[Any]:
        """Return a context in which torch uses one thread if the work on `rows` rows is little."""
        n_multiplications = rows * sum(weights.numel() for weights in self.parameters())
        return one_thread_an_operation() if n_multiplications < _ONE_THREAD else nullcontext()


def to_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to a device; a copy to a GPU runs in the background, from pinned memory."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def check_features(X: F32, n_features: int) -> None:
    """Raise ComparatorError unless the documents X, (n, d), have `n_features` features."""
    if X.shape[1] != n_features:
        raise ComparatorError(
            f"the comparator takes {n_features} features, the data has {X.shape[1]}"
        )


def activation(name: str, names: Sequence[str] = tuple(ACTIVATIONS)) -> Callable[[Tensor], Tensor]:
    """Look up an activation function by its name.

    Raises:
        ComparatorError: if the name is not in `names`.
    """
    if name not in names:
        raise ComparatorError(f"unknown activation {name!r}; known are {', '.join(names)}")
    return ACTIVATIONS[name]


def initial_weights(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """Draw (rows, columns) weights from the uniform distribution of Glorot and Bengio (2010).

    The weights lie between ± sqrt(6 / (rows + columns)).

    Raises:
        DataError: if the weights, their gradient and Adam's two moments do not fit into memory.
    """
    n_bytes = _BYTES_A_WEIGHT * rows * columns
    refuse_too_large(n_bytes, f"{rows} x {columns} weights of a hidden layer")
    bound = (6.0 / (rows + columns)) ** 0.5
    return nn.Parameter((torch.rand(rows, columns, generator=generator) * 2 - 1) * bound)


def product(rows: Tensor, weights: Tensor) -> Tensor:
    """Multiply documents, (n, d), with weights, (d, H) or (d,); equal rows get equal products.

    Several threads share the work if there are many documents. A BLAS (library of matrix products)
    sums in an order that depends on how it divides a product among its threads, so each thread gets
    whole blocks of rows. Rows that need a gradient, and products with a vector, use one thread. A
    BLAS also sums in different orders if the number of columns is no multiple of 4, so `weights`
    are padded with columns of zeros, and the product is returned without these columns.

    >>> product(torch.tensor([[1.0, 2.0]]), torch.eye(2)).tolist()
    [[1.0, 2.0]]

    Cost: the multiplications; for the gradient a (d, H) matrix for each 1,024 rows.
    """
    is_vector = weights.ndim == 1
    n_padding = 0 if is_vector else -weights.shape[1] % _COLUMN_MULTIPLE
    if n_padding:
        padded_weights = pad(weights, (0, n_padding))
        return product(rows, padded_weights)[:, :-n_padding]
    needs_blocks = len(rows) > _FEW_ROWS and not rows.is_cuda
    if needs_blocks and not rows.requires_grad and not is_vector:
        return _InBlocks.apply(rows, weights)  # type: ignore[no-any-return,no-untyped-call]
    with one_thread_an_operation():
        return rows @ weights


class _InBlocks(torch.autograd.Function):
    """Blockwise product of many documents with weights; the documents need no gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weights: Tensor) -> Tensor:
        """Multiply documents, (n, d), with weights, (d, H), in blocks of 1,024 documents."""
        ctx.save_for_backward(rows)
        out = rows.new_empty(len(rows), weights.shape[1])
        blocks, _ = _blocks_of(rows)
        n_in_blocks = len(blocks) * _BLOCK
        out_of_blocks = out[:n_in_blocks].view(len(blocks), _BLOCK, -1)
        weights_of_blocks = weights.expand(len(blocks), *weights.shape)
        with threads_set_aside():
            torch.bmm(blocks, weights_of_blocks, out=out_of_blocks)
        # A product of fewer rows may be rounded in another way, and equal documents would get
        # different products. So the last `_BLOCK` rows are computed as a block, too, although some
        # of them are in the block before.
        with one_thread_an_operation():
            torch.bmm(rows[None, -_BLOCK:], weights[None], out=out[None, -_BLOCK:])
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute the gradient in the weights, (d, H), as a sum over the blocks of documents."""
        (rows,) = ctx.saved_tensors
        blocks, last_rows = _blocks_of(rows)
        d_blocks, d_last_rows = _blocks_of(grads[0])  # gradients in the products
        with threads_set_aside():
            d_weights = torch.bmm(blocks.transpose(1, 2), d_blocks)
        with one_thread_an_operation():
            return None, d_weights.sum(0) + last_rows.T @ d_last_rows


def _blocks_of(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Divide rows into whole blocks, (n, _BLOCK, d), and the rows after the last whole block."""
    n_in_blocks = len(rows) // _BLOCK * _BLOCK
    blocks = rows[:n_in_blocks].reshape(-1, _BLOCK, rows.shape[1])
    return blocks, rows[n_in_blocks:]
