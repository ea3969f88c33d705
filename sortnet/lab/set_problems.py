"""The context-dependent problems as experiments: made sets, models, and the study of set sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import Queries
from sortnet.data.divide import joined
from sortnet.data.read import Fold
from sortnet.errors import DataError
from sortnet.lab.cells import Cell
from sortnet.lab.entries import Entry, entries_named
from sortnet.lab.set_generators import check_sizes, made_sets
from sortnet.lab.splits import Split

MEASURES = ("spearman", "kendall", "concordance", "exact")
QUALITY = "concordance"
SIZES = (3, 24)  # of the sets that the study of sizes tests with
_SCALING = "standard"  # a scaling by query would show every model its context
_SEED = 13  # tells these draws from all other draws of a seed
_VALIDATION = 10  # one of ten training sets validates
# Settings in place of a kind's own: RankNet's figures are then those of the paper.
_NETS = {"hidden": (32, 32), "epochs": 10, "queries": 64, "lr": 0.1, "weight_decay": 0.0}
_SETTINGS: dict[str, dict[str, Any]] = {"ranknet": _NETS, "listnet": _NETS}
MODELS = ("fate", "feta", "feta:pair=free", "setrank", "ranknet", "ranksvm", "err", "listnet")
SET_MODELS = ("fate", "setrank")


@dataclass(frozen=True)
class MadeSets(Split):
    """Sets of a problem of `sortnet.lab.set_generators`; a tenth of the training sets validate.

    Attributes:
        problem: medoid or hypervolume.
        number: number of the split, from 1; with `seed` it decides which sets are drawn.
        n: objects of a set.
        d: features of an object.
        train: sets to learn from, those that validate included.
        test: sets to test with, of each size.
        smallest, largest: objects of a test set; 0: `n`.
        seed: seed of all splits.
    """

    problem: str
    number: int = 1
    n: int = 5
    d: int = 2
    train: int = 10_000
    test: int = 100_000
    smallest: int = 0
    largest: int = 0
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.problem}, split {self.number}"

    def load(self, cache: Path | None = None) -> Fold:
        """Draw the sets; the training sets do not depend on the test sets.

        Raises:
            DataError: as `made_sets`, or of fewer than two training sets.
        """
        if self.train < 2:
            raise DataError(f"{self.problem}: training needs 2 sets or more, not {self.train}")
        training_sets = self._drawn(0, "train ", self.train, self.n)
        n_vali = max(1, self.train // _VALIDATION)
        sizes = range(self.smallest or self.n, (self.largest or self.n) + 1)
        test = [self._drawn(n, f"{self.number}-{n}-", self.test, n) for n in sizes]
        order = np.arange(self.train)
        train = training_sets.take(order[n_vali:])
        vali = training_sets.take(order[:n_vali])
        return Fold(train, vali, joined(test))

    def _drawn(self, part: int, prefix: str, n_sets: int, n: int) -> Queries:
        """Draw sets of n objects; `part` makes the seeds of training and test sets differ."""
        seed = (_SEED, self.seed, self.number, part)
        return made_sets(self.problem, n_sets, n, self.d, seed=seed, prefix=prefix)


def models_named(names: str) -> list[Entry]:
    """Entries by the names of models as typed, comma by comma.

    `all` stands for `MODELS`, `NAME:SETTING=VALUE` for other settings. Nets have the settings of
    the paper, and features are scaled alike in all sets.

    Raises:
        SortNetError: as `entries_named`.

    >>> models_named("err, ranknet:lr=0.2")[0].changes
    {'scaling': 'standard'}
    """
    models = []
    for entry in entries_named(names, MODELS):
        changes: dict[str, Any] = {}
        if "scaling" in entry.settings().flat():
            changes["scaling"] = _SCALING
        changes |= _SETTINGS.get(entry.kind, {})
        changes |= entry.changes
        models.append(replace(entry, changes=changes, grids=() if changes else None))
    return models


def cells_of(models: Sequence[Entry], splits: Sequence[MadeSets], seed: int) -> list[Cell]:
    """Cells of every model on every split, split by split.

    Raises:
        DataError: if the sets cannot be drawn.
    """
    if splits:  # they have the same sizes
        check_sizes(splits[0].problem, splits[0].n, splits[0].d)
    return [Cell(model, split, seed, quality=QUALITY) for split in splits for model in models]
