"""Where the data of an experiment come from: values by which any process reads them itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Protocol

import numpy as np

from sortnet.data.divide import hold_out, joined, refuse_shared
from sortnet.data.read import Fold, file_of, read_fold, read_queries
from sortnet.errors import DataError
from sortnet.types import Queries


class Split(Protocol):
    """A frozen dataclass that reads a training, a validation and a test part."""

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str:
        """What a table calls it; unlike all others of its experiment."""
        ...

    @property
    def files(self) -> tuple[Path, ...]:
        """The files it reads."""
        ...

    def load(self, cache: Path | None = None) -> Fold:
        """Read it.

        Raises:
            DataError: if that is impossible, or a query is in two of its parts.
        """
        ...


@dataclass(frozen=True)
class OfficialFold:
    """A folder with the three parts of a fold, as they are."""

    folder: str

    @property
    def name(self) -> str:
        return Path(self.folder).name

    @property
    def files(self) -> tuple[Path, ...]:
        return parts_of(self.folder)

    def load(self, cache: Path | None = None) -> Fold:
        self.files  # noqa: B018  # refuses a folder that lacks a part
        return _apart(read_fold(self.folder, cache=cache))


@dataclass(frozen=True)
class HoldOut:
    """All queries of a fold's folder, divided at random.

    Attributes:
        folder: its three parts are joined first.
        number: of the division, from 1; with `seed` it decides which queries are drawn.
        test: the share of the queries to test with.
        vali: the share of the others to choose by.
    """

    folder: str
    number: int
    test: float
    vali: float
    seed: int

    @property
    def name(self) -> str:
        return f"split {self.number}"

    @property
    def files(self) -> tuple[Path, ...]:
        return parts_of(self.folder)

    def load(self, cache: Path | None = None) -> Fold:
        train, *others = self.files
        first = read_queries(train, cache=cache)
        rest = [
            read_queries(file, n_features=first.n_features, cache=cache, like=first)
            for file in others
        ]
        for a, b in combinations((first, *rest), 2):
            refuse_shared(a, b)
        drawn = (self.seed, self.number)  # so two seeds share no division
        return hold_out(joined([first, *rest]), self.test, self.vali, seed=drawn)


def folds_of(folder: str) -> list[OfficialFold]:
    """The folds in a folder, or the folder itself if it is one.

    Raises:
        DataError: if there is none, or one lacks a part.
    """
    path = Path(folder)
    if not path.is_dir():
        raise DataError(f"{folder}: no such folder")
    found = [path] if file_of(path, "train") else _with_training_parts(path)
    if not found:
        raise DataError(f"{folder}: there are no folds in it: folders with train.txt, vali.txt ...")
    for each in found:
        parts_of(str(each))
    return [OfficialFold(str(each)) for each in found]


def parts_of(folder: str) -> tuple[Path, ...]:
    """The training, validation and test file of a fold.

    Raises:
        DataError: naming the part that is missing.
    """
    files = {part: file_of(Path(folder), part) for part in ("train", "vali", "test")}
    for part, file in files.items():
        if file is None:
            raise DataError(f"{folder}: there is no {part}.txt: an experiment takes all three")
    return tuple(file for file in files.values() if file is not None)


def _with_training_parts(path: Path) -> list[Path]:
    return sorted(each for each in path.iterdir() if each.is_dir() and file_of(each, "train"))


def _apart(fold: Fold) -> Fold:
    assert fold.test is not None
    for a, b in combinations((fold.train, fold.vali, fold.test), 2):
        refuse_shared(a, b)
    return fold


def binarised(queries: Queries, relevant_from: int) -> Queries:
    """The same queries with grade 1 for all that is relevant, and 0 for the rest."""
    return replace(queries, grades=(queries.grades >= relevant_from).astype(np.int32))
