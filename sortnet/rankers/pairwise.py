"""DirectRanker, which is RankNet*, on pairs that are chosen once: a comparator and its training.

    r(x, y) = τ(w · (f(x) - f(y)))

By transitivity pairs of neighbouring grades suffice, by antisymmetry those with the higher grade
first. (Köppel et al. 2019, Pairwise Learning to Rank by Neural Networks Revisited; RankNet*: the
same of 2025.) The loop of SortNet chooses pairs by what the comparator says of them; this does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import comb
from typing import Any, ClassVar

import numpy as np
from torch import nn

from sortnet.comparators import Learner
from sortnet.comparators.directranker import Polynomial
from sortnet.config import COMPARATOR, RUN, Training, setting
from sortnet.learning.judges import can_be_learned
from sortnet.learning.selection import Shown, answered_pairs, selected
from sortnet.learning.training import train_on_pairs
from sortnet.rankers.nets import NetSettings
from sortnet.sorting import sort
from sortnet.types import Pairs, Progress, Queries
from sortnet.types.packed_pairs import unordered


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

    def solve(self, T: Queries, V: Queries, progress: Progress) -> tuple[Learner, dict[str, Any]]:
        """Train on the pairs that are chosen; keep the epoch best by RankQuality on `V`.

        Cost: see `train_on_pairs`; of all pairs, 8 bytes each.
        """
        net = self.make(T.n_features)(self.seed)
        rng = np.random.default_rng(self.seed)
        TP = chosen_pairs(T, net, self.pairs_from, rng)
        VP = chosen_pairs(V, net, self.pairs_from, rng) if can_be_learned(V) else Pairs.empty()
        trained = train_on_pairs(
            net, T, TP, V, VP, self.training,
            score=lambda net: self.quality_of(V, sort(net, V).order),
            seed=self.seed, progress=progress,
        )  # fmt: skip
        return net, {"pairs": len(TP), "epoch": trained.kept_epoch, "epochs": trained.epochs}


def chosen_pairs(part: Queries, net: Learner, strategy: str, rng: np.random.Generator) -> Pairs:
    """The pairs of a part that are learned from; as many random ones as a sort would compare."""
    if part.judged is not None:
        key = np.sort(unordered(part.judged.winner, part.judged.loser))
    else:
        n = part.sizes[part.sizes > 1]
        wanted = int((n * np.ceil(np.log2(n))).sum()) if strategy == "random" else None
        key, _ = selected(strategy, Shown(part, net, wanted, rng))
    return answered_pairs(part, key)
