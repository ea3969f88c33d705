"""Rankers whose net sees a query whole: FATE-Net, FETA-Net, and what `sortnet.context` shares.

A score depends on the other documents of the query and not on their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from sortnet.comparators.losses import LOSSES, Loss
from sortnet.config import COMPARATOR, TRAINING, Settings, setting
from sortnet.context.nets import PAIR_NETS, UNITS, FateNet, FetaNet
from sortnet.core import F32, I64, Progress, Queries
from sortnet.core.large_arrays import runs_of_queries
from sortnet.rankers.base import Ranker, scaling_setting
from sortnet.rankers.listwise import EPOCHS, LR, QUERIES, descend
from sortnet.rankers.model_folder import Array, Saved
from sortnet.rankers.weights import arrays_of, load_weights, refuse_few
from sortnet.threads import one_thread_an_operation

_DOCUMENTS = 1 << 14  # at once, but a query is not divided
# What is taken for settings left open.
_FIXED: dict[str, dict[str, Any]] = {
    "fate": {"hidden": (128, 128, 128), "units": "relu", "weight_decay": 0.5},
    "feta": {"hidden": (32, 32), "units": "selu"},
}


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

    def learned(self) -> dict[str, Array]:
        return arrays_of(self.net)


@dataclass(frozen=True)
class ContextSettings(Settings):
    """Settings of a net of whole queries."""

    ranker: ClassVar[type[SetRanker]] = SetRanker
    nesterov: ClassVar[bool] = True
    # fmt: off
    scaling: str | None = scaling_setting("standard, of set-transformer query+rank")
    epochs: int = setting(40, EPOCHS, TRAINING, least=1)
    queries: int | None = setting(
        None, f"{QUERIES[:-1]}; default: 64, of set-transformer 8.", TRAINING, least=1)
    lr: float = setting(0.03, LR, TRAINING, within="above 0")
    weight_decay: float | None = setting(
        None, "Weight decay; of adamw apart from the gradient, else an L2 penalty; default: 0, "
        "of FATE-Net 0.5, of set-transformer 0.3.", TRAINING, within="0 or more")
    loss: str = setting(
        "logistic",
        "Loss of a query: of its pairs of two grades the mean logistic or hinge one, Plackett-"
        "Luce or softmax; set-transformer takes ListNet's.", TRAINING, choices=tuple(LOSSES))
    optimizer: str = setting(
        "adamw", "AdamW, Adam, or SGD with Nesterov momentum.", TRAINING,
        choices=("adamw", "adam", "sgd"))
    l1: float = setting(0.0, "L1 penalty of the weights.", TRAINING, within="0 or more")
    # fmt: on

    @property
    def fixed(self) -> dict[str, Any]:
        return {"scaling": "standard", "weight_decay": 0.0, "queries": 64}

    @property
    def query_loss(self) -> Loss:
        """The loss of a query."""
        return LOSSES[self.loss]

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
        load_weights(net, "", saved.tensors, saved.weights)
        return net


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
        "128,128,128 of FATE-Net, 32,32 of FETA-Net.", COMPARATOR)
    units: str | None = setting(
        None, "Hidden units: selu, or relu behind batch normalisation; default: relu of "
        "FATE-Net, selu of FETA-Net.", COMPARATOR,
        choices=UNITS)
    pair: str = setting(
        "cmpnn", "FETA-Net's net of a document against another: cmpnn, the paper's, of tanh units "
        "that two orders of a pair share, or free, of these units.", COMPARATOR, choices=PAIR_NETS)
    chunk: int = setting(
        1 << 16, "Pairs of documents that FETA-Net compares at once, which bounds memory.",
        COMPARATOR, least=1)
    # fmt: on

    @property
    def fixed(self) -> dict[str, Any]:
        return super().fixed | _FIXED[self.architecture]

    def net(self, n_columns: int) -> FateNet | FetaNet:
        made: dict[str, Any] = {"hidden": self.layers, "seed": self.seed}
        made["units"] = self.units or self.fixed["units"]
        if self.architecture == "fate":
            return FateNet(n_columns, **made).eval()
        return FetaNet(n_columns, pair=self.pair, chunk=self.chunk, **made).eval()

    def scores_of(self, net: nn.Module, part: Queries) -> Tensor:
        found, offsets = [torch.empty(0)], part.offsets
        for first, last in runs_of_queries(offsets, _DOCUMENTS):
            some = part.features[offsets[first] : offsets[last]], part.sizes[first:last]
            found.append(net(*map(torch.from_numpy, some)))
        return torch.cat(found)

    @property
    def layers(self) -> tuple[int, ...]:
        """Hidden units per layer, of either net."""
        found: tuple[int, ...] = self.hidden or self.fixed["hidden"]
        return found

    def least_numbers(self, n_columns: int) -> int:
        return 2 * sum(a * b for a, b in pairwise((n_columns, *self.layers)))
