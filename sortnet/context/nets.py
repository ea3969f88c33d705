"""Nets that see a whole set of objects: FATE-Net, FETA-Net, and the dense layers they share."""

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
    """xW + b, with weights drawn from a generator."""

    def __init__(self, rows: int, columns: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = initial_weights(rows, columns, generator)
        self.bias = nn.Parameter(torch.zeros(columns))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Dense(nn.Module):
    """Hidden layers, of SELU units or of ReLU units behind batch normalisation: (m, d) -> (m, w).

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
    """A layer whose weights have variance 1 / rows, without which SELU units do not normalise."""
    layer = Linear(rows, columns, generator)
    layer.weight.data *= ((rows + columns) / (2 * rows)) ** 0.5  # it was 2 / (rows + columns)
    return layer


def hidden_units(name: str, width: int) -> nn.Module:
    """SELU, or batch norm and ReLU."""
    return nn.SELU() if name == "selu" else nn.Sequential(BatchNorm(width), nn.ReLU())


class BatchNorm(nn.Module):
    """Batch normalisation that takes a single row, too: by the means of the batches before it."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        alone = not self.training or len(x) < 2
        return nn.functional.batch_norm(
            x, self.mean, self.variance, self.weight, self.bias, training=not alone
        )


class FateNet(nn.Module):
    """(n, d) objects of q sets, set by set -> (n,) scores.

        μ = mean over the set of φ(x)        score(x) = U(x, μ)

    φ is a net of one object, U a net of x and μ side by side. Pfannschmidt, Gupta and Hüllermeier
    2018, Deep architectures for learning context-dependent ranking functions, sections 3.3 and 4.2:
    an object is part of its own context, so that μ is computed once.

    Args:
        n_features: d, of an object.
        hidden: units per hidden layer, of φ and of U.
        units: `selu`, or `relu` behind batch normalisation.
        seed: of the initial weights.

    >>> net = FateNet(3, hidden=(8,)).eval()
    >>> X = torch.eye(3)
    >>> turned = net(X[[2, 0, 1]], torch.tensor([3]))
    >>> torch.allclose(turned, net(X, torch.tensor([3]))[[2, 0, 1]], atol=1e-6)
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
        """Scores of (n, d) objects; sizes, (q,), whole numbers, says how many each set has."""
        embedded, of_set = self.embedding(x), torch.repeat_interleave(sizes)
        total = embedded.new_zeros(len(sizes), self.embedding.width)
        mean = total.index_add(0, of_set, embedded) / sizes.clamp_min(1)[:, None]
        scores: Tensor = self.score(self.joint(torch.cat((x, mean[of_set]), 1)))[:, 0]
        return scores


class FetaNet(nn.Module):
    """(n, d) objects of q sets, set by set -> (n,) scores.

        score(x) = U0(x) + Σ over the others y of the set of U1(x, y)

    Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures for learning context-dependent
    ranking functions, sections 3.2 and 4.1, where U1(x, y) is N_>(x, y) of a CmpNN, which gives
    N_>(y, x) = N_<(x, y) with it. `pair="free"` is a net of x and y side by side, not bounded.

    Args:
        n_features: d, of an object.
        pair: U1, `cmpnn` or `free`.
        hidden: units per hidden layer of U0 and of U1; of a CmpNN dual pairs of tanh units.
        units: `selu`, or `relu` behind batch normalisation; not of a CmpNN.
        chunk: pairs at once, which bounds memory. Where a set has more of them, training computes
            them a second time for the gradient.
        seed: of the initial weights.

    >>> net = FetaNet(3, hidden=(8,)).eval()
    >>> X = torch.eye(3)
    >>> turned = net(X[[2, 0, 1]], torch.tensor([3]))
    >>> torch.allclose(turned, net(X, torch.tensor([3]))[[2, 0, 1]], atol=1e-6)
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
        """Scores of (n, d) objects; sizes, (q,), whole numbers, says how many each set has."""
        scores: Tensor = self.score(self.alone(x))[:, 0]
        embedded, of_sets = self.pair.embed(x), torch.repeat_interleave(sizes.cumsum(0), sizes)
        behind = of_sets - 1 - torch.arange(len(of_sets))  # objects of its set: each pair once
        ends = behind.cumsum(0)
        n_pairs = int(behind.sum())
        again = torch.is_grad_enabled() and n_pairs > self.chunk

        def supports(embedded: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
            return self.pair.outputs(embedded[i], embedded[j])

        for first in range(0, n_pairs, self.chunk):
            pairs = torch.arange(first, min(first + self.chunk, n_pairs))
            i = torch.searchsorted(ends, pairs, right=True)
            j = i + 1 + pairs - (ends - behind)[i]
            if again:
                of_i, of_j = checkpoint(supports, embedded, i, j, use_reentrant=False)
            else:
                of_i, of_j = supports(embedded, i, j)
            scores = scores.index_add(0, i, of_i).index_add(0, j, of_j)
        return scores


class FreePairNet(nn.Module):
    """A net of two objects side by side, with nothing shared between the two orders of a pair."""

    def __init__(
        self, n_features: int, hidden: Sequence[int], units: str, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.first = hidden_layer(2 * n_features, hidden[0], generator)
        self.units = hidden_units(units, hidden[0])
        self.rest = Dense(hidden[0], hidden[1:], units, generator)
        self.score = Linear(self.rest.width, 1, generator)

    def embed(self, x: Tensor) -> Tensor:
        """(n, d) -> (n, 2H): what x is worth to the first layer as first and as second object."""
        as_first, as_second = self.first.weight.chunk(2)
        return torch.cat((x @ as_first + self.first.bias, x @ as_second), 1)

    def outputs(self, e_i: Tensor, e_j: Tensor) -> tuple[Tensor, Tensor]:
        """(m, 2H), (m, 2H) -> U1(i, j) and U1(j, i), each (m,)."""
        (first_i, second_i), (first_j, second_j) = e_i.chunk(2, 1), e_j.chunk(2, 1)
        both = self.units(torch.cat((first_i + second_j, first_j + second_i)))
        of_i, of_j = self.score(self.rest(both))[:, 0].chunk(2)
        return of_i, of_j
