"""Rankers with nets of whole queries: FATE-Net, FETA-Net, and the set transformer.

A score depends on all documents of the query, but not on their order. In the set transformer every
document attends to all documents of its query, see `sortnet.context.SetEncoder`. The kind
`set-transformer` is trained by ListNet's loss, as in Pang et al. 2020, SetRank. The variant
`setrank` is the same net in another size, with the choice of loss and optimizer that FATE-Net and
FETA-Net have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators.base import Net
from sortnet.config import COMPARATOR, TRAINING, setting
from sortnet.context import PAIR_NETS, UNITS, FateNet, FetaNet, SetEncoder
from sortnet.core import F32, Array, Queries
from sortnet.core.memory import refuse_too_large, runs_of_queries
from sortnet.rankers.base import Ranker, scaling_setting
from sortnet.rankers.listwise import EPOCHS, LOSSES, LR, QUERIES, Loss, descend, listnet, padded
from sortnet.rankers.pairwise import TorchSettings
from sortnet.threads import one_thread_an_operation

_DOCUMENTS = 1 << 14  # documents scored at once; a longer query is scored alone
# Default values of settings that are None, by architecture.
_FIXED: dict[str, dict[str, Any]] = {
    "fate": {"hidden": (128, 128, 128), "units": "relu", "weight_decay": 0.5},
    "feta": {"hidden": (32, 32), "units": "selu"},
}
_MANY = 300  # a query with more documents has attention through learned points by default
_POINTS = 32  # default number of learned points
_NUMBERS = 1 << 22  # numbers in the attention or the hidden units of a batch, to limit memory
_BYTES = 8  # memory of a number of the attention and of its softmax
# Defaults of each algorithm of the set transformer. ListNet has a weight decay because the net
# overfits soon without it.
_FIXED_OF_SETS: dict[str, dict[str, Any]] = {
    "listnet": {
        "scaling": "query+rank", "width": 16, "heads": 2, "layers": 2, "queries": 8,
        "weight_decay": 0.3,
    },
    "setrank": {"width": 64, "heads": 4, "layers": 3},
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class SetRanker(Ranker):
    """Ranker by the scores of a net that sees all documents of a query at once."""

    config: ContextSettings
    net: Net

    @property
    def depends_on_query(self) -> bool:
        return True

    def scores(self, queries: Queries) -> F32:
        """Compute the net's scores (n_docs,), which can be compared within a query."""
        with torch.no_grad(), one_thread_an_operation():
            scores: F32 = self.config.scores_of(self.net, self.scaled(queries)).numpy()
        return scores

    def learned(self) -> dict[str, Array]:
        return self.net.arrays()


@dataclass(frozen=True)
class ContextSettings(TorchSettings):
    """Settings of a net that scores the documents of a whole query at once."""

    ranker: ClassVar[type[SetRanker]] = SetRanker
    nesterov: ClassVar[bool] = True
    # fmt: off
    scaling: str | None = scaling_setting("standard; query+rank for set-transformer")
    epochs: int = setting(40, EPOCHS, TRAINING, least=1)
    queries: int | None = setting(
        None, f"{QUERIES[:-1]}; default: 64, or 8 for set-transformer.", TRAINING, least=1)
    lr: float = setting(0.03, LR, TRAINING, within="above 0")
    weight_decay: float | None = setting(
        None, "Weight decay: apart from the gradient with adamw, else an L2 penalty. Default: 0, "
        "or 0.5 for FATE-Net and 0.3 for set-transformer.", TRAINING, within="from 0")
    loss: str = setting(
        "logistic",
        "Loss of a query: mean logistic or hinge loss of its pairs of two grades, Plackett-Luce or "
        "softmax; set-transformer uses ListNet's loss.", TRAINING, choices=tuple(LOSSES))
    optimizer: str = setting(
        "adamw", "AdamW, Adam, or SGD with Nesterov momentum.", TRAINING,
        choices=("adamw", "adam", "sgd"))
    l1: float = setting(0.0, "L1 penalty of the weights.", TRAINING, within="from 0")
    # fmt: on

    @property
    def fixed(self) -> dict[str, Any]:
        return {"scaling": "standard", "weight_decay": 0.0, "queries": 64}

    @property
    def query_loss(self) -> Loss:
        """The loss of a query as a function of its scores and grades."""
        return LOSSES[self.loss]

    def scores_of(self, net: Any, part: Queries) -> Tensor:
        """Compute the net's scores (n_docs,) of scaled queries, with gradients."""
        raise NotImplementedError

    # An epoch passes over all documents. If the net or the loss compares pairs, it passes over all
    # pairs of documents of each query.
    solve = descend


