"""The settings of a run: one value that the command line, the estimator and model files share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import numpy as np

from sortnet.data.documents import check_fields
from sortnet.errors import ComparatorError, DataError, ModelError
from sortnet.metrics import Empty, Gain, Metric, check_can_choose, default_quality, parse_metric
from sortnet.types import Queries

OPTIMIZERS = ("adam", "sgd")
COMPARATORS = ("cmpnn", "directranker")
LARGEST_SEED = 2**63 - 1  # torch takes no larger one
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Training:
    """How a comparator is trained on a set of pairs.

    Attributes:
        epochs: passes over the pairs.
        batch_size: pairs a step, about (a step takes all pairs of some queries, or a part of those
            of a query that has more); None: a 64th of the pairs, but from 32 to 8,192, and an
            epoch of few pairs passes over them until it has made some 32 steps.
        lr: learning rate of the first epoch.
        lr_decay: factor on the learning rate, every `lr_decay_epochs` epochs (a staircase).
        lr_decay_epochs: epochs between two steps of the staircase.
        optimizer: `adam`, or `sgd` with `momentum`.
        weight_decay: L2 penalty, added to the gradient; None: chosen on the
            validation part, see `sortnet.learning.weight_decay`.
        patience: stop after so many epochs without a better loss on the validation pairs.
    """

    epochs: int = 8
    batch_size: int | None = None
    lr: float = 0.005
    lr_decay: float = 1.0
    lr_decay_epochs: int = 1
    optimizer: str = "adam"
    momentum: float = 0.9
    weight_decay: float | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "lr_decay_epochs", "patience"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= _MOST:
                raise ComparatorError(f"{name} must be from 1 to {_MOST}, got {value}")
        if not 0 < self.lr < math.inf or not 0 < self.lr_decay <= 1:
            raise ComparatorError(
                f"lr must be above 0 and lr_decay in (0, 1], got {self.lr} and {self.lr_decay}"
            )
        decay = 0.0 if self.weight_decay is None else self.weight_decay
        if not 0 <= decay < math.inf or not 0 <= self.momentum < 1:
            raise ComparatorError(
                f"weight_decay must be 0 or more and momentum in [0, 1), "
                f"got {decay} and {self.momentum}"
            )
        if self.optimizer not in OPTIMIZERS:
            raise ComparatorError(
                f"unknown optimizer {self.optimizer!r}; known are {', '.join(OPTIMIZERS)}"
            )


@dataclass(frozen=True)
class Config:
    """Everything that decides what a run learns, but for the data.

    Attributes:
        comparator: `cmpnn` or `directranker`.
        hidden: units of each hidden layer (CmpNN: dual pairs of them).
        units: the hidden units' function.
        tau: of a DirectRanker.
        dropout: share of hidden units left out in training.
        committee: comparators trained from different seeds whose margins are summed.
        scaling: `query`, `quantile` or `none`.
        quality: RankQuality, the measure that chooses the iteration; None: chosen by the grades,
            see `settle_quality`.
        gain: of NDCG, `exp` or `linear`.
        relevant_from: the lowest grade that the binary measures call relevant.
        empty: what a query without a relevant document counts for.
        max_iter: iterations, at most.
        max_stale: iterations in a row without a better RankQuality after which the run ends;
            None: never, as in the paper.
        warm_start: train on from the last weights, not from new random ones.
        training: of the comparator on pairs.
        seed: of everything random.
        device: `auto`, `cpu` or `cuda`; not kept in a model.
    """

    comparator: str = "cmpnn"
    hidden: tuple[int, ...] = (10,)
    units: str = "tanh"
    tau: str = "tanh"
    dropout: float = 0.0
    committee: int = 5
    scaling: str = "query"
    quality: str | None = None
    gain: Gain = "exp"
    relevant_from: int = 1
    empty: Empty = "zero"
    max_iter: int = 20
    max_stale: int | None = 5
    warm_start: bool = True
    training: Training = field(default_factory=Training)
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        from sortnet.data.scaling import SCALINGS

        object.__setattr__(self, "hidden", hidden_sizes(self.hidden))
        known = {
            "comparator": COMPARATORS,
            "scaling": SCALINGS,
            "empty": get_args(Empty),
            "device": ("auto", "cpu", "cuda"),
        }
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise DataError(
                    f"unknown {name} {getattr(self, name)!r}; known are {', '.join(values)}"
                )
        ranges = {
            **dict.fromkeys(("committee", "max_iter", "max_stale"), (1, _MOST)),
            "seed": (0, LARGEST_SEED),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if name == "max_stale" and value is None:
                continue
            if not isinstance(value, (int, np.integer)) or not low <= value <= high:
                raise DataError(
                    f"{name} must be a whole number from {low} to {high}, got {value!r}"
                )
        if self.quality is not None:
            self.metric(self.quality)  # refuses what is no measure

    def metric(self, name: str) -> Metric:
        """A measure by its name, with this run's conventions."""
        return parse_metric(name, gain=self.gain, relevant_from=self.relevant_from)

    @property
    def rank_quality(self) -> Metric:
        """The measure that chooses the iteration.

        Raises:
            DataError: where the settings leave it open.
        """
        if self.quality is None:
            raise DataError("the settings leave RankQuality open: give quality, such as ndcg@10")
        return self.metric(self.quality)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Config:
        """The settings that `to_json` wrote; anything it does not know is refused."""
        _check_types(cls, values, training=dict)
        _check_types(Training, values["training"])
        try:
            return cls(**{**values, "training": Training(**values["training"])})
        except TypeError as error:
            raise ModelError(f"these are not the settings of a run: {error}") from None


def settle_quality(train: Queries, vali: Queries, config: Config) -> Config:
    """The settings with a RankQuality, chosen by the grades where they leave it open.

    That is `map` where train and vali have two different grades, a relevant one and another, and
    `ndcg@10` otherwise.

    Raises:
        DataError: if it scores every ranking of `vali` alike, so that it cannot choose.
    """
    if config.quality is None:
        grades = np.concatenate([np.unique(queries.grades) for queries in (train, vali)])
        config = replace(config, quality=default_quality(grades, config.relevant_from))
    check_can_choose(config.rank_quality, vali)
    return config


def _check_types(settings: type, values: Mapping[str, Any], **required: type) -> None:
    types = get_type_hints(settings) | required
    known = {name: kind for name, kind in types.items() if name in values or name in required}
    check_fields(values, known, "settings")


def hidden_sizes(hidden: int | Sequence[int]) -> tuple[int, ...]:
    """Check the sizes of hidden layers: 20 or (32, 20, 5)."""
    sizes = (hidden,) if isinstance(hidden, (int, np.integer)) else tuple(hidden)
    if not sizes or any(not isinstance(h, (int, np.integer)) or h < 1 for h in sizes):
        raise ComparatorError(f"hidden must be whole numbers from 1, got {hidden!r}")
    return tuple(int(h) for h in sizes)


def config_fields() -> tuple[str, ...]:
    """The names of all settings, those of the training on pairs among them."""
    own = [f.name for f in fields(Config) if f.name != "training"]
    return (*own, *(f.name for f in fields(Training)))


def least_numbers(config: Config, n_features: int) -> int:
    """Weights that the comparator of these settings has at least: those between its layers."""
    layers = pairwise((n_features, *config.hidden))
    return config.committee * sum(before * after for before, after in layers)
