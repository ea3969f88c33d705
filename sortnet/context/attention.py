"""Self-attention over the documents of a query, whose order does not matter.

Pre-norm blocks as in Set Transformer (Lee et al. 2019) and SetRank (Pang et al. 2020), without
positions: the output for a document does not depend on its place. Induced attention, by way of a
few learned points, is linear in the documents.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sortnet.comparators.base import initial_weights
from sortnet.context.nets import Linear
from sortnet.errors import ComparatorError


class SetEncoder(nn.Module):
    """Net that scores the documents of q queries, padded to n documents of d features each.

    Args:
        n_features: d, the number of features of a document.
        width: width of the embedding.
        heads: number of heads of the attention; a divisor of the width.
        layers: number of blocks; a block is attention, then a net with one hidden layer of 2 width
            ReLU units.
        points: number of learned points by way of which documents attend to each other; 0: they
            attend directly.
        dropout: dropout rate of the output of attention and net, in training.
        seed: seed of the initial weights and of dropout.

    >>> X, mask = torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool)
    >>> net = SetEncoder(3, width=8, heads=2, layers=1).eval()
    >>> scores_of_permuted = net(X[:, [2, 0, 1]], mask)
    >>> torch.allclose(scores_of_permuted, net(X, mask)[:, [2, 0, 1]], atol=1e-6)
    True

    Cost: O(n² width + n width²) a query and layer; with points O(n points width + n width²).
    """

    def __init__(
        self,
        n_features: int,
        *,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        points: int = 0,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if width % heads:
            raise ComparatorError(f"width must be a multiple of heads, got {width} and {heads}")
        if not 0 <= dropout < 1:
            raise ComparatorError(f"dropout must be in [0, 1), got {dropout}")
        self.dropout = dropout
        self.generator = torch.Generator().manual_seed(seed)
        self.embed = Linear(n_features, width, self.generator)
        self.blocks = nn.ModuleList(
            _Block(width, heads, points, self.generator) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.score = Linear(width, 1, self.generator)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Score documents, (q, n, d), as (q, n); `mask` (q, n) is False for padding.

        Every query needs a document. Finite values in the padding change no score.
        """
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, mask, self._dropped)
        scores: Tensor = self.score(self.norm(x))[..., 0]
        return scores

    def _dropped(self, x: Tensor) -> Tensor:
        """Apply dropout while training: set random entries of x to 0, and scale up the rest."""
        if not (self.training and self.dropout):
            return x
        keep = torch.rand(x.shape, generator=self.generator) >= self.dropout
        return x * keep / (1 - self.dropout)


class _Attention(nn.Module):
    """Attention with several heads: each document of x reads the documents of y."""

    def __init__(self, width: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(width, width, generator)
        self.key = Linear(width, width, generator)
        self.value = Linear(width, width, generator)
        self.out = Linear(width, width, generator)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from x (q, n, w) to the rows of y (q, m, w) for which `mask` (q, m) is True."""
        queries = self._divided(self.query(x))
        keys = self._divided(self.key(y))
        values = self._divided(self.value(y))
        mask_of_heads = None if mask is None else mask[:, None, None]
        attended = nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask_of_heads
        )
        out: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return out

    def _divided(self, x: Tensor) -> Tensor:
        """Divide the width w of (q, n, w) among the heads: (q, heads, n, w / heads)."""
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)


class _Block(nn.Module):
    """Block that adds to each document first the output of attention, then the output of a net."""

    def __init__(self, width: int, heads: int, points: int, generator: torch.Generator) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = _Attention(width, heads, generator)
        self.hidden = Linear(width, 2 * width, generator)
        self.back = Linear(2 * width, width, generator)
        self.points = initial_weights(points, width, generator) if points else None
        self.gather = _Attention(width, heads, generator) if points else None

    def forward(self, x: Tensor, mask: Tensor, dropped: Callable[[Tensor], Tensor]) -> Tensor:
        normed = self.norms[0](x)
        if self.gather is not None and self.points is not None:
            points = self.gather(self.points.expand(len(x), -1, -1), normed, mask)
            attended = self.attention(normed, points, None)
        else:
            attended = self.attention(normed, normed, mask)
        x = x + dropped(attended)
        return x + dropped(self.back(torch.relu(self.hidden(self.norms[1](x)))))
