"""A net that scores each document alone, as a ranker: what listwise and pairwise kinds share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from torch import nn

from sortnet.comparators import DirectRanker, Make
from sortnet.config import COMPARATOR, FIXED, SCALINGS, TRAINING, Settings, setting
from sortnet.rankers.base import Ranker, kind_module
from sortnet.rankers.folder import Saved
from sortnet.rankers.sortnet import Model
from sortnet.rankers.weights import filled, refuse_few, take_scaler
from sortnet.types import F32, I64, Queries

S = TypeVar("S", bound="InputSettings")


@dataclass(frozen=True)
class InputSettings(Settings):
    """Settings of every net; what SortNet has too has the same default here."""

    # fmt: off
    scaling: str | None = setting(
        None, f"Scaling, parts of {', '.join(SCALINGS)} joined by +; default: query+rank.",
        COMPARATOR, choices=SCALINGS, joined=True)
    # fmt: on


@dataclass(frozen=True)
class NetSettings(InputSettings):
    """Settings of a net g(x)."""

    # fmt: off
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

    def least_numbers(self, n_columns: int) -> int:
        """Weights that the net has at least, as `refuse_few` takes them."""
        layers = pairwise((n_columns, *(self.hidden or ())))
        return sum(a * b for a, b in layers)


def settled(config: S, fixed: Mapping[str, Any] = FIXED) -> S:
    """The settings with fixed values for what they leave open."""
    return config.changed(**{k: v for k, v in fixed.items() if config.flat().get(k, v) is None})


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


def load(saved: Saved) -> NetRanker:
    """The net in a folder, of any kind."""
    config = saved.settings(kind_module(saved.kind).SETTINGS)
    scaler = take_scaler(saved, str(config.scaling))
    refuse_few(saved.tensors, config.least_numbers(scaler.n_columns), saved.weights)
    net = filled(config.make(scaler.n_columns), "comparator", saved.tensors, saved.weights)
    return NetRanker(config, scaler, net, feature_names=saved.feature_names, info=saved.info)
