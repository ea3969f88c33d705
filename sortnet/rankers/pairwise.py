"""Rankers with a net that scores each document alone; DirectRanker, trained on fixed pairs.

    r(x, y) = τ(w · (f(x) - f(y)))

The preference r of document x over document y depends on a net f, a weight vector w and an
activation function τ. This is DirectRanker (Köppel et al. 2019, Pairwise Learning to Rank by Neural
Networks Revisited), which the same authors call RankNet* in 2025. Because r is transitive, pairs of
neighbouring grades suffice; because r is antisymmetric, the document of the higher grade can always
come first. The pairs are chosen once, before the training, while the loop of SortNet chooses pairs
by the comparator's margins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import comb
from typing import Any, ClassVar

import numpy as np
from torch import nn

from sortnet.comparators import DirectRanker, TrainableComparator
from sortnet.comparators.directranker import Polynomial
from sortnet.config import COMPARATOR, RUN, TRAINING, Settings, Training, setting
from sortnet.core import F32, I64, Bool, ComparedPairs, Progress, Queries
from sortnet.core.pairs import packed, unordered
from sortnet.learning.judges import can_be_learned
from sortnet.learning.pairs_to_ask import (
    SortedPart,
    answered_pairs,
    pairs_of_grades,
    select_pairs,
)
from sortnet.learning.training import train_on_pairs
from sortnet.rankers.base import Ranker, Solved, scaling_setting
from sortnet.rankers.model import Model, load_weights
from sortnet.rankers.model_folder import Saved
from sortnet.sorting import sort


@dataclass(frozen=True, eq=False)
class NetRanker(Model):
    """Ranker by the score that the net of a `DirectRanker` gives a document."""

    config: NetSettings  # type: ignore[assignment]

    def order(self, queries: Queries) -> I64:
        return Ranker.order(self, queries)

    def scores(self, queries: Queries) -> F32:
        return self.real_scores(queries)


@dataclass(frozen=True)
class TorchSettings(Settings):
    """Settings of a net of torch, which is made, and read from a model folder, by them."""

    prefix: ClassVar[str] = ""  # beginning of the names of the net's arrays in a model folder

    @property
    def filled(self) -> dict[str, Any]:
        """The values of all settings by name, with the default from `fixed` in place of None."""
        values = self.flat()
        return values | {k: v for k, v in self.fixed.items() if values.get(k) is None}

    def net(self, n_columns: int) -> Any:
        """Make the net for `n_columns` columns, with random weights from the seed."""
        raise NotImplementedError

    def least_weights(self, n_columns: int) -> int:
        """Count the weights between the hidden layers: a lower bound on the weights of the net."""
        layers = pairwise((n_columns, *self.filled["hidden"]))
        return sum(n_inputs * n_units for n_inputs, n_units in layers)

    def read(self, saved: Saved, n_columns: int) -> Any:
        """Make the net with the weights of a model folder."""
        saved.tensors.refuse_few(self.least_weights(n_columns))
        net = self.net(n_columns)
        load_weights(net, self.prefix, saved.tensors)
        return net


@dataclass(frozen=True)
class NetSettings(TorchSettings):
    """Settings of a net that scores documents; `solve` of a subclass finds the weights of the net.

    Settings that SortNet also has have the same defaults as SortNet's settings.
    """

    ranker: ClassVar[type[NetRanker]] = NetRanker
    prefix: ClassVar[str] = "comparator.0."
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
    dropout: float = setting(
        0.0, "Dropout rate of the hidden units.", TRAINING, within="from 0 to below 1")
    # fmt: on

    def net(self, n_columns: int) -> DirectRanker:
        """Make the net for `n_columns` columns, with random weights from the seed."""
        values = self.filled
        return DirectRanker(
            n_columns,
            hidden=values["hidden"],
            units=values["units"],
            # Only the kind DirectRanker has a setting for the output activation.
            tau=values["tau"] if "tau" in self.flat() else "identity",
            dropout=self.dropout,
            seed=self.seed,
            feature_part=self.feature_part(n_columns),
        )

    def feature_part(self, n_columns: int) -> nn.Module | None:
        """Make a module to use in place of the hidden layers; None: use the hidden layers."""
        return None


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
        "all", "Pairs of a query that are learned from: all, neighbours in grade, or random "
        "pairs, as many as a sort compares.", RUN, choices=("all", "neighbours", "random"))
    tau: str | None = setting(
        None, "Output activation; default: tanh.", COMPARATOR,
        choices=("tanh", "identity", "sigmoid"))
    part: str = setting(
        "net", "Features of a document: outputs of a net with hidden units, or all products "
        "of up to `degree` features.", COMPARATOR, choices=("net", "polynomial"))
    degree: int = setting(2, "Degree of the polynomial.", COMPARATOR, least=1, most=10)
    # fmt: on
    training: Training = field(default_factory=Training)

    def feature_part(self, n_columns: int) -> nn.Module | None:
        """Make the polynomial if the setting `part` asks for it; None: use the hidden layers."""
        if self.part == "polynomial":
            return Polynomial(n_columns, self.degree)
        return None

    def least_weights(self, n_columns: int) -> int:
        """Count the weights of the hidden layers, or the products of 1 to `degree` features."""
        if self.part == "net":
            return super().least_weights(n_columns)
        return comb(n_columns + self.degree, self.degree) - 1

    @property
    def takes_judged(self) -> bool:  # type: ignore[override]
        """Whether the ranker learns from judged pairs: if it learns from all pairs of a query."""
        return self.pairs_from == "all"

    def solve(self, train: Queries, vali: Queries, progress: Progress) -> Solved:
        """Train a net on pairs of training queries; keep the epoch that ranks `vali` best.

        Returns:
            The net of the epoch with the best RankQuality on the validation queries; and the number
            of training pairs, the epoch that was kept and the number of epochs.

        Cost: see `train_on_pairs`; 8 bytes a pair.
        """
        net = self.net(train.n_features)
        rng = np.random.default_rng(self.seed)
        training_pairs = chosen_pairs(train, net, self.pairs_from, rng)
        validation_pairs = ComparedPairs.empty()
        if can_be_learned(vali):
            validation_pairs = chosen_pairs(vali, net, self.pairs_from, rng)
        trained = train_on_pairs(
            net, train, training_pairs, vali, validation_pairs, self.training,
            score=lambda net: self.quality_of(vali, sort(net, vali).order),
            seed=self.seed, progress=progress,
        )  # fmt: skip
        info = {
            "pairs": len(training_pairs),
            "epoch": trained.kept_epoch,
            "epochs": trained.epochs,
        }
        return net, info


def chosen_pairs(
    part: Queries, net: TrainableComparator, strategy: str, rng: np.random.Generator
) -> ComparedPairs:
    """Choose the pairs of documents to learn from.

    Args:
        part: queries with grades or judged pairs; judged pairs are all chosen.
        net: the net before the training.
        strategy: name of the strategy for graded queries. The strategy "random" draws as many pairs
            as a sort compares at most, n ⌈log2 n⌉ for a query of n documents.
        rng: random generator.
    """
    if part.judged is not None:
        pair_keys = np.sort(unordered(part.judged.winner, part.judged.loser))
        return answered_pairs(part, pair_keys)
    if strategy == "random":
        n = part.sizes[part.sizes > 1]
        n_pairs = int((n * np.ceil(np.log2(n))).sum())
        pair_keys, _ = select_pairs("random", SortedPart(part, net, n_pairs, rng))
        return answered_pairs(part, pair_keys)
    pairs = pairs_of_grades(part)
    return pairs.where(_are_adjacent(part, pairs)) if strategy == "neighbours" else pairs


def _are_adjacent(queries: Queries, pairs: ComparedPairs) -> Bool:
    """Find the pairs of adjacent grades, from which the order of all other pairs follows, (m,).

    Two grades of a query are adjacent if no document of the query has a grade between them.
    """
    # Number the combinations of query and grade in ascending order: the numbers of adjacent grades
    # of a query differ by 1.
    query_and_grade = packed(queries.query_of_docs(), queries.grades)
    number = np.searchsorted(np.unique(query_and_grade), query_and_grade)
    are_adjacent: Bool = number[pairs.i] - number[pairs.j] == 1
    return are_adjacent