@dataclass(frozen=True)
class DenseSettings(ContextSettings):
    """Settings of FATE-Net and FETA-Net, nets of dense layers."""

    kind: ClassVar[str] = "fate"
    grids = (
        {"scaling": ["query+rank", "normal", "standard"]},
        {"weight_decay": [0.0, 0.1, 1.0]},
    )
    # fmt: off
    architecture: str = setting(
        "fate", "First aggregate, then evaluate (fate), or the reverse (feta).", COMPARATOR,
        choices=tuple(_FIXED))
    hidden: tuple[int, ...] | None = setting(
        None, "Hidden units per layer, such as 64 or 64,64, of each of the two nets; default: "
        "128,128,128 for FATE-Net, 32,32 for FETA-Net.", COMPARATOR)
    units: str | None = setting(
        None, "Hidden units: selu, or relu after batch normalisation; default: relu for "
        "FATE-Net, selu for FETA-Net.", COMPARATOR,
        choices=UNITS)
    pair: str = setting(
        "cmpnn", "FETA-Net's net that compares two documents: the paper's cmpnn, whose tanh units "
        "are shared by both orders of a pair, or free, with hidden units of the setting units.",
        COMPARATOR, choices=PAIR_NETS)
    chunk: int = setting(
        1 << 16, "Pairs of documents that FETA-Net compares at once, which bounds memory.",
        COMPARATOR, least=1)
    # fmt: on

    @property
    def fixed(self) -> dict[str, Any]:
        return super().fixed | _FIXED[self.architecture]

    def net(self, n_columns: int) -> FateNet | FetaNet:
        """Make the net of the architecture with random weights, in evaluation mode."""
        values = self.filled
        arguments = {name: values[name] for name in ("hidden", "units", "seed")}
        if self.architecture == "fate":
            return FateNet(n_columns, **arguments).eval()
        return FetaNet(n_columns, **arguments, pair=self.pair, chunk=self.chunk).eval()

    def scores_of(self, net: Net, part: Queries) -> Tensor:
        """Compute the net's scores (n_docs,) of scaled queries, some queries at a time."""
        scores = [torch.empty(0)]
        # The queries `first` to `stop` - 1 are scored together.
        for first, stop in runs_of_queries(part.offsets, _DOCUMENTS):
            features = part.features[part.offsets[first] : part.offsets[stop]]
            sizes = part.sizes[first:stop]
            scores.append(net(torch.from_numpy(features), torch.from_numpy(sizes)))
        return torch.cat(scores)


@dataclass(frozen=True)
class SetSettings(ContextSettings):
    """Settings of the set transformer."""

    kind: ClassVar[str] = "set-transformer"
    grids = (  # with few epochs and dropout, because the net soon overfits
        {"scaling": ["query+rank", "normal"], "epochs": [10], "dropout": [0.2]},
        {"width": [16, 32]},
    )
    # fmt: off
    algorithm: str = setting(
        "listnet", "ListNet's loss, or SetRank's larger net with a choice of loss (setrank).",
        TRAINING, choices=tuple(_FIXED_OF_SETS))
    width: int | None = setting(
        None, "Width of a document's embedding, a multiple of the heads; default: 16, or 64 "
        "for setrank.", COMPARATOR, least=1, most=4096)
    heads: int | None = setting(
        None, "Heads of the attention; default: 2, or 4 for setrank.", COMPARATOR, least=1,
        most=4096)
    layers: int | None = setting(
        None, "Layers of attention; default: 2, or 3 for setrank.", COMPARATOR, least=1, most=100)
    points: int | None = setting(
        None,
        "Learned points through which documents attend to each other; 0: directly. Default: 32 "
        f"if a training query has more than {_MANY} documents, else 0.", COMPARATOR,
        least=0, most=4096)
    dropout: float = setting(
        0.0, "Dropout rate of the output of a block.", TRAINING, within="from 0 to below 1")
    # fmt: on

    @property
    def fixed(self) -> dict[str, Any]:
        return super().fixed | _FIXED_OF_SETS[self.algorithm]

    @property
    def query_loss(self) -> Loss:
        return listnet if self.algorithm == "listnet" else super().query_loss

    def candidates(self, train: Queries) -> list[Self]:
        """List candidates: the settings, with a number of points for the longest training query."""
        points = self.points
        if points is None:
            points = _POINTS if train.sizes.max() > _MANY else 0
        return [candidate.changed(points=points) for candidate in super().candidates(train)]

    def net(self, n_columns: int) -> SetEncoder:
        """Make the net with random weights, in evaluation mode."""
        values = self.filled | {"points": self.points or 0}
        names = ["width", "heads", "layers", "points", "dropout", "seed"]
        return SetEncoder(n_columns, **{name: values[name] for name in names}).eval()

    def scores_of(self, net: SetEncoder, part: Queries) -> Tensor:
        """Compute the net's scores (n_docs,) of scaled queries, with gradients.

        Queries of similar sizes are scored together, as many as fit into memory.

        Raises:
            DataError: if the attention among the documents of a query does not fit into memory.
        """
        docs = [np.empty(0, np.int64)]
        scores = [torch.empty(0)]
        queries = np.argsort(part.sizes, kind="stable")[::-1]  # the longest queries first
        queries = queries[part.sizes[queries] > 0]
        while len(queries):
            n_queries = self._queries_at_once(int(part.sizes[queries[0]]), part.source)
            batch = queries[:n_queries]
            queries = queries[n_queries:]
            numbers, is_document = padded(part, batch)
            x = torch.from_numpy(part.features[numbers] * is_document[..., None])
            mask = torch.from_numpy(is_document)
            docs.append(numbers[is_document])
            scores.append(net(x, mask)[mask])
        # The scores are in the order of the batches; put them in the order of the documents.
        position_of_doc = np.argsort(np.concatenate(docs))
        return torch.cat(scores)[torch.from_numpy(position_of_doc)]

    def _queries_at_once(self, longest: int, source: str) -> int:
        """Compute how many queries of at most `longest` documents are scored together.

        Raises:
            DataError: if the attention among the documents of one query does not fit into memory.
        """
        width = self.filled["width"]
        heads = self.filled["heads"]
        if longest > _MANY and not self.points:
            refuse_too_large(
                _BYTES * heads * longest**2,
                f"{source}: the attention among {longest} documents of a query",
            )
        n_attended = self.points or longest
        numbers_per_query = longest * int(max(width, heads * n_attended))
        return max(1, _NUMBERS // numbers_per_query)

    def least_weights(self, n_columns: int) -> int:
        """Count the weights of the embedding, and a square matrix of weights for each layer."""
        width: int = self.filled["width"]
        layers: int = self.filled["layers"]
        return width * (n_columns + layers * width)
