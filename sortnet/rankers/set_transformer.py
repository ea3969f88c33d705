"""Set transformer: a ranker whose score of a document depends on all documents of its query.

Every document attends to all documents of its query, see `sortnet.context.attention`. The kind
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

from sortnet.comparators.losses import Loss, listnet
from sortnet.config import COMPARATOR, TRAINING, setting
from sortnet.context.attention import SetEncoder
from sortnet.core import Queries
from sortnet.core.memory import refuse_too_large
from sortnet.rankers.context_rankers import ContextSettings
from sortnet.rankers.listwise import padded

_MANY = 300  # a query with more documents has attention through learned points by default
_POINTS = 32  # default number of learned points
_NUMBERS = 1 << 22  # numbers in the attention or the hidden units of a batch, to limit memory
_BYTES = 8  # memory of a number of the attention and of its softmax
# Defaults of each algorithm. ListNet has a weight decay because the net overfits soon without it.
_FIXED: dict[str, dict[str, Any]] = {
    "listnet": {
        "scaling": "query+rank", "width": 16, "heads": 2, "layers": 2, "queries": 8,
        "weight_decay": 0.3,
    },
    "setrank": {"width": 64, "heads": 4, "layers": 3},
}  # fmt: skip


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
        TRAINING, choices=tuple(_FIXED))
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
        return super().fixed | _FIXED[self.algorithm]

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

    def least_numbers(self, n_columns: int) -> int:
        """Count the weights of the embedding, and a square matrix of weights for each layer."""
        width: int = self.filled["width"]
        layers: int = self.filled["layers"]
        return width * (n_columns + layers * width)
