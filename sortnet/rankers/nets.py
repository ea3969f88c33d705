"""A net that scores each document alone, as a ranker: what listwise and pairwise kinds share."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import nn

from sortnet.comparators import DirectRanker, Learner, Make
from sortnet.config import COMPARATOR, FIXED, SCALINGS, TRAINING, Settings, setting
from sortnet.rankers.base import Ranker
from sortnet.rankers.folder import Saved
from sortnet.rankers.sortnet import Model
from sortnet.rankers.weights import filled, refuse_few
from sortnet.types import F32, I64, Queries


@dataclass(frozen=True, eq=False)
class NetRanker(Model):
    """Ranks by g(x) of a `DirectRanker`."""

    config: NetSettings  # type: ignore[assignment]

    def order(self, queries: Queries) -> I64:
        return Ranker.order(self, queries)

    def scores(self, queries: Queries) -> F32:
        return self.real_scores(queries)

    def untrained(self) -> Model:
        net = self.config.make(self.scaler.n_columns)(self.config.seed)
        return NetRanker(self.config, self.scaler, net, feature_names=self.feature_names)


@dataclass(frozen=True)
class NetSettings(Settings):
    """Settings of a net g(x), of which `solve` of its own finds the weights.

    What SortNet has too has the same default here.
    """

    ranker: ClassVar[type[NetRanker]] = NetRanker
    grids = (
        {"scaling": ["query+rank", "normal", "query"]},
        {"hidden": [(10,), (32,), (64, 64)], "weight_decay": [0.0, 0.03, 0.3]},
    )
    # fmt: off
    scaling: str | None = setting(
        None, f"Scaling, parts of {', '.join(SCALINGS)} joined by +; default: query+rank.",
        COMPARATOR, choices=SCALINGS, joined=True)
    hidden: tuple[int, ...] | None = setting(
        None, "Hidden units per layer, such as 20 or 32,20,5; default: 32.", COMPARATOR)
    units: str | None = setting(
        None, "Activation function of the hidden units; default: tanh.", COMPARATOR,
        choices=("tanh", "sigmoid", "relu"))
    dropout: float = setting(0.0, "Dropout rate of the hidden units.", TRAINING)
    # fmt: on

    def make(self, n_columns: int) -> Make:
        """What makes the net from a seed, for as many columns."""
        return lambda seed: DirectRanker(
            n_columns, hidden=self.hidden or FIXED["hidden"], units=self.units or FIXED["units"],
            tau=self.flat().get("tau", "identity") or FIXED["tau"], dropout=self.dropout, seed=seed,
            feature_part=self.feature_part(n_columns, seed),
        )  # fmt: skip

    def feature_part(self, n_columns: int, seed: int) -> nn.Module | None:
        """f, in place of the layers of `hidden`; None: these."""
        return None

    def read(self, saved: Saved, n_columns: int) -> Learner:
        refuse_few(saved.tensors, self.least_numbers(n_columns), saved.weights)
        return filled(self.make(n_columns), "comparator", saved.tensors, saved.weights)

    def least_numbers(self, n_columns: int) -> int:
        """Weights that the net has at least, as `refuse_few` takes them."""
        layers = pairwise((n_columns, *(self.hidden or ())))
        return sum(a * b for a, b in layers)
