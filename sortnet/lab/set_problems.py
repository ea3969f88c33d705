"""Experiments on ranking problems whose order depends on the whole set: data, rankers, cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
SIZES = (3, 24)  # least and largest size of the test sets in the study of set sizes
# A scaling by query would give even rankers that score objects one by one a view of the whole set.
_SCALING = "standard"
_SEED = 13  # so that other random data with the same user's seed are drawn independently
_VALIDATION = 10  # one training set in ten is used for validation
# Settings with which RankNet reaches the figures of the paper.
_NETS = {"hidden": (32, 32), "epochs": 10, "queries": 64, "lr": 0.1, "weight_decay": 0.0}
_SETTINGS: dict[str, dict[str, Any]] = {"ranknet": _NETS, "listnet": _NETS}
MODELS = ("fate", "feta", "feta:pair=free", "setrank", "ranknet", "ranksvm", "err", "listnet")
SET_MODELS = ("fate", "setrank")


@dataclass(frozen=True)
class MadeSets(Split):
    """Random sets of a problem of `sortnet.lab.set_generators`, divided into three parts.

    Attributes:
        problem: `medoid` or `hypervolume`.
        number: number of the split, from 1; the sets depend on it and on `seed`.
        n: number of objects of a training set.
        d: number of features of an object.
        train: number of sets for training and validation; a tenth is used for validation.
        test: number of test sets of each size.
        smallest: least number of objects of a test set; 0 for `n`.
        largest: largest number of objects of a test set; 0 for `n`.
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

    def load(self) -> Fold:
        """Draw the sets; the number and sizes of the test sets do not change the training sets.

        Raises:
            DataError: if there are fewer than two training sets, or `made_sets` refuses the sizes.
        """
        if self.train < 2:
            raise DataError(f"{self.problem}: training needs 2 sets or more, not {self.train}")
        drawn_sets = self._draw_sets(0, "train ", self.train, self.n)
        n_vali = max(1, self.train // _VALIDATION)
        set_numbers = np.arange(self.train)
        train = drawn_sets.take(set_numbers[n_vali:])
        vali = drawn_sets.take(set_numbers[:n_vali])
        smallest = self.smallest or self.n  # 0: test sets have the size of the training sets
        largest = self.largest or self.n
        test_sets_by_size = [
            self._draw_sets(size, f"{self.number}-{size}-", self.test, size)
            for size in range(smallest, largest + 1)
        ]
        return Fold(train, vali, joined(test_sets_by_size))

    def _draw_sets(self, purpose: int, prefix: str, n_sets: int, n: int) -> Queries:
        """Draw sets of n objects.

        Args:
            purpose: 0 for training, the size for test sets, so that their seeds differ.
            prefix: prefix of the names of the sets.
            n_sets: number of sets.
            n: number of objects of a set.
        """
        seed = (_SEED, self.seed, self.number, purpose)
        return made_sets(self.problem, n_sets, n, self.d, seed=seed, prefix=prefix)


def models_named(names: str) -> list[Entry]:
    """Look up the rankers in a list of names that are separated by commas.

    `all` stands for `MODELS`, and `NAME:SETTING=VALUE` changes a setting. If no setting is given,
    nets have the settings of the paper, and features are not scaled set by set.

    Raises:
        SortNetError: if a name is invalid, see `entries_named`.

    >>> models_named("err, ranknet:lr=0.2")[0].changes
    {'scaling': 'standard'}
    """
    models = []
    for entry in entries_named(names, MODELS):
        changes: dict[str, Any] = {}
        if "scaling" in entry.settings().flat():
            changes["scaling"] = _SCALING
        changes |= _SETTINGS.get(entry.kind, {})  # the settings of the paper
        changes |= entry.changes  # the settings in `names`, which have precedence
        models.append(replace(entry, changes=changes, grids=() if changes else None))
    return models


def cells_of(models: Sequence[Entry], splits: Sequence[MadeSets], seed: int) -> list[Cell]:
    """Make a cell for every model on every split, split by split.

    Args:
        models: the rankers.
        splits: splits of the same problem and with the same sizes.
        seed: seed of the rankers.

    Raises:
        DataError: if the sets cannot be drawn.
    """
    if splits:
        check_sizes(splits[0].problem, splits[0].n, splits[0].d)
    return [Cell(model, split, seed, quality=QUALITY) for split in splits for model in models]
