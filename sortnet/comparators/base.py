"""Base of the neural comparators: torch modules that embed documents, then compare them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from sortnet.comparators.forms import Form, check_features
from sortnet.core import F32, F64, Array, Ints, Margin
from sortnet.core.memory import refuse_too_large
from sortnet.errors import ComparatorError
from sortnet.threads import one_thread_an_operation, use_set_threads

use_set_threads()

Numbers: TypeAlias = Ints | list[int]  # document numbers

# A BLAS (library of matrix products) sums some rows in another order unless the number of columns
# is a multiple of `_COLUMN_MULTIPLE`. Two equal documents would then get different products.
_COLUMN_MULTIPLE = 4
# Bytes for each float32 weight: the weight, its gradient, and the two moments of Adam.
_BYTES_A_WEIGHT = 16


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

    def arrays(self) -> dict[str, Array]:
        """Return the weights of the net as arrays, by name."""
        return {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}

    def load_arrays(self, arrays: Mapping[str, Array]) -> None:
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

    def verdicts(self, prepared: Tensor, i: int, j: int) -> list[dict[str, float]]:
        """Return how the net votes on two documents: a list of a single dict.

        The dict has the "margin", which is above 0 if the net ranks document i before j.

        Args:
            prepared: (n, width) embeddings of documents, see `prepare`.
            i, j: row numbers of the two documents in `prepared`.
        """
        return [{"margin": float(self.prefer(prepared, [i], [j])[0])}]

    @torch.no_grad()
    def prepare(self, X: F32) -> Tensor:
        """Embed documents with the scaled features X, (n, n_features), without dropout.

        Returns:
            (n, width) embeddings on the net's device.
        """
        check_features(X, self.n_features)
        with self._evaluating():
            return self.embed(torch.from_numpy(np.ascontiguousarray(X)).to(self.device))

    @torch.no_grad()
    def prefer(self, prepared: Tensor, i: Numbers, j: Numbers) -> F32:
        """Compute the margins (m,) of the prepared documents i over the prepared documents j."""
        with self._evaluating():
            margins = self.margin(prepared[i], prepared[j])
        numbers: F32 = margins.cpu().numpy()
        return numbers

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Compute without dropout inside a context, and in one thread.

        Small operations in several threads mostly wait for each other.
        """
        was_training = self.training
        self.eval()
        with one_thread_an_operation():
            yield
        self.train(was_training)


def check_dropout(share: float) -> None:
    """Raise ComparatorError unless the share of dropped units is from 0 to below 1."""
    if not 0 <= share < 1:
        raise ComparatorError(f"dropout must be in [0, 1), got {share}")


def dropout_factors(units: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Draw the factors of units in dropout: 0 for the given share, 1 / (1 - share) for others."""
    remains = torch.rand(units.shape, generator=generator).to(units.device) >= share
    return remains / (1 - share)


def to_device(array: Array, device: torch.device) -> Tensor:
    """Copy an array to a device; a copy to a GPU runs in the background, from pinned memory."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


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

    A BLAS (library of matrix products) sums in an order that depends on its threads, so it uses one
    thread. It also sums in different orders if the number of columns is no multiple of 4, so
    `weights` are padded with columns of zeros, and the product is returned without these columns.

    >>> product(torch.tensor([[1.0, 2.0]]), torch.eye(2)).tolist()
    [[1.0, 2.0]]
    """
    n_padding = 0 if weights.ndim == 1 else -weights.shape[1] % _COLUMN_MULTIPLE
    with one_thread_an_operation():
        if n_padding == 0:
            return rows @ weights
        return (rows @ pad(weights, (0, n_padding)))[:, :-n_padding]
