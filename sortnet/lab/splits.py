"""Splits: descriptions of an experiment's data, from which every process can read the data."""

from __future__ import annotations

import glob
from dataclasses import KW_ONLY, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from sortnet.core import NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.data.divide import hold_out, joined, refuse_shared
from sortnet.data.parts import ByDraw, ByHash, Division, read_divided
from sortnet.data.read import Fold, file_of, read_fold
from sortnet.errors import DataError
from sortnet.files import data_files


class Split:
    """A frozen dataclass that reads a training, a validation and a test part.

    Attributes:
        name: what a table calls it; unlike all others of its experiment.
        files: the files it reads.
    """

    files: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        raise NotImplementedError

    def load(self, cache: Path | None = None) -> Fold:
        """Read the three parts.

        Raises:
            DataError: if that is impossible, or a query is in two of its parts.
        """
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """The split by its kind and fields, as stores keep it."""
        values = {"kind": type(self).__name__, **vars(self)}
        columns = values.pop("columns", UNNAMED)
        if columns != UNNAMED:  # stores of versions that named no columns have no such field
            values["columns"] = columns.to_json()
        return values


@dataclass(frozen=True)
class OfficialFold(Split):
    """A folder with the three parts of a fold, as they are.

    Attributes:
        columns: the names of columns of its tables.
    """

    folder: str
    _: KW_ONLY
    columns: NamedColumns = UNNAMED

    @property
    def name(self) -> str:
        return Path(self.folder).name

    @property
    def files(self) -> tuple[Path, ...]:  # type: ignore[override]
        return _parts_of(self.folder)

    def load(self, cache: Path | None = None) -> Fold:
        _parts_of(self.folder)  # refuses a folder that lacks a part
        fold = read_fold(self.folder, columns=self.columns, cache=cache)
        for a, b in combinations(_three(fold), 2):
            refuse_shared(a, b)
        return fold


@dataclass(frozen=True)
class HoldOut(OfficialFold):
    """All queries of a fold's folder, divided at random.

    Attributes:
        folder: its three parts are joined first.
        number: number of the division, from 1; with `seed` it decides which queries are drawn.
        test: the share of the queries to test with.
        vali: the share of the others to choose by.
    """

    number: int
    test: float
    vali: float
    seed: int

    @property
    def name(self) -> str:
        return f"split {self.number}"

    def load(self, cache: Path | None = None) -> Fold:
        all_queries = joined(_three(super().load(cache)))
        seed = (self.seed, self.number)  # so that two seeds share no division
        return hold_out(all_queries, self.test, self.vali, seed=seed)


@dataclass(frozen=True)
class DividedFile(Split):
    """One file of queries, divided as `sortnet train` divides it.

    Attributes:
        file: its path, or a pattern of several.
        seed: seed of the division.
        columns: the names of its columns.
    """

    file: str
    seed: int
    _: KW_ONLY
    columns: NamedColumns = UNNAMED

    @property
    def name(self) -> str:
        return Path(self.file).name

    @property
    def files(self) -> tuple[Path, ...]:  # type: ignore[override]
        return tuple(data_files(self.file))

    @property
    def division(self) -> Division:
        return ByHash(self.seed)

    def load(self, cache: Path | None = None) -> Fold:
        return read_divided(self.file, self.division, columns=self.columns, cache=cache)


@dataclass(frozen=True)
class HoldOutOfFile(DividedFile):
    """One file of queries, divided at random; see `HoldOut`."""

    number: int
    test: float
    vali: float

    @property
    def name(self) -> str:
        return f"split {self.number}"

    @property
    def division(self) -> Division:
        return ByDraw(self.test, self.vali, (self.seed, self.number))


def is_one_file(data: str) -> bool:
    """Whether the data of an experiment are one file, or a pattern of several, and no folder."""
    return Path(data).is_file() or (not Path(data).exists() and glob.has_magic(data))


def folds_of(folder: str, columns: NamedColumns = UNNAMED) -> list[OfficialFold]:
    """The folds in a folder, or the folder itself if it is one.

    Args:
        columns: the names of columns of its tables.

    Raises:
        DataError: if there is none, or one lacks a part.
    """
    path = Path(folder)
    if not path.is_dir():
        fault = "is a file, not a folder of folds" if path.exists() else "no such folder"
        raise DataError(f"{folder}: {fault}")
    if file_of(path, "train"):
        folds = [path]
    else:
        subfolders = sorted(filter(Path.is_dir, path.iterdir()))
        folds = [subfolder for subfolder in subfolders if file_of(subfolder, "train")]
    if not folds:
        raise DataError(f"{folder}: there are no folds in it: folders with train.txt, vali.txt ...")
    for fold in folds:
        _parts_of(str(fold))
    return [OfficialFold(str(fold), columns=columns) for fold in folds]


def _parts_of(folder: str) -> tuple[Path, ...]:
    """The training, validation and test file of a fold; a missing one is refused by name."""
    files = {part: file_of(Path(folder), part) for part in ("train", "vali", "test")}
    for part, file in files.items():
        if file is None:
            raise DataError(f"{folder}: there is no {part}.txt: an experiment takes all three")
    return tuple(file for file in files.values() if file is not None)


def _three(fold: Fold) -> list[Queries]:
    """The training, validation and test part of a fold."""
    assert fold.test is not None
    return [fold.train, fold.vali, fold.test]
