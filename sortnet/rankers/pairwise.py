"""A net that scores each document alone, as a ranker; DirectRanker, of pairs chosen once.

    r(x, y) = τ(w · (f(x) - f(y)))

DirectRanker is RankNet*. By transitivity pairs of neighbouring grades suffice, by antisymmetry
those with the higher grade first. (Köppel et al. 2019, Pairwise Learning to Rank by Neural Networks
Revisited; RankNet*: the same of 2025.) The loop of SortNet chooses pairs by what the comparator
says of them; this does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import comb
from typing import Any, ClassVar

import numpy as np
from torch import nn

from sortnet.comparators import DirectRanker, Make, TrainableComparator
from sortnet.comparators.directranker import Polynomial
from sortnet.config import COMPARATOR, RUN, TRAINING, Settings, Training, setting
from sortnet.core import F32, I64, ComparedPairs, Progress, Queries
from sortnet.core.pairs import unordered
from sortnet.learning.judges import can_be_learned
from sortnet.learning.pairs_to_ask import SortedPart, answered_pairs, selected
from sortnet.learning.training import train_on_pairs
from sortnet.rankers.base import Ranker, scaling_setting
from sortnet.rankers.model_folder import Saved
from sortnet.rankers.sortnet import Model
from sortnet.rankers.weights import filled, refuse_few
from sortnet.sorting import sort


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
    scaling: str | None = scaling_setting("query+rank")
    hidden: tuple[int, ...] | None = setting(
        None, "Hidden units per layer, such as 20 or 32,20,5; default: 32.", COMPARATOR)
    units: str | None = setting(
        None, "Activation function of the hidden units; default: tanh.", COMPARATOR,
        choices=("tanh", "sigmoid", "relu"))
    dropout: float = setting(0.0, "Dropout rate of the hidden units.", TRAINING)
    # fmt: on

    def make(self, n_columns: int) -> Make:
        """What makes the net from a seed, for as many columns."""
        fixed = self.fixed
        return lambda seed: DirectRanker(
            n_columns, hidden=self.hidden or fixed["hidden"], units=self.units or fixed["units"],
            tau=self.flat().get("tau", "identity") or fixed["tau"], dropout=self.dropout, seed=seed,
            feature_part=self.feature_part(n_columns, seed),
        )  # fmt: skip

    def feature_part(self, n_columns: int, seed: int) -> nn.Module | None:
        """f, in place of the layers of `hidden`; None: these."""
        return None

    def read(self, saved: Saved, n_columns: int) -> TrainableComparator:
        refuse_few(saved.tensors, self.least_numbers(n_columns), saved.weights)
        return filled(self.make(n_columns), "comparator", saved.tensors, saved.weights)

    def least_numbers(self, n_columns: int) -> int:
        """Weights that the net has at least, as `refuse_few` takes them."""
        layers = pairwise((n_columns, *(self.hidden or ())))
        return sum(a * b for a, b in layers)


@dataclass(frozen=True)
class PairwiseSettings(NetSettings):
    """Settings of DirectRanker."""

    kind: ClassVar[str] = "directranker"
    takes_weights: ClassVar[bool] = True
    grids = (
        {"scaling": ["query+rank", "normal", "query"], "loss": ["logistic", "squared"]},
        {"hidden": [(10,), (32,), (64, 64)], "weight_decay": [0.0, 0.03, 0.3]},
    )
    # fmt: off
    pairs_from: str = setting(
        "all", "Pairs of a query that are learned from: all, neighbours in grade, or random ones, "
        "as many as a sort compares.", RUN, choices=("all", "neighbours", "random"))
    tau: str | None = setting(
        None, "Output activation; default: tanh.", COMPARATOR,
        choices=("tanh", "identity", "sigmoid"))
    part: str = setting(
        "net", "What makes features of a document: a net of --hidden, or all products of up to "
        "`degree` features.", COMPARATOR, choices=("net", "polynomial"))
    degree: int = setting(2, "Degree of the polynomial.", COMPARATOR, least=1, most=10)
    # fmt: on
    training: Training = field(default_factory=Training)

    def feature_part(self, n_columns: int, seed: int) -> nn.Module | None:
        return Polynomial(n_columns, self.degree) if self.part == "polynomial" else None

    def least_numbers(self, n_columns: int) -> int:
        if self.part == "net":
            return super().least_numbers(n_columns)
        return comb(n_columns + self.degree, self.degree) - 1

    @property
    def takes_judged(self) -> bool:  # type: ignore[override]
        return self.pairs_from == "all"

    def solve(
        self, T: Queries, V: Queries, progress: Progress
    ) -> tuple[TrainableComparator, dict[str, Any]]:
        """Train on the pairs that are chosen; keep the epoch best by RankQuality on `V`.

        Cost: see `train_on_pairs`; of all pairs, 8 bytes each.
        """
        net = self.make(T.n_features)(self.seed)
        rng = np.random.default_rng(self.seed)
        TP = chosen_pairs(T, net, self.pairs_from, rng)
        VP = (
            chosen_pairs(V, net, self.pairs_from, rng)
            if can_be_learned(V)
            else ComparedPairs.empty()
        )
        trained = train_on_pairs(
            net, T, TP, V, VP, self.training,
            score=lambda net: self.quality_of(V, sort(net, V).order),
            seed=self.seed, progress=progress,
        )  # fmt: skip
        return net, {"pairs": len(TP), "epoch": trained.kept_epoch, "epochs": trained.epochs}


def chosen_pairs(
    part: Queries, net: TrainableComparator, strategy: str, rng: np.random.Generator
) -> ComparedPairs:
    """The pairs of a part that are learned from; as many random ones as a sort would compare."""
    if part.judged is not None:
        key = np.sort(unordered(part.judged.winner, part.judged.loser))
    else:
        n = part.sizes[part.sizes > 1]
        wanted = int((n * np.ceil(np.log2(n))).sum()) if strategy == "random" else None
        key, _ = selected(strategy, SortedPart(part, net, wanted, rng))
    return answered_pairs(part, key)
