"""Self-attention over the documents of a query, independent of the order of the documents.

The net has pre-norm blocks as Set Transformer (Lee et al. 2019) and SetRank (Pang et al. 2020).
Positions are not encoded, so the output for a document does not depend on its position. Attention
by way of a few learned points, called induced attention, needs time linear in the number of
documents.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from sortnet.comparators.base import Net, check_dropout, initial_weights
from sortnet.context.nets import Linear
from sortnet.errors import ComparatorError


class SetEncoder(Net):
    """Net that scores the documents of q queries, padded to n documents of d features each.

    Args:
        n_features: the number d of features of a document.
        width: the number of values in the embedding of a document.
        heads: the number of heads of the attention, a divisor of the width.
        layers: the number of blocks. A block is attention, then a net with one hidden layer of
            2 * width ReLU units.
        points: the number of learned points by way of which documents attend to each other. With 0
            documents attend to each other directly.
        dropout: the share of values that dropout sets to 0 in training, after attention and after
            the net of each block.
        seed: the seed of the initial weights and of dropout.

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
        """Make the layers with random weights, all drawn from one seed."""
        super().__init__()
        if width % heads:
            raise ComparatorError(f"width must be a multiple of heads, got {width} and {heads}")
        check_dropout(dropout)
        self.dropout = dropout
        self.generator = torch.Generator().manual_seed(seed)
        self.embed = Linear(n_features, width, self.generator)
        self.blocks = nn.ModuleList(
            _Block(width, heads, points, self.generator) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.score = Linear(width, 1, self.generator)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Score the documents of q queries, padded to n documents each.

        Args:
            x: (q, n, d) features. Finite values in the padding change no score.
            mask: (q, n) False for padding. Every query needs at least one document.

        Returns:
            (q, n) scores.
        """
        embedded = self.embed(x)
        for block in self.blocks:
            embedded = block(embedded, mask, self._drop)
        scores: Tensor = self.score(self.norm(embedded))[..., 0]
        return scores

    def _drop(self, x: Tensor) -> Tensor:
        """Apply dropout in training: set random values of x to 0, and scale up the other values."""
        if not (self.training and self.dropout):
            return x
        remains = torch.rand(x.shape, generator=self.generator) >= self.dropout
        return x * remains / (1 - self.dropout)


class _Attention(nn.Module):
    """Attention with several heads: each row of x gets a weighted mean of values of rows of y.

    The weights are softmax(query(x) · key(y) / sqrt(width of a head)) over the rows of y. Rows are
    documents or learned points (Vaswani et al. 2017, Attention Is All You Need).
    """

    def __init__(self, width: int, heads: int, generator: torch.Generator) -> None:
        """Make layers of random weights for vectors of `width` numbers, divided among the heads."""
        super().__init__()
        self.heads = heads
        self.query = Linear(width, width, generator)
        self.key = Linear(width, width, generator)
        self.value = Linear(width, width, generator)
        self.out = Linear(width, width, generator)

    def forward(self, x: Tensor, y: Tensor, mask: Tensor | None) -> Tensor:
        """Attend from the rows of x to the rows of y.

        Args:
            x: (q, n, width) rows that read.
            y: (q, m, width) rows that are read.
            mask: (q, m) False for rows of y that are padding; None without padding.

        Returns:
            (q, n, width) results.
        """
        queries = self._split_by_head(self.query(x))
        keys = self._split_by_head(self.key(y))
        values = self._split_by_head(self.value(y))
        mask_of_heads = None if mask is None else mask[:, None, None]
        attended = nn.functional.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask_of_heads
        )
        heads_side_by_side = attended.transpose(1, 2).flatten(2)
        out: Tensor = self.out(heads_side_by_side)
        return out

    def _split_by_head(self, x: Tensor) -> Tensor:
        """Split the width of x, (q, n, width), among the heads: (q, heads, n, width / heads)."""
        return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)


class _Block(nn.Module):
    """Block that adds to each document first the output of attention, then the output of a net."""

    def __init__(self, width: int, heads: int, points: int, generator: torch.Generator) -> None:
        """Make the layers; documents attend to each other, or to learned points if any exist."""
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = _Attention(width, heads, generator)
        self.hidden = Linear(width, 2 * width, generator)
        self.back = Linear(2 * width, width, generator)
        self.points = initial_weights(points, width, generator) if points else None
        self.gather = _Attention(width, heads, generator) if points else None

    def forward(self, x: Tensor, mask: Tensor, drop: Callable[[Tensor], Tensor]) -> Tensor:
        """Transform embedded documents, (q, n, width), to new embeddings of the same shape.

        Args:
            x: (q, n, width) embeddings.
            mask: (q, n) False for padding.
            drop: the function that applies dropout.
        """
        normed = self.norms[0](x)
        if self.gather is not None and self.points is not None:
            # The points read the documents, then the documents read the points.
            points = self.gather(self.points.expand(len(x), -1, -1), normed, mask)
            attended = self.attention(normed, points, mask=None)
        else:
            attended = self.attention(normed, normed, mask)
        x = x + drop(attended)
        hidden = torch.relu(self.hidden(self.norms[1](x)))
        return x + drop(self.back(hidden))
