"""Rankers whose net sees a query whole: what the kinds of `sortnet.context` share.

A score depends on the other documents of the query and not on their order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from sortnet.config import COMPARATOR, FIXED, SCALINGS, TRAINING, setting
from sortnet.context.losses import LOSSES, Loss
from sortnet.data.scaling import fit_scaler
from sortnet.errors import DataError
from sortnet.rankers.base import ScaledRanker, check_graded, kind_module
from sortnet.rankers.folder import Saved
from sortnet.rankers.listwise import DescentSettings, descend
from sortnet.rankers.nets import settled
from sortnet.rankers.weights import refuse_few, scaler_tensors, take_scaler
from sortnet.threads import one_thread_an_operation
from sortnet.types import F32, I64, Progress, Queries


@dataclass(frozen=True)
class SetNetSettings(DescentSettings):
    """Settings of a net of whole queries.

    Attributes:
        fixed: what is taken for settings left open.
    """

    fixed: ClassVar[dict[str, Any]] = FIXED

    def settled_for(self, train: Queries) -> Self:
        """These settings with values for what they leave open."""
        return settled(self, self.fixed)

    def net(self, n_columns: int) -> Any:
        """The net with random weights, as it predicts."""
        raise NotImplementedError

    def scores_of(self, net: Any, part: Queries) -> Tensor:
        """(n_docs,) the scores of scaled queries, with their gradient."""
        raise NotImplementedError

    def least_numbers(self, n_columns: int) -> int:
        """Weights that the net has at least, as `refuse_few` takes them."""
        raise NotImplementedError


@dataclass(frozen=True)
class ContextSettings(SetNetSettings):
    """Settings of a net of whole queries, of which loss and optimizer are chosen."""

    nesterov: ClassVar[bool] = True
    fixed: ClassVar[dict[str, Any]] = {"scaling": "standard", "weight_decay": 0.0}
    # fmt: off
    scaling: str | None = setting(
        None, f"Scaling, parts of {', '.join(SCALINGS)} joined by +; default: standard.",
        COMPARATOR, choices=SCALINGS, joined=True)
    weight_decay: float | None = setting(
        None, "Weight decay; of adamw apart from the gradient, else an L2 penalty; default: 0, "
        "of FATE-Net 0.5.",
        TRAINING)
    loss: str = setting(  # type: ignore[misc,assignment]
        "logistic",
        "Loss of a query: of its pairs of two grades the mean logistic or hinge one, Plackett-Luce "
        "or softmax.", TRAINING, choices=tuple(LOSSES))
    optimizer: str = setting(  # type: ignore[misc]
        "adamw", "AdamW, Adam, or SGD with Nesterov momentum.", TRAINING,
        choices=("adamw", "adam", "sgd"))
    l1: float = setting(0.0, "L1 penalty of the weights.", TRAINING)  # type: ignore[misc]
    queries: int = setting(64, "Queries of a mini-batch.", TRAINING, least=1)
    # fmt: on

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.l1 < math.inf:
            raise DataError(f"l1 must be 0 or more, got {self.l1}")

    @property
    def query_loss(self) -> Loss:
        return LOSSES[self.loss]


@dataclass(frozen=True, eq=False)
class SetRanker(ScaledRanker):
    """Ranks by the scores of a net of whole queries."""

    config: SetNetSettings
    net: nn.Module

    @property
    def depends_on_query(self) -> bool:
        return True

    def scores(self, queries: Queries) -> F32:
        self.check_features(queries)
        with torch.no_grad(), one_thread_an_operation():
            found: F32 = self.config.scores_of(self.net, self.scaler(queries)).numpy()
        return found

    def order_before(self, queries: Queries) -> I64:
        return replace(self, net=self.config.net(self.scaler.n_columns)).order(queries)

    def tensors(self) -> dict[str, Tensor]:
        weights = {name: weight.clone() for name, weight in self.net.state_dict().items()}
        return weights | scaler_tensors(self.scaler)


def fit(
    train: Queries,
    vali: Queries,
    config: SetNetSettings,
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
    the net or the loss is of pairs.
    """
    check_graded(train, config)
    config = config.settled_for(train)
    scaler = fit_scaler(str(config.scaling), train, seed=config.seed)
    net = config.net(scaler.n_columns)
    info = descend(
        net,
        scaler(train),
        scaler(vali),
        config,
        lambda part: config.scores_of(net, part),
        progress,
    )
    return SetRanker(config, scaler, net, feature_names=train.feature_names, info=info)


def load(saved: Saved) -> SetRanker:
    """The net in a folder."""
    config = saved.settings(kind_module(saved.kind).SETTINGS)
    scaler = take_scaler(saved, str(config.scaling))
    refuse_few(saved.tensors, config.least_numbers(scaler.n_columns), saved.weights)
    net = config.net(scaler.n_columns)
    weights = net.state_dict().items()
    net.load_state_dict({name: saved.take(name, own.dtype, *own.shape) for name, own in weights})
    return SetRanker(config, scaler, net, feature_names=saved.feature_names, info=saved.info)
