"""Nets that score a whole set of objects: FATE-Net, FETA-Net and their dense layers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sortnet.comparators.base import initial_weights
from sortnet.comparators.cmpnn import CmpNN

UNITS = ("selu", "relu")
PAIR_NETS = ("cmpnn", "free")


class Linear(nn.Module):
    """Linear layer xW + b, with weights drawn from a generator."""

    def __init__(self, rows: int, columns: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = initial_weights(rows, columns, generator)
        self.bias = nn.Parameter(torch.zeros(columns))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Dense(nn.Module):
    """Hidden layers, (m, d) -> (m, w), of SELU units or of batch-normalised ReLU units.

    Klambauer et al. 2017, Self-Normalizing Neural Networks; Ioffe and Szegedy 2015, Batch
    Normalization. The rows are objects, or pairs of them: never padding.
    """

    def __init__(
        self, n_columns: int, hidden: Sequence[int], units: str, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.width = (n_columns, *hidden)[-1]
        self.layers = nn.ModuleList(
            hidden_layer(before, after, generator)
            for before, after in pairwise((n_columns, *hidden))
        )
        self.units = nn.ModuleList(hidden_units(units, width) for width in hidden)

    def forward(self, x: Tensor) -> Tensor:
        for layer, units in zip(self.layers, self.units, strict=True):
            x = units(layer(x))
        return x


def hidden_layer(rows: int, columns: int, generator: torch.Generator) -> Linear:
    """Make a layer whose weights have variance 1 / rows; SELU units need it to stay normalised."""
    layer = Linear(rows, columns, generator)
    # `initial_weights` draws weights with variance 2 / (rows + columns).
    layer.weight.data *= ((rows + columns) / (2 * rows)) ** 0.5
    return layer


def hidden_units(name: str, width: int) -> nn.Module:
    """Make the units of a layer: either SELU, or batch normalisation with ReLU."""
    if name == "selu":
        return nn.SELU()
    return nn.Sequential(BatchNorm(width), nn.ReLU())


class BatchNorm(nn.Module):
    """Batch normalisation that accepts a single row, using the statistics of earlier batches."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        normalises_itself = self.training and len(x) > 1
        return nn.functional.batch_norm(
            x, self.mean, self.variance, self.weight, self.bias, training=normalises_itself
        )


class FateNet(nn.Module):
    """FATE-Net: score each object together with the mean embedding of its set.

        μ = mean over the set of φ(x)        score(x) = U(x, μ)

    φ is a net of a single object, U a net of x and μ side by side. Pfannschmidt, Gupta and
    Hüllermeier 2018, Deep architectures for learning context-dependent ranking functions, sections
    3.3 and 4.2: an object is part of its own context, so that μ is computed once.

    Args:
        n_features: d, the number of features of an object.
        hidden: units per hidden layer, the same in φ and U.
        units: `selu`, or `relu` behind batch normalisation.
        seed: seed of the initial weights.

    >>> net = FateNet(3, hidden=(8,)).eval()
    >>> X = torch.eye(3)
    >>> scores_of_permuted = net(X[[2, 0, 1]], torch.tensor([3]))
    >>> torch.allclose(scores_of_permuted, net(X, torch.tensor([3]))[[2, 0, 1]], atol=1e-6)
    True

    Cost: linear in the objects.
    """

    def __init__(
        self, n_features: int, *, hidden: Sequence[int], units: str = "selu", seed: int = 0
    ) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.embedding = Dense(n_features, hidden, units, self.generator)
        columns = n_features + self.embedding.width
        self.joint = Dense(columns, hidden, units, self.generator)
        self.score = Linear(self.joint.width, 1, self.generator)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        """Score the objects (n, d) of q sets; `sizes` (q,) is the number of objects of each set."""
        embedded = self.embedding(x)
        set_of_object = torch.repeat_interleave(sizes)
        zeros = embedded.new_zeros(len(sizes), self.embedding.width)
        total = zeros.index_add(0, set_of_object, embedded)
        mean = total / sizes.clamp_min(1)[:, None]
        scores: Tensor = self.score(self.joint(torch.cat((x, mean[set_of_object]), 1)))[:, 0]
        return scores


