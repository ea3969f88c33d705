"""FATE-Net and FETA-Net as rankers, see `sortnet.context.fate` and `sortnet.context.feta`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sortnet.config import COMPARATOR, setting
from sortnet.context.dense import UNITS
from sortnet.context.fate import FateNet
from sortnet.context.feta import PAIR_NETS, FetaNet
from sortnet.rankers.sets import ContextSettings
from sortnet.types import Queries

_DOCUMENTS = 1 << 14  # at once, but a query is not divided
# What is taken for settings left open.
_FIXED: dict[str, dict[str, Any]] = {
    "fate": {"hidden": (128, 128, 128), "units": "relu", "weight_decay": 0.5},
    "feta": {"hidden": (32, 32), "units": "selu"},
}


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
        found = [torch.empty(0)]
        for some in _in_runs(part):
            found.append(net(torch.from_numpy(some.features), torch.from_numpy(some.sizes)))
        return torch.cat(found)

    @property
    def layers(self) -> tuple[int, ...]:
        """Hidden units per layer, of either net."""
        found: tuple[int, ...] = self.hidden or self.fixed["hidden"]
        return found

    def least_numbers(self, n_columns: int) -> int:
        return 2 * sum(a * b for a, b in pairwise((n_columns, *self.layers)))


def _in_runs(part: Queries) -> Iterator[Queries]:
    """Whole queries in their order, about `_DOCUMENTS` documents at a time."""
    first = 0
    if part.n_docs <= _DOCUMENTS:
        yield part
        return
    while first < len(part):
        end = int(np.searchsorted(part.offsets, part.offsets[first] + _DOCUMENTS, side="right")) - 1
        end = max(end, first + 1)
        yield part.take(np.arange(first, end))
        first = end
