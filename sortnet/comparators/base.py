"""What the neural comparators share: torch modules that embed documents, then compare."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sortnet.data.free import refuse_too_large
from sortnet.errors import ComparatorError
from sortnet.types import F32

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}


class NeuralComparator(nn.Module, ABC):
    """A comparator that is trained: `embed` once a document, `margin` and `loss` once a pair.

    `prepare` and `prefer` are the same functions without gradients, numpy in and numpy out.
    """

    n_features: int
    generator: torch.Generator  # of dropout; `fit` seeds it anew, so that a run can be resumed

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """(n, n_features) -> (n, width)."""

    @abstractmethod
    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        """(m, width), (m, width) -> (m,) margins of i over j."""

    @abstractmethod
    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        """(m, width), (m, width) -> (m,) losses of pairs whose first document belongs first."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What the constructor needs to build the same architecture again, as JSON."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @torch.no_grad()
    def prepare(self, X: F32) -> Tensor:
        """(n, n_features) scaled features -> (n, width) embeddings on the module's device."""
        if X.shape[1] != self.n_features:
            raise ComparatorError(
                f"the comparator takes {self.n_features} features, the data has {X.shape[1]}"
            )
        was_training = self.training
        self.eval()
        embedded = self.embed(torch.from_numpy(np.ascontiguousarray(X)).to(self.device))
        self.train(was_training)
        return embedded

    @torch.no_grad()
    def prefer(
        self, prepared: Tensor, i: NDArray[np.integer[Any]], j: NDArray[np.integer[Any]]
    ) -> F32:
        """(m,) margins of prepared document i over prepared document j."""
        was_training = self.training
        self.eval()
        i_, j_ = (torch.as_tensor(k, device=prepared.device) for k in (i, j))
        margins = self.margin(prepared[i_], prepared[j_])
        self.train(was_training)
        out: F32 = margins.cpu().numpy()
        return out


def hidden_sizes(hidden: int | Sequence[int]) -> tuple[int, ...]:
    """Check the sizes of hidden layers: 20 or (32, 20, 5)."""
    sizes = (hidden,) if isinstance(hidden, (int, np.integer)) else tuple(hidden)
    if not sizes or any(not isinstance(h, (int, np.integer)) or h < 1 for h in sizes):
        raise ComparatorError(f"hidden must be whole numbers from 1, got {hidden!r}")
    return tuple(int(h) for h in sizes)


def activation(name: str, known: Sequence[str] = tuple(ACTIVATIONS)) -> Callable[[Tensor], Tensor]:
    """Look an activation function up by its name."""
    if name not in known:
        raise ComparatorError(f"unknown activation {name!r}; known are {', '.join(known)}")
    return ACTIVATIONS[name]


def initial_weights(rows: int, columns: int, generator: torch.Generator) -> nn.Parameter:
    """(rows, columns) Glorot-uniform weights, drawn from the comparator's own generator.

    Raises:
        DataError: where they, their gradient and Adam's two moments would not fit into memory.
    """
    refuse_too_large(16 * rows * columns, f"{rows} x {columns} weights of a hidden layer")
    bound = (6.0 / (rows + columns)) ** 0.5
    return nn.Parameter((torch.rand(rows, columns, generator=generator) * 2 - 1) * bound)
