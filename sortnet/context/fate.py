"""FATE-Net: first aggregate the set, then evaluate each object beside what it came to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sortnet.context.dense import Dense, Linear


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
