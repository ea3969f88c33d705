"""A polynomial as the feature part of a DirectRanker, in place of a net.

Whatever f is, r(x, y) = τ(w · (f(x) - f(y))) is a total quasiorder (Köppel et al. 2025, RankNet
revisited), and w the coefficients of the polynomial.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import torch
from torch import Tensor, nn

from sortnet.types.memory import refuse_too_large

_DOCUMENTS = 4096  # of a batch, whose columns must fit into memory


class Polynomial(nn.Module):
    """All products of 1 to `degree` features: (n, d) -> (n, C(d + degree, degree) - 1).

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
        numbers = range(1, n_features + 1)  # 0 is a factor of 1
        products = [
            chosen + (0,) * (degree - k)
            for k in range(1, degree + 1)
            for chosen in combinations_with_replacement(numbers, k)
        ]
        self.register_buffer("factors", torch.tensor(products).T, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.pad(x, (1, 0), value=1.0)
        out = x[:, self.factors[0]]
        for column in self.factors[1:]:
            out = out * x[:, column]
        return out