class FetaNet(nn.Module):
    """FETA-Net: sum a score of the object alone and its support against every other object.

        score(x) = U0(x) + Σ over all y ≠ x of the set of U1(x, y)

    Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures for learning context-dependent
    ranking functions, sections 3.2 and 4.1. There U1(x, y) is N_>(x, y) of a CmpNN, which computes
    N_>(y, x) = N_<(x, y) at the same time. `pair="free"` is a net of x and y side by side, whose
    values are not bounded.

    Args:
        n_features: d, the number of features of an object.
        pair: U1, `cmpnn` or `free`.
        hidden: units per hidden layer of U0 and of U1; a CmpNN has dual pairs of tanh units.
        units: `selu`, or `relu` behind batch normalisation; a CmpNN has tanh units always.
        chunk: pairs computed at once, which bounds memory. With more pairs training computes them
            a second time for the gradient.
        seed: seed of the initial weights.

    >>> net = FetaNet(3, hidden=(8,)).eval()
    >>> X = torch.eye(3)
    >>> scores_of_permuted = net(X[[2, 0, 1]], torch.tensor([3]))
    >>> torch.allclose(scores_of_permuted, net(X, torch.tensor([3]))[[2, 0, 1]], atol=1e-6)
    True

    Cost: the pairs of a set, so quadratic in its objects.
    """

    def __init__(
        self,
        n_features: int,
        *,
        pair: str = "cmpnn",
        hidden: Sequence[int],
        units: str = "selu",
        chunk: int = 1 << 16,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.chunk = chunk
        self.generator = torch.Generator().manual_seed(seed)
        self.alone = Dense(n_features, hidden, units, self.generator)
        self.score = Linear(self.alone.width, 1, self.generator)
        self.pair = (
            CmpNN(n_features, hidden=hidden, seed=seed)
            if pair == "cmpnn"
            else FreePairNet(n_features, hidden, units, self.generator)
        )

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        """Score the objects (n, d) of q sets; `sizes` (q,) is the number of objects of each set."""
        scores: Tensor = self.score(self.alone(x))[:, 0]
        embedded = self.pair.embed(x)
        end_of_set = torch.repeat_interleave(sizes.cumsum(0), sizes)
        # Each object is paired with the objects after it in its set, so that each pair occurs once.
        n_after = end_of_set - 1 - torch.arange(len(end_of_set))
        ends = n_after.cumsum(0)
        n_pairs = int(n_after.sum())
        computes_again = torch.is_grad_enabled() and n_pairs > self.chunk

        def supports(embedded: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
            return self.pair.outputs(embedded[i], embedded[j])

        for first in range(0, n_pairs, self.chunk):
            pairs = torch.arange(first, min(first + self.chunk, n_pairs))
            i = torch.searchsorted(ends, pairs, right=True)
            j = i + 1 + pairs - (ends - n_after)[i]
            if computes_again:
                support_i, support_j = checkpoint(supports, embedded, i, j, use_reentrant=False)
            else:
                support_i, support_j = supports(embedded, i, j)
            scores = scores.index_add(0, i, support_i).index_add(0, j, support_j)
        return scores


class FreePairNet(nn.Module):
    """Net of two objects side by side, which shares no weights between the two orders of a pair."""

    def __init__(
        self, n_features: int, hidden: Sequence[int], units: str, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.first = hidden_layer(2 * n_features, hidden[0], generator)
        self.units = hidden_units(units, hidden[0])
        self.rest = Dense(hidden[0], hidden[1:], units, generator)
        self.score = Linear(self.rest.width, 1, generator)

    def embed(self, x: Tensor) -> Tensor:
        """Inputs (n, 2H) of the H first-layer units, with x as first and as second object."""
        as_first, as_second = self.first.weight.chunk(2)
        return torch.cat((x @ as_first + self.first.bias, x @ as_second), 1)

    def outputs(self, e_i: Tensor, e_j: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs U1(i, j) and U1(j, i), both (m,), from the `embed` outputs (m, 2H) of i and j."""
        i_as_first, i_as_second = e_i.chunk(2, 1)
        j_as_first, j_as_second = e_j.chunk(2, 1)
        units = self.units(torch.cat((i_as_first + j_as_second, j_as_first + i_as_second)))
        support_i, support_j = self.score(self.rest(units))[:, 0].chunk(2)
        return support_i, support_j
