"""DirectRanker, the transitive comparator: a score learned from differences of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement, pairwise
from math import comb

import torch
from torch import Tensor, nn

from sortnet.comparators.base import (
    ACTIVATIONS,
    NeuralComparator,
    activation,
    initial_weights,
    product,
)
from sortnet.comparators.forms import Score
from sortnet.config import hidden_sizes
from sortnet.core import F32, F64
from sortnet.core.memory import refuse_too_large
from sortnet.errors import ComparatorError

_DOCUMENTS = 4096  # documents of a batch, whose polynomial must fit into memory
# If a subclass overrides one of these methods, the compiled sort cannot replace it.
_COMPILED = ("prepare", "embed", "margin", "prefer")


def _odd_sigmoid(z: Tensor) -> Tensor:
    # 2σ(z) - 1 equals tanh(z/2), but its rounding would lose the sign of a small z.
    return torch.tanh(z / 2)


# Odd functions that keep the sign of their argument. They are named functions because pickle, which
# stores estimators, refuses lambdas.
TAUS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh, "identity": torch.positive, "sigmoid": _odd_sigmoid,
}  # fmt: skip


class DirectRanker(NeuralComparator):
    """Comparator r(x, y) = τ(w · (f(x) - f(y))): f is a net, w its output weights without a bias.

    τ is odd and keeps the sign, so the comparator is reflexive, antisymmetric and transitive, and
    |r| is a pseudometric for τ = identity. The loss of a pair whose first document should be first
    is (1 - r)^2.

    Args:
        n_features: d, of a document.
        hidden: units of each layer of f.
        units: `tanh`, `sigmoid` or `relu`, the hidden units' function.
        tau: `tanh`, `identity` or `sigmoid` (as 2σ - 1).
        dropout: share of units dropped in training.
        feature_part: f, any module (n, d) -> (n, width), in place of the layers of `hidden`.
            A model with such a part needs it again when it is loaded.
        seed: seed of the initial weights and of dropout.

    >>> import numpy as np
    >>> net = DirectRanker(2, hidden=(4, 3), seed=1)
    >>> g = net.prepare(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=np.float32))
    >>> float(net.prefer(g, [0], [2])[0])
    0.0

    Cost: one pass of f per document, O(1) per comparison.
    """

    def __init__(
        self,
        n_features: int,
        *,
        hidden: int | Sequence[int] = (20, 10),
        units: str = "tanh",
        tau: str = "tanh",
        dropout: float = 0.0,
        feature_part: nn.Module | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if tau not in TAUS:
            raise ComparatorError(f"unknown tau {tau!r}; known are {', '.join(TAUS)}")
        if not 0 <= dropout < 1:
            raise ComparatorError(f"dropout must be in [0, 1), got {dropout}")
        self.n_features = n_features
        self.hidden = hidden_sizes(hidden)
        self.units = units
        self.tau = tau
        self.dropout = dropout
        self.seed = seed
        activation(units)
        self.generator = torch.Generator().manual_seed(seed)
        self.feature_part = feature_part or Layers(
            n_features, self.hidden, units, dropout, self.generator
        )
        with torch.no_grad():
            width = int(self.feature_part(torch.zeros(2, n_features)).shape[1])
        self.w = initial_weights(width, 1, self.generator)
        self._tau = TAUS[tau]

    def embed(self, x: Tensor) -> Tensor:
        """Score g(x) = w · f(x) of each document, (n, 1)."""
        scores: Tensor = product(self.feature_part(x), self.w)
        return scores

    def score(self, prepared: Tensor) -> Tensor:
        return prepared[:, 0]

    def logit(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return e_i[:, 0] - e_j[:, 0]

    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return self._tau(self.logit(e_i, e_j))

    def kernel(self) -> Score | None:
        """Scores and the function τ of their differences, for the compiled sort."""
        if not self._compares_as(DirectRanker, _COMPILED):
            return None

        def scores(X: F32) -> F64:
            g: F64 = self.score(self.prepare(X)).cpu().double().numpy()
            return g

        def of_differences(difference: F32) -> F32:
            margin: F32 = self._tau(torch.from_numpy(difference)).numpy()
            return margin

        return Score(scores, self.tau, of_differences)

    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        return (1 - self.margin(e_winner, e_loser)) ** 2


class Layers(nn.Module):
    """Default feature part f: fully connected layers with one activation function and dropout."""

    def __init__(
        self,
        n_features: int,
        hidden: tuple[int, ...],
        units: str,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        sizes = (n_features, *hidden)
        self.weights = nn.ParameterList(
            initial_weights(n_in, n_out, generator) for n_in, n_out in pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(after)) for after in hidden)
        self.dropout = dropout
        self._s = ACTIVATIONS[units]
        self._generator = generator

    def forward(self, x: Tensor) -> Tensor:
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = self._s(product(x, weight) + bias)
            if self.training and self.dropout:
                keep = torch.rand(x.shape, generator=self._generator).to(x.device) >= self.dropout
                x = x * keep / (1 - self.dropout)
        return x


class Polynomial(nn.Module):
    """Feature part f that returns all products of 1 to `degree` of a document's d features.

    It turns (n, d) features into (n, C(d + degree, degree) - 1) products.

    Used as f of a DirectRanker, whose w has the coefficients of the polynomial (Köppel et al. 2025,
    RankNet revisited).

    >>> Polynomial(2, 2)(torch.tensor([[2.0, 3.0]])).tolist()
    [[2.0, 3.0, 4.0, 6.0, 9.0]]

    Raises:
        DataError: if the columns of a batch would not fit into memory.

    Cost: a product for each column.
    """

    factors: Tensor

    def __init__(self, n_features: int, degree: int) -> None:
        super().__init__()
        width = comb(n_features + degree, degree) - 1
        refuse_too_large(
            4 * _DOCUMENTS * width, f"a polynomial of degree {degree} in {n_features} features"
        )
        columns = range(1, n_features + 1)  # column 0 is the factor 1
        products = [
            factors + (0,) * (degree - k)
            for k in range(1, degree + 1)
            for factors in combinations_with_replacement(columns, k)
        ]
        self.register_buffer("factors", torch.tensor(products).T, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.pad(x, (1, 0), value=1.0)
        out = x[:, self.factors[0]]
        for column in self.factors[1:]:
            out = out * x[:, column]
        return out
