"""CmpNN, the neural comparator of the SortNet paper (section 2): symmetric by shared weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from sortnet.comparators.base import NeuralComparator, activation, initial_weights, product
from sortnet.comparators.forms import DualUnits
from sortnet.config import hidden_sizes
from sortnet.errors import ComparatorError

# Methods that the compiled sort replaces.
_COMPILED = ("prepare", "embed", "hidden_pair", "margin", "prefer")


class CmpNN(NeuralComparator):
    """Two outputs, "x before y" and "y before x", which are swapped when x and y are.

    Hidden units come in dual pairs (i, i') that share their weights crosswise, so with

        p = V_x x + b,   q = V_y y
        h_i(x, y) = s(p_i(x) + q_i(y)),   h_i'(x, y) = s(p_i(y) + q_i(x)) = h_i(y, x)
        N_>(x, y) = σ(w_> h(x, y) + w_< h(y, x) + c)
        N_<(x, y) = σ(w_< h(x, y) + w_> h(y, x) + c) = N_>(y, x)

    A deeper net shares its weights in the same way, layer by layer:
    h' = s(A h(x, y) + B h(y, x) + b). The margin is the difference of the two outputs before the
    monotone σ, which has the sign of N_> - N_< and does not saturate. It is antisymmetric, but
    nothing makes it transitive.

    Args:
        n_features: d, of a document.
        hidden: dual pairs of units per layer; the paper tries 10, 20 and 30 in one layer.
        units: `tanh` or `sigmoid`, the hidden units' s.
        dropout: share of dual pairs dropped in training.
        seed: seed of the initial weights and of dropout.

    >>> import numpy as np
    >>> net = CmpNN(3, hidden=4, seed=1)
    >>> prepared = net.prepare(np.eye(3, dtype=np.float32))
    >>> bool(net.prefer(prepared, [0], [1]) == -net.prefer(prepared, [1], [0]))
    True

    Cost: O(d H) per document, O(H) per comparison (plus the deeper layers' products).
    """

    def __init__(
        self,
        n_features: int,
        *,
        hidden: int | Sequence[int] = 20,
        units: str = "tanh",
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ComparatorError(f"dropout must be in [0, 1), got {dropout}")
        self.n_features = n_features
        self.hidden = hidden_sizes(hidden)
        self.units = units
        self.dropout = dropout
        self.seed = seed
        self._s = activation(units, ("tanh", "sigmoid"))
        self.generator = torch.Generator().manual_seed(seed)
        first, last = self.hidden[0], self.hidden[-1]
        # The fan-in of a unit is both documents: 2d values.
        v_x_over_v_y = initial_weights(2 * n_features, first, self.generator).data
        v_x, v_y = v_x_over_v_y[:n_features], v_x_over_v_y[n_features:]
        # V_x | V_y in one matrix, (d, 2H): one product per document is faster for small nets.
        self.v = nn.Parameter(torch.cat((v_x, v_y), dim=1))
        self.b = nn.Parameter(torch.zeros(first))
        self.direct = nn.ParameterList()  # A of each deeper layer
        self.dual = nn.ParameterList()  # B
        self.biases = nn.ParameterList()
        for n_in, n_out in pairwise(self.hidden):
            a_over_b = initial_weights(2 * n_in, n_out, self.generator).data
            self.direct.append(nn.Parameter(a_over_b[:n_in].clone()))
            self.dual.append(nn.Parameter(a_over_b[n_in:].clone()))
            self.biases.append(nn.Parameter(torch.zeros(n_out)))
        w_gt_over_w_lt = initial_weights(2 * last, 1, self.generator).data
        self.w_gt = nn.Parameter(w_gt_over_w_lt[:last, 0].clone())
        self.w_lt = nn.Parameter(w_gt_over_w_lt[last:, 0].clone())
        self.c = nn.Parameter(torch.zeros(()))

    def embed(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, 2H): p and q side by side."""
        return product(x, self.v) + nn.functional.pad(self.b, (0, self.hidden[0]))

    def hidden_pair(self, e_i: Tensor, e_j: Tensor) -> tuple[Tensor, Tensor]:
        """(m, 2H), (m, 2H) -> h(i, j) and its dual h(j, i), each (m, H of the last layer)."""
        H = self.hidden[0]
        h = self._s(e_i[:, :H] + e_j[:, H:])
        dual = self._s(e_j[:, :H] + e_i[:, H:])
        h, dual = self._drop(h, dual)
        for A, B, b in zip(self.direct, self.dual, self.biases, strict=True):
            h, dual = (
                self._s(product(h, A) + product(dual, B) + b),
                self._s(product(dual, A) + product(h, B) + b),
            )
            h, dual = self._drop(h, dual)
        return h, dual

    def outputs(self, e_i: Tensor, e_j: Tensor) -> tuple[Tensor, Tensor]:
        """The two outputs of CmpNN for each pair (section 2 of the paper), (m,) each, in (0, 1).

            N_>(i, j) = sigmoid(w_> · h(i, j) + w_< · h(j, i) + c)
            N_<(i, j) = sigmoid(w_< · h(i, j) + w_> · h(j, i) + c)

        Swapping the documents swaps the outputs, because the weights w_> and w_< change places.

        Args:
            e_i, e_j: (m, 2H) embeddings of the pairs' documents.
        """
        h, dual = self.hidden_pair(e_i, e_j)
        gt = h @ self.w_gt + dual @ self.w_lt + self.c
        lt = dual @ self.w_gt + h @ self.w_lt + self.c
        return torch.sigmoid(gt), torch.sigmoid(lt)

    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        h, dual = self.hidden_pair(e_i, e_j)
        return product(h - dual, self.w_gt - self.w_lt)

    @torch.no_grad()
    def kernel(self) -> DualUnits | None:
        is_overridden = not self._compares_as(CmpNN, _COMPILED)
        if is_overridden or len(self.hidden) > 1 or self.device.type != "cpu":
            return None
        return DualUnits(self.prepare, self.w_gt - self.w_lt, self.units)

    @torch.no_grad()
    def verdicts(self, prepared: Tensor, i: int, j: int) -> list[dict[str, float]]:
        gt, lt = self.outputs(prepared[[i]], prepared[[j]])
        return [super().verdicts(prepared, i, j)[0] | {"N_>": float(gt), "N_<": float(lt)}]

    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        """(1 - N_>)^2 + (0 - N_<)^2, the targets [1 0] of the paper's equation 3."""
        gt, lt = self.outputs(e_winner, e_loser)
        return (1 - gt) ** 2 + lt**2

    def _drop(self, h: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        if not (self.training and self.dropout):
            return h, dual
        # A unit and its dual are dropped together, by one mask, which keeps the symmetry.
        keep = torch.rand(h.shape, generator=self.generator).to(h.device) >= self.dropout
        mask = keep / (1 - self.dropout)
        return h * mask, dual * mask
