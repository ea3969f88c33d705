"""Rankers whose net sees a query whole: what the kinds of `sortnet.context` share.

A score depends on the other documents of the query and not on their order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from sortnet.config import COMPARATOR, SCALINGS, TRAINING, Settings, Training, setting
from sortnet.context.losses import LOSSES, Loss
from sortnet.errors import DataError
from sortnet.rankers.base import Ranker, filled_in
from sortnet.rankers.folder import Saved
from sortnet.rankers.listwise import EPOCHS, LR, QUERIES, descend
from sortnet.rankers.weights import refuse_few
from sortnet.threads import one_thread_an_operation
from sortnet.types import F32, I64, Progress, Queries


@dataclass(frozen=True, eq=False)
class SetRanker(Ranker):
    """Ranks by the scores of a net of whole queries."""

    config: ContextSettings
    net: nn.Module

    @property
    def depends_on_query(self) -> bool:
        return True

    def scores(self, queries: Queries) -> F32:
        with torch.no_grad(), one_thread_an_operation():
            found: F32 = self.config.scores_of(self.net, self.scaled(queries)).numpy()
        return found

    def order_before(self, queries: Queries) -> I64:
        return replace(self, net=self.config.net(self.scaler.n_columns)).order(queries)

    def learned(self) -> dict[str, Tensor]:
        return {name: weight.clone() for name, weight in self.net.state_dict().items()}


@dataclass(frozen=True)
class ContextSettings(Settings):
    """Settings of a net of whole queries."""

    ranker: ClassVar[type[SetRanker]] = SetRanker
    nesterov: ClassVar[bool] = True
    # fmt: off
    scaling: str | None = setting(
        None, f"Scaling, parts of {', '.join(SCALINGS)} joined by +; default: standard, of "
        "set-transformer query+rank.", COMPARATOR, choices=SCALINGS, joined=True)
    epochs: int = setting(40, EPOCHS, TRAINING, least=1)
    queries: int | None = setting(
        None, f"{QUERIES[:-1]}; default: 64, of set-transformer 8.", TRAINING, least=1)
    lr: float = setting(0.03, LR, TRAINING)
    weight_decay: float | None = setting(
        None, "Weight decay; of adamw apart from the gradient, else an L2 penalty; default: 0, "
        "of FATE-Net 0.5, of set-transformer 0.3.", TRAINING)
    loss: str = setting(
        "logistic",
        "Loss of a query: of its pairs of two grades the mean logistic or hinge one, Plackett-"
        "Luce or softmax; set-transformer takes ListNet's.", TRAINING, choices=tuple(LOSSES))
    optimizer: str = setting(
        "adamw", "AdamW, Adam, or SGD with Nesterov momentum.", TRAINING,
        choices=("adamw", "adam", "sgd"))
    l1: float = setting(0.0, "L1 penalty of the weights.", TRAINING)
    # fmt: on

    def __post_init__(self) -> None:
        Training(lr=self.lr, weight_decay=self.weight_decay)  # refuses what is out of range
        super().__post_init__()
        if not 0 <= self.l1 < math.inf:
            raise DataError(f"l1 must be 0 or more, got {self.l1}")

    @property
    def fixed(self) -> dict[str, Any]:
        """What is taken for settings left open."""
        return {"scaling": "standard", "weight_decay": 0.0, "queries": 64}

    @property
    def query_loss(self) -> Loss:
        """The loss of a query."""
        return LOSSES[self.loss]

    def candidates(self, train: Queries) -> list[Self]:
        return [filled_in(self, self.fixed)]

    def net(self, n_columns: int) -> Any:
        """The net with random weights, as it predicts."""
        raise NotImplementedError

    def scores_of(self, net: Any, part: Queries) -> Tensor:
        """(n_docs,) the scores of scaled queries, with their gradient."""
        raise NotImplementedError

    def least_numbers(self, n_columns: int) -> int:
        """Weights that the net has at least, as `refuse_few` takes them."""
        raise NotImplementedError

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[Any, dict[str, Any]]:
        """As of `ListwiseSettings`, with the net of whole queries.

        Cost: an epoch passes over all documents, and over the squares of the queries' lengths
        where the net or the loss is of pairs.
        """
        net = self.net(T.n_features)
        return net, descend(net, T, V, self, lambda part: self.scores_of(net, part), progress)

    def read(self, saved: Saved, n_columns: int) -> Any:
        refuse_few(saved.tensors, self.least_numbers(n_columns), saved.weights)
        net = self.net(n_columns)
        weights = net.state_dict().items()
        net.load_state_dict({key: saved.take(key, own.dtype, *own.shape) for key, own in weights})
        return net
