"""Nets that score the objects of a set together: FATE-Net, FETA-Net and the set transformer.

An object is a document, and a set is a query.

The set transformer has self-attention over the documents, which does not depend on their order. The
net has pre-norm blocks as Set Transformer (Lee et al. 2019) and SetRank (Pang et al. 2020).
Positions are not encoded, so the output for a document does not depend on its position. Attention
by way of a few learned points, called induced attention, needs time linear in the number of
documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sortnet.comparators.base import Net, check_dropout, initial_weights
from sortnet.comparators.cmpnn import CmpNN
from sortnet.core.pairs import all_pairs
from sortnet.errors import ComparatorError

UNITS = ("selu", "relu")
PAIR_NETS = ("cmpnn", "free")


class Linear(nn.Module):
    """Linear layer x W + b: the weights W are drawn from a generator, and b starts at 0."""

    def __init__(self, rows: int, columns: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = initial_weights(rows, columns, generator)
        self.bias = nn.Parameter(torch.zeros(columns))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Dense(nn.Module):
    """Hidden layers of SELU units or of batch-normalised ReLU units, from (m, d) to (m, width).

    The m rows are objects or pairs of objects, and never padding, which would change the
    statistics of batch normalisation. Klambauer et al. 2017, Self-Normalizing Neural Networks;
    Ioffe and Szegedy 2015, Batch Normalization.
    """

    def __init__(
        self, n_columns: int, hidden: Sequence[int], units: str, generator: torch.Generator
    ) -> None:
        """Make one layer with random weights, and its units, for each number in `hidden`."""
        super().__init__()
        self.width = (n_columns, *hidden)[-1]
        self.layers = nn.ModuleList(
            hidden_layer(n_in, n_out, generator) for n_in, n_out in pairwise((n_columns, *hidden))
        )
        self.units = nn.ModuleList(hidden_units(units, width) for width in hidden)

    def forward(self, x: Tensor) -> Tensor:
        for layer, units in zip(self.layers, self.units, strict=True):
            x = units(layer(x))
        return x


def hidden_layer(rows: int, columns: int, generator: torch.Generator) -> Linear:
    """Make a layer whose weights have variance 1 / rows, which keeps SELU units normalised."""
    layer = Linear(rows, columns, generator)
    # `initial_weights` draws weights with variance 2 / (rows + columns); this makes it 1 / rows.
    layer.weight.data *= ((rows + columns) / (2 * rows)) ** 0.5
    return layer


def hidden_units(name: str, width: int) -> nn.Module:
    """Make the units of a layer: SELU if that is the name, else batch normalisation with ReLU."""
    if name == "selu":
        return nn.SELU()
    return nn.Sequential(BatchNorm(width), nn.ReLU())


class BatchNorm(nn.Module):
    """Batch normalisation that also accepts a single row in training.

    A single row has no variance, so it is normalised by the statistics of earlier batches.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        """Begin with the identity: factor 1, shift 0, running mean 0 and running variance 1."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        uses_own_statistics = self.training and len(x) > 1
        return nn.functional.batch_norm(
            x, self.mean, self.variance, self.weight, self.bias, training=uses_own_statistics
        )


class FateNet(Net):
    """FATE-Net: score each object together with the mean embedding of its set.

        μ = mean over the set of φ(x)        score(x) = U(x, μ)

    The net φ embeds a single object, and the net U scores x and μ side by side. As in sections 3.3
    and 4.2 of Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures for learning
    context-dependent ranking functions, an object is part of its own context, so that a set has a
    single μ.

    Args:
        n_features: the number d of features of an object.
        hidden: the number of units of each hidden layer, the same in φ and U.
        units: `selu`, or `relu` after batch normalisation.
        seed: the seed of the initial weights.

    >>> net = FateNet(3, hidden=(8,)).eval()
    >>> X = torch.eye(3)
    >>> scores_of_permuted = net(X[[2, 0, 1]], torch.tensor([3]))
    >>> torch.allclose(scores_of_permuted, net(X, torch.tensor([3]))[[2, 0, 1]], atol=1e-6)
    True

    Cost: linear in the number of objects.
    """

    def __init__(
        self, n_features: int, *, hidden: Sequence[int], units: str = "selu", seed: int = 0
    ) -> None:
        """Make the net that embeds an object, and the net that scores an object given the mean."""
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.embedding = Dense(n_features, hidden, units, self.generator)
        n_columns = n_features + self.embedding.width
        self.joint = Dense(n_columns, hidden, units, self.generator)
        self.score = Linear(self.joint.width, 1, self.generator)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        """Score every object of q sets in the context of its set.

        Args:
            x: (n, d) features of all objects, set by set.
            sizes: (q,) the number of objects of each set.

        Returns:
            (n,) scores.
        """
        embedded = self.embedding(x)
        set_of_object = torch.repeat_interleave(sizes)
        zeros = embedded.new_zeros(len(sizes), self.embedding.width)
        total = zeros.index_add(0, set_of_object, embedded)
        mean = total / sizes.clamp_min(1)[:, None]
        object_and_mean = torch.cat((x, mean[set_of_object]), dim=1)
        scores: Tensor = self.score(self.joint(object_and_mean))[:, 0]
        return scores


class FetaNet(Net):
    """FETA-Net: the score of an object is a score of its own, plus its supports against the others.

        score(x) = U0(x) + Σ U1(x, y) over all other objects y of the set

    In sections 3.2 and 4.1 of Pfannschmidt, Gupta and Hüllermeier 2018, Deep architectures for
    learning context-dependent ranking functions, U1(x, y) is the output N_>(x, y) of a CmpNN, which
    computes N_>(y, x) = N_<(x, y) at the same time. With `pair="free"`, U1 is a net of x and y side
    by side, whose values are not bounded.

    Args:
        n_features: the number d of features of an object.
        pair: the net U1, `cmpnn` or `free`.
        hidden: the number of units of each hidden layer of U0 and of U1. In a CmpNN it is the
            number of dual pairs of units.
        units: `selu`, or `relu` after batch normalisation. A CmpNN always has tanh units.
        chunk: the number of pairs that are computed together, which bounds memory. With more pairs,
            a training computes all pairs a second time for the gradient.
        seed: the seed of the initial weights.

    >>> net = FetaNet(3, hidden=(8,)).eval()
    >>> X = torch.eye(3)
    >>> scores_of_permuted = net(X[[2, 0, 1]], torch.tensor([3]))
    >>> torch.allclose(scores_of_permuted, net(X, torch.tensor([3]))[[2, 0, 1]], atol=1e-6)
    True

    Cost: linear in the number of pairs, which is quadratic in the number of objects of a set.
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
        """Make the net that scores an object alone, and the net that scores pairs of objects."""
        super().__init__()
        self.chunk = chunk
        self.generator = torch.Generator().manual_seed(seed)
        self.alone = Dense(n_features, hidden, units, self.generator)
        self.score = Linear(self.alone.width, 1, self.generator)
        self.pair: CmpNN | FreePairNet
        if pair == "cmpnn":
            self.pair = CmpNN(n_features, hidden=hidden, seed=seed)
        else:
            self.pair = FreePairNet(n_features, hidden, units, self.generator)

    def forward(self, x: Tensor, sizes: Tensor) -> Tensor:
        """Score every object of q sets in the context of its set.

        Args:
            x: (n, d) features of all objects, set by set.
            sizes: (q,) the number of objects of each set.

        Returns:
            (n,) scores.
        """
        scores: Tensor = self.score(self.alone(x))[:, 0]  # the supports by other objects are added
        embedded = self.pair.embed(x)
        offsets = np.append(0, np.cumsum(sizes.numpy()))
        pairs = map(torch.from_numpy, all_pairs(offsets))
        all_i, all_j = (torch.split(objects, self.chunk) for objects in pairs)
        saves_memory = torch.is_grad_enabled() and len(all_i) > 1
        for i, j in zip(all_i, all_j, strict=True):
            if saves_memory:  # the backward pass computes the supports again, chunk by chunk
                support_i, support_j = checkpoint(
                    self._supports, embedded, i, j, use_reentrant=False
                )
            else:
                support_i, support_j = self._supports(embedded, i, j)
            scores = scores.index_add(0, i, support_i).index_add(0, j, support_j)
        return scores

    def _supports(self, embedded: Tensor, i: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
        """Compute two supports for each of m pairs: of object i against j, and of j against i."""
        return self.pair.outputs(embedded[i], embedded[j])


class FreePairNet(nn.Module):
    """Net of two objects side by side, which shares no weights between the two orders of a pair."""

    def __init__(
        self, n_features: int, hidden: Sequence[int], units: str, generator: torch.Generator
    ) -> None:
        """Make the layers; the first layer takes the features of both objects of a pair."""
        super().__init__()
        self.first = hidden_layer(2 * n_features, hidden[0], generator)
        self.units = hidden_units(units, hidden[0])
        self.rest = Dense(hidden[0], hidden[1:], units, generator)
        self.score = Linear(self.rest.width, 1, generator)

    def embed(self, x: Tensor) -> Tensor:
        """Compute what n objects, (n, d), add to the inputs of the H units of the first layer.

        Returns:
            (n, 2H): the parts of the inputs for x as the first object, then for x as the second.
        """
        weights_as_first, weights_as_second = self.first.weight.chunk(2)
        as_first = x @ weights_as_first + self.first.bias
        as_second = x @ weights_as_second
        return torch.cat((as_first, as_second), dim=1)

    def outputs(self, e_i: Tensor, e_j: Tensor) -> tuple[Tensor, Tensor]:
        """Compute two supports for each of m pairs: of object i against j, and of j against i.

        Args:
            e_i, e_j: (m, 2H) results of `embed` for the first and the second object of each pair.

        Returns:
            (m,) supports of i, and (m,) supports of j.
        """
        i_as_first, i_as_second = e_i.chunk(2, 1)
        j_as_first, j_as_second = e_j.chunk(2, 1)
        # The net computes 2m pairs together: all pairs (i, j), then all pairs (j, i).
        inputs = torch.cat((i_as_first + j_as_second, j_as_first + i_as_second))
        units = self.units(inputs)
        support_i, support_j = self.score(self.rest(units))[:, 0].chunk(2)
        return support_i, support_j


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
