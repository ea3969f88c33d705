"""Rankers with nets of whole queries: FATE-Net, FETA-Net, and the base of the set transformer.

A score depends on all documents of the query, but not on their order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from sortnet.comparators.base import Net
from sortnet.comparators.losses import LOSSES, Loss
from sortnet.config import COMPARATOR, TRAINING, setting
from sortnet.context.nets import PAIR_NETS, UNITS, FateNet, FetaNet
from sortnet.core import F32, I64, Progress, Queries
from sortnet.core.large_arrays import runs_of_queries
from sortnet.rankers.base import Ranker, scaling_setting
from sortnet.rankers.listwise import EPOCHS, LR, QUERIES, descend
from sortnet.rankers.model_folder import Array
from sortnet.rankers.pairwise import TorchSettings
from sortnet.threads import one_thread_an_operation

_DOCUMENTS = 1 << 14  # documents scored at once; a longer query is scored alone
# Default values of settings that are None, by architecture.
_FIXED: dict[str, dict[str, Any]] = {
    "fate": {"hidden": (128, 128, 128), "units": "relu", "weight_decay": 0.5},
    "feta": {"hidden": (32, 32), "units": "selu"},
}


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

    def order_before(self, queries: Queries) -> I64:
        """Sort the documents by the net with random weights."""
        return replace(self, net=self.config.net(self.scaler.n_columns)).order(queries)

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

    def solve(
        self, train: Queries, vali: Queries, progress: Progress
    ) -> tuple[Any, dict[str, Any]]:
        """Train the net by `descend`.

        Cost: an epoch passes over all documents. If the net or the loss compares pairs, it passes
        over all pairs of documents of each query.
        """
        return descend(self, train, vali, progress)


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
