"""A set transformer: a document's score depends on the other documents of its query.

Self-attention over the query, see `sortnet.context.attention`, trained by the cross entropy of
ListNet. Beyond the papers: Pang et al. 2020, SetRank, learn such a ranker by the same loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from sortnet.comparators.base import one_thread_an_operation
from sortnet.config import COMPARATOR, TRAINING, setting
from sortnet.context.attention import SetEncoder
from sortnet.data.scaling import fit_scaler
from sortnet.rankers.base import Kind, ScaledRanker, check_graded, kind_module
from sortnet.rankers.folder import Saved
from sortnet.rankers.listwise import DescentSettings, Loss, descend, listnet
from sortnet.rankers.nets import settled
from sortnet.rankers.weights import refuse_few, scaler_tensors, take_scaler
from sortnet.types import F32, I64, Progress, Queries
from sortnet.types.free import refuse_too_large

_MANY = 300  # documents of a query, above which they attend to each other by way of points
_POINTS = 32
_WEIGHT_DECAY = 0.3  # a set is easily learned by heart
_NUMBERS = 1 << 22  # of a batch: its attention or its hidden units, which bounds memory
_BYTES = 8  # of a number of the attention, and of its softmax


@dataclass(frozen=True)
class SetSettings(DescentSettings):
    """Settings of the set transformer."""

    kind: ClassVar[str] = "set-transformer"
    loss: ClassVar[Loss] = staticmethod(listnet)
    optimizer: ClassVar[str] = "adamw"
    # fmt: off
    width: int = setting(
        16, "Width of a document's embedding, a multiple of the heads.", COMPARATOR,
        least=1, most=4096)
    heads: int = setting(2, "Heads of the attention.", COMPARATOR, least=1, most=4096)
    layers: int = setting(2, "Layers of attention.", COMPARATOR, least=1, most=100)
    points: int | None = setting(
        None,
        "Learned points by way of which documents attend to each other, 0: directly; default: 32 "
        f"if a training query has more than {_MANY} documents, else 0.", COMPARATOR,
        least=0, most=4096)
    weight_decay: float | None = setting(None, "Weight decay; default: 0.3.", TRAINING)
    # fmt: on

    def net(self, n_columns: int) -> SetEncoder:
        """The net with random weights."""
        return SetEncoder(
            n_columns, width=self.width, heads=self.heads, layers=self.layers,
            points=self.points or 0, dropout=self.dropout, seed=self.seed,
        ).eval()  # fmt: skip


@dataclass(frozen=True, eq=False)
class SetRanker(ScaledRanker):
    """Ranks by the scores of a `SetEncoder`."""

    config: SetSettings
    net: SetEncoder

    @property
    def depends_on_query(self) -> bool:
        return True

    def scores(self, queries: Queries) -> F32:
        self.check_features(queries)
        with torch.no_grad(), one_thread_an_operation():
            found: F32 = scores_of(self.net, self.scaler(queries), self.config).numpy()
        return found

    def order_before(self, queries: Queries) -> I64:
        return replace(self, net=self.config.net(self.scaler.n_columns)).order(queries)

    def tensors(self) -> dict[str, Tensor]:
        weights = {name: weight.clone() for name, weight in self.net.state_dict().items()}
        return weights | scaler_tensors(self.scaler)


def scores_of(net: SetEncoder, part: Queries, config: SetSettings) -> Tensor:
    """(n_docs,) the scores of scaled queries, with their gradient; in batches of like lengths.

    Raises:
        DataError: if the attention among the documents of a query does not fit into memory.
    """
    order = np.argsort(part.sizes, kind="stable")
    order = order[part.sizes[order] > 0]
    docs, found = [np.empty(0, np.int64)], [torch.empty(0)]
    while len(order):
        longest = int(part.sizes[order[-1]])
        if longest > _MANY and not config.points:
            refuse_too_large(
                _BYTES * config.heads * longest**2,
                f"{part.source}: the attention among {longest} documents of a query",
            )
        a_query = longest * max(config.width, config.heads * (config.points or longest))
        batch, order = np.split(order[::-1], [max(1, _NUMBERS // a_query)])
        order = order[::-1]
        numbers, there = _padded(part, batch)
        x = torch.from_numpy(part.features[numbers] * there[..., None])
        mask = torch.from_numpy(there)
        docs.append(numbers[there])
        found.append(net(x, mask)[mask])
    place = torch.from_numpy(np.argsort(np.concatenate(docs)))
    return torch.cat(found)[place]


def _padded(part: Queries, batch: I64) -> tuple[I64, Any]:
    """(q, n) document numbers of some queries, 0 in the padding, and (q, n) what is none."""
    sizes = part.sizes[batch, None]
    place = np.arange(sizes.max())
    there = place < sizes
    return np.where(there, part.offsets[batch, None] + place, 0), there


def fit(
    train: Queries,
    vali: Queries,
    config: SetSettings,
    *,
    callbacks: Sequence[Any] = (),
    progress: Progress = lambda text: None,
) -> SetRanker:
    """As `sortnet.rankers.listwise.fit`, with the net of whole queries.

    Raises:
        DataError: if no training query has documents of two grades, they are judged pairs or have
            weights, or a query is too long for memory.
        DivergedError: if the loss is no longer a number.

    Cost: an epoch passes over all documents, and over the squares of the queries' lengths where
    there are no points.
    """
    check_graded(train, config)
    penalty = _WEIGHT_DECAY if config.weight_decay is None else config.weight_decay
    points = _POINTS if train.sizes.max() > _MANY else 0
    points = points if config.points is None else config.points
    config = settled(config.changed(weight_decay=penalty, points=points))
    scaler = fit_scaler(str(config.scaling), train, seed=config.seed)
    net = config.net(scaler.n_columns)
    info = descend(
        net,
        scaler(train),
        scaler(vali),
        config,
        lambda part: scores_of(net, part, config),
        progress,
    )
    return SetRanker(config, scaler, net, feature_names=train.feature_names, info=info)


def load(saved: Saved) -> SetRanker:
    """The net in a folder."""
    config = saved.settings(kind_module(saved.kind).SETTINGS)
    scaler = take_scaler(saved, str(config.scaling))
    least = config.width * (scaler.n_columns + config.layers * config.width)
    refuse_few(saved.tensors, least, saved.weights)
    net = config.net(scaler.n_columns)
    weights = net.state_dict().items()
    net.load_state_dict({name: saved.take(name, own.dtype, *own.shape) for name, own in weights})
    return SetRanker(config, scaler, net, feature_names=saved.feature_names, info=saved.info)


def grids_for(train: Queries) -> list[dict[str, list[Any]]]:
    """What `tune` tries where no grid is given."""
    few: dict[str, list[Any]] = {"epochs": [10], "dropout": [0.2]}  # it learns by heart soon
    return [{"scaling": ["query+rank", "normal"], **few}, {"width": [16, 32]}]


SET_TRANSFORMER = Kind(SetSettings, fit, load, grids_for)
