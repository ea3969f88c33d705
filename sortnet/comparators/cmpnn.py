"""CmpNN, the neural comparator of the SortNet paper (section 2): symmetric by shared weights."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from sortnet.comparators.base import (
    NeuralComparator,
    activation,
    check_dropout,
    dropout_factors,
    initial_weights,
    product,
)
from sortnet.comparators.forms import DualUnits
from sortnet.config import hidden_sizes


class CmpNN(NeuralComparator):
    """Net with two outputs, "x before y" and "y before x", which swap if x and y swap.

    Hidden units come in dual pairs: a unit h(x, y) and its dual unit h(y, x), which sees the two
    documents swapped. Both use the same weights, so with one hidden layer the outputs are

        p(x) = V_x x + b,   q(y) = V_y y
        h(x, y) = s(p(x) + q(y)),   h(y, x) = s(p(y) + q(x))
        N_>(x, y) = σ(w_> h(x, y) + w_< h(y, x) + c)
        N_<(x, y) = σ(w_< h(x, y) + w_> h(y, x) + c) = N_>(y, x)

    A deeper layer shares its weights in the same way: h_next(x, y) = s(A h(x, y) + B h(y, x) + b).
    The margin is the difference of the two outputs before the monotone σ, which has the sign of
    N_> - N_< and does not saturate. The margin is antisymmetric, but nothing makes it transitive.

    Args:
        n_features: the number d of features of a document.
        hidden: the number of dual pairs of units in each layer; the paper tries 10, 20 and 30 in
            one layer.
        units: `tanh` or `sigmoid`, the function s of the hidden units.
        dropout: the share of dual pairs that a training step drops, from 0 to below 1.
        seed: the seed of the initial weights and of dropout.

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
        """Draw the weights of all layers from the seed, layer by layer; biases are 0."""
        super().__init__()
        check_dropout(dropout)
        self.n_features = n_features
        self.hidden = hidden_sizes(hidden)
        self.units = units
        self.dropout = dropout
        self.seed = seed
        self._s = activation(units, ("tanh", "sigmoid"))
        self.generator = torch.Generator().manual_seed(seed)

        # V_x | V_y in one matrix, (d, 2H): one product per document is faster for small nets.
        v_x, v_y = self._initial_matrices(n_features, self.hidden[0])
        self.v = nn.Parameter(torch.cat((v_x, v_y), dim=1))
        self.b = nn.Parameter(torch.zeros(self.hidden[0]))
        self.direct = nn.ParameterList()  # the matrix A of each deeper layer
        self.dual = nn.ParameterList()  # the matrix B of each deeper layer
        self.biases = nn.ParameterList()  # the vector b of each deeper layer
        for n_in, n_out in pairwise(self.hidden):
            A, B = self._initial_matrices(n_in, n_out)
            self.direct.append(nn.Parameter(A))
            self.dual.append(nn.Parameter(B))
            self.biases.append(nn.Parameter(torch.zeros(n_out)))
        w_gt, w_lt = self._initial_matrices(self.hidden[-1], 1)
        self.w_gt = nn.Parameter(w_gt[:, 0])
        self.w_lt = nn.Parameter(w_lt[:, 0])
        self.c = nn.Parameter(torch.zeros(()))

    def _initial_matrices(self, n_in: int, n_out: int) -> tuple[Tensor, Tensor]:
        """Draw the two matrices of a layer, (n_in, n_out) each.

        A unit of the layer has n_in inputs through each matrix, 2 n_in inputs in all, on which the
        spread of its initial weights depends.
        """
        both = initial_weights(2 * n_in, n_out, self.generator).data
        return both[:n_in].clone(), both[n_in:].clone()

    def embed(self, x: Tensor) -> Tensor:
        """Compute p and q of n documents, (n, d), side by side, (n, 2H)."""
        b_for_p_and_0_for_q = nn.functional.pad(self.b, (0, self.hidden[0]))
        return product(x, self.v) + b_for_p_and_0_for_q

    def hidden_pair(self, e_i: Tensor, e_j: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the last hidden layer of m pairs of documents, in both orders of the documents.

        Args:
            e_i, e_j: (m, 2H) embeddings of the first and the second document of each pair.

        Returns:
            h(i, j) and its dual h(j, i), each (m, number of dual pairs in the last layer).
        """
        H = self.hidden[0]
        h = self._s(e_i[:, :H] + e_j[:, H:])
        dual = self._s(e_j[:, :H] + e_i[:, H:])
        h, dual = self._drop(h, dual)
        for A, B, b in zip(self.direct, self.dual, self.biases, strict=True):
            next_h = self._s(product(h, A) + product(dual, B) + b)
            next_dual = self._s(product(dual, A) + product(h, B) + b)
            h, dual = self._drop(next_h, next_dual)
        return h, dual

    def outputs(self, e_i: Tensor, e_j: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the two outputs N_> and N_< of CmpNN for m pairs, (m,) each, from 0 to 1.

            N_>(i, j) = sigmoid(w_> · h(i, j) + w_< · h(j, i) + c)
            N_<(i, j) = sigmoid(w_< · h(i, j) + w_> · h(j, i) + c)

        Swapping the documents swaps the outputs, because the weights w_> and w_< change places
        (section 2 of the paper).

        Args:
            e_i, e_j: (m, 2H) embeddings of the first and the second document of each pair.
        """
        h, dual = self.hidden_pair(e_i, e_j)
        gt_logit = h @ self.w_gt + dual @ self.w_lt + self.c
        lt_logit = dual @ self.w_gt + h @ self.w_lt + self.c
        return torch.sigmoid(gt_logit), torch.sigmoid(lt_logit)

    def margin(self, e_i: Tensor, e_j: Tensor) -> Tensor:
        h, dual = self.hidden_pair(e_i, e_j)
        return product(h - dual, self.w_gt - self.w_lt)

    @torch.no_grad()
    def kernel(self) -> DualUnits | None:
        if len(self.hidden) > 1 or type(self) is not CmpNN:  # a subclass may compare in another way
            return None
        weights = (self.w_gt - self.w_lt).cpu().numpy()
        return DualUnits(lambda X: self.prepare(X).cpu().numpy(), weights, self.units)

    @torch.no_grad()
    def verdicts(self, prepared: Tensor, i: int, j: int) -> list[dict[str, float]]:
        """Return the margin of document i over j and the outputs "N_>" and "N_<", in one dict."""
        gt, lt = self.outputs(prepared[[i]], prepared[[j]])
        (verdict,) = super().verdicts(prepared, i, j)
        return [{**verdict, "N_>": float(gt), "N_<": float(lt)}]

    def loss(self, e_winner: Tensor, e_loser: Tensor) -> Tensor:
        """Compute (1 - N_>)^2 + (0 - N_<)^2 of m pairs: the paper's equation 3 for target [1 0]."""
        gt, lt = self.outputs(e_winner, e_loser)
        return (1 - gt) ** 2 + lt**2

    def _drop(self, h: Tensor, dual: Tensor) -> tuple[Tensor, Tensor]:
        """Apply dropout in a training; a unit is dropped in both orders of the documents."""
        if not (self.training and self.dropout):
            return h, dual
        factor = dropout_factors(h, self.dropout, self.generator)
        return h * factor, dual * factor
