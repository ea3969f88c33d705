"""Self-attention over the documents of a query, padded and masked, with no notion of their order.

Pre-norm blocks as in Set Transformer (Lee et al. 2019) and SetRank (Pang et al. 2020), without
positions: what comes out of a document does not depend on where it stands. Induced attention, by
way of a few learned points, is linear in the documents.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sortnet.comparators.base import initial_weights
from sortnet.context.nets import Linear
from sortnet.errors import ComparatorError


class SetEncoder(nn.Module):
    """(q, n, d) documents of q queries, padded -> (q, n) scores.

    Args:
        n_features: d, of a document.
        width: of the embedding.
        heads: of the attention; a divisor of the width.
        layers: blocks of attention and of a net of one hidden layer of 2 width ReLU units.
        points: learned points by way of which documents attend to each other; 0: to all directly.
        dropout: share of what a block adds that is dropped in training.
        seed: of the initial weights and of dropout.

    >>> X, there = torch.eye(3)[None], torch.ones(1, 3, dtype=torch.bool)
    >>> net = SetEncoder(3, width=8, heads=2, layers=1).eval()
    >>> turned = net(X[:, [2, 0, 1]], there)
    >>> torch.allclose(turned, net(X, there)[:, [2, 0, 1]], atol=1e-6)
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

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        """Scores of (q, n, d) documents; `there`, (q, n), says which are no padding.

        Every query needs a document. What stands in the padding, finite, changes no score.
        """
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, there, self._dropped)
        scores: Tensor = self.score(self.norm(x))[..., 0]
        return scores

    def _dropped(self, x: Tensor) -> Tensor:
        if not (self.training and self.dropout):
            return x
        keep = torch.rand(x.shape, generator=self.generator) >= self.dropout
        return x * keep / (1 - self.dropout)


class _Attention(nn.Module):
    """Each of x takes up what it attends to of y, by several heads."""

    def __init__(self, width: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(width, width, generator)
        self.key = Linear(width, width, generator)
        self.value = Linear(width, width, generator)
        self.out = Linear(width, width, generator)

    def forward(self, x: Tensor, y: Tensor, there: Tensor | None) -> Tensor:
        """(q, n, w), (q, m, w), (q, m) -> (q, n, w)."""
        asked, keys, values = (
            each.reshape(*each.shape[:2], self.heads, -1).transpose(1, 2)
            for each in (self.query(x), self.key(y), self.value(y))
        )
        mask = None if there is None else there[:, None, None]
        taken = nn.functional.scaled_dot_product_attention(asked, keys, values, attn_mask=mask)
        out: Tensor = self.out(taken.transpose(1, 2).flatten(2))
        return out


class _Block(nn.Module):
    """What attention and what a net of one hidden layer add to each document."""

    def __init__(self, width: int, heads: int, points: int, generator: torch.Generator) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = _Attention(width, heads, generator)
        self.hidden = Linear(width, 2 * width, generator)
        self.back = Linear(2 * width, width, generator)
        self.points = initial_weights(points, width, generator) if points else None
        self.gather = _Attention(width, heads, generator) if points else None

    def forward(self, x: Tensor, there: Tensor, dropped: Callable[[Tensor], Tensor]) -> Tensor:
        normed = seen = self.norms[0](x)
        mask: Tensor | None = there
        if self.gather is not None and self.points is not None:
            seen, mask = self.gather(self.points.expand(len(x), -1, -1), normed, there), None
        x = x + dropped(self.attention(normed, seen, mask))
        return x + dropped(self.back(torch.relu(self.hidden(self.norms[1](x)))))
