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
    check_dropout,
    dropout_factors,
    initial_weights,
    product,
)
from sortnet.comparators.forms import Score
from sortnet.config import hidden_sizes
from sortnet.core import F32, F64
from sortnet.core.memory import refuse_too_large
from sortnet.errors import ComparatorError

_BATCH_SIZE = 4096  # number of documents whose polynomial features must fit into memory together


def _odd_sigmoid(z: Tensor) -> Tensor:
    """Compute 2σ(z) - 1 as tanh(z / 2), whose rounding keeps the sign of a small z."""
    return torch.tanh(z / 2)


# Odd functions that keep the sign of their argument. They are named functions because pickle, which
# stores estimators, refuses lambdas.
TAUS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh, "identity": torch.positive, "sigmoid": _odd_sigmoid,
}  # fmt: skip


class DirectRanker(NeuralComparator):
    """Comparator r(x, y) = τ(w · (f(x) - f(y))): f is a net, w its output weights without a bias.

    The function τ is odd and keeps the sign. So the comparator is reflexive, antisymmetric and
    transitive, and |r| is a pseudometric for τ = identity. The loss of a pair whose first document
    should be first is (1 - r)^2.

    Args:
        n_features: the number d of features of a document.
        hidden: the number of units of each layer of f.
        units: `tanh`, `sigmoid` or `relu`, the function of the hidden units.
        tau: `tanh`, `identity` or `sigmoid` (2σ - 1), the function τ.
        dropout: the share of units that a training step drops, from 0 to below 1.
        feature_part: the net f, any module that turns (n, d) features into (n, width) numbers, in
            place of the layers of `hidden`. A model with such a module needs it again when it is
            loaded.
        seed: the seed of the initial weights and of dropout.

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
        """Make the feature part, unless it is given, and draw the weights of the ranking part."""
        super().__init__()
        if tau not in TAUS:
            raise ComparatorError(f"unknown tau {str(tau)!r}; known are {', '.join(TAUS)}")
        check_dropout(dropout)
        self.n_features = n_features
        self.hidden = hidden_sizes(hidden)
        self.units = units
        self.tau = tau
        self.dropout = dropout
        self.seed = seed
        activation(units)
        self.generator = torch.Generator().manual_seed(seed)
        if feature_part is None:
            feature_part = Layers(n_features, self.hidden, units, dropout, self.generator)
        self.feature_part = feature_part
        with torch.no_grad():
            width = int(self.feature_part(torch.zeros(2, n_features)).shape[1])
        self.w = initial_weights(width, 1, self.generator)
        self._tau = TAUS[tau]

    def embed(self, x: Tensor) -> Tensor:
        """Compute the score g(x) = w · f(x) of n documents, (n, d), as a column (n, 1)."""
        scores: Tensor = product(self.feature_part(x), self.w)
        return scores

    def score(self, prepared: Tensor) -> Tensor:
        return prepared[:, 0]

    def logit(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return e_i[:, 0] - e_j[:, 0]

    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        return self._tau(self.logit(e_i, e_j))

    def kernel(self) -> Score | None:
        """Describe the margin for the compiled sort by the scores g and the function τ.

        Return None for a subclass, which may compare in another way.
        """
        if type(self) is not DirectRanker:
            return None

        def scores(X: F32) -> F64:
            g: F64 = self.score(self.prepare(X)).cpu().double().numpy()
            return g

        def of_differences(differences: F32) -> F32:
            margins: F32 = self._tau(torch.from_numpy(differences)).numpy()
            return margins

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
        """Make one layer with random weights and biases 0 for each number in `hidden`."""
        super().__init__()
        sizes = (n_features, *hidden)
        self.weights = nn.ParameterList(
            initial_weights(n_in, n_out, generator) for n_in, n_out in pairwise(sizes)
        )
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(n_out)) for n_out in hidden)
        self.dropout = dropout
        self._s = ACTIVATIONS[units]
        self._generator = generator

    def forward(self, x: Tensor) -> Tensor:
        """Transform n documents, (n, d), to the outputs of the last layer, (n, width)."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = self._s(product(x, weight) + bias)
            if self.training and self.dropout:
                x = x * dropout_factors(x, self.dropout, self._generator)
        return x


class Polynomial(nn.Module):
    """Feature part f that computes all products of 1 to `degree` of a document's d features.

    It turns (n, d) features into (n, C(d + degree, degree) - 1) products. A DirectRanker with this
    f learns a polynomial, whose coefficients are its output weights w (Köppel et al. 2025, RankNet
    revisited).

    >>> Polynomial(2, 2)(torch.tensor([[2.0, 3.0]])).tolist()
    [[2.0, 3.0, 4.0, 6.0, 9.0]]

    Raises:
        DataError: if the columns of a batch would not fit into memory.

    Cost: `degree` multiplications for each product.
    """

    factors: Tensor

    def __init__(self, n_features: int, degree: int) -> None:
        """List the factors of each product; raise DataError if a batch of products is too large."""
        super().__init__()
        width = comb(n_features + degree, degree) - 1
        n_bytes = 4 * _BATCH_SIZE * width
        refuse_too_large(n_bytes, f"a polynomial of degree {degree} in {n_features} features")
        # Each product gets `degree` factors, given by their columns: column 0 is the constant 1,
        # which fills up a product of fewer features.
        columns = range(1, n_features + 1)
        products = []
        for n_factors in range(1, degree + 1):
            fill = (0,) * (degree - n_factors)
            for factors in combinations_with_replacement(columns, n_factors):
                products.append(factors + fill)
        self.register_buffer("factors", torch.tensor(products).T, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the products of n documents, (n, d), as a matrix (n, number of products)."""
        x_with_constant = nn.functional.pad(x, (1, 0), value=1.0)
        products = x_with_constant[:, self.factors[0]]
        for columns in self.factors[1:]:
            products = products * x_with_constant[:, columns]
        return products
