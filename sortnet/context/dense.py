"""Layers of the nets of whole sets: dense ones of SELU units, or of ReLU after batch norm."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from sortnet.comparators.base import initial_weights

UNITS = ("selu", "relu")


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
