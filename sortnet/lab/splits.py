"""Splits describe data and how they are divided, so that any process can read the parts."""

from __future__ import annotations

import glob
from dataclasses import KW_ONLY, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.core import NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.data.divide import drawn_parts, hold_out, joined, refuse_shared
from sortnet.data.parts import by_hash, read_divided
from sortnet.data.read import Fold, file_of, read_fold
from sortnet.errors import DataError
from sortnet.files import data_files, kind_of


class Split:
    """Base class of frozen dataclasses that read a training, a validation and a test part.

    Attributes:
        name: the name of the split in tables; different for each split of an experiment.
        files: the files that `load` reads.
    """

    files: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        raise NotImplementedError

    def load(self) -> Fold:
        """Read the three parts.

        Raises:
            DataError: if the data cannot be read, or a query is in two parts.
        """
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Describe the split as JSON by the name of its class and its fields."""
        values = {"kind": type(self).__name__, **vars(self)}
        columns = values.pop("columns", UNNAMED)
        # Older stored results have no such field. It is left out if no columns are named, so that
        # these results are still found.
        if columns != UNNAMED:
            values["columns"] = columns.to_json()
        return values


@dataclass(frozen=True)
class OfficialFold(Split):
    """A fold whose three parts are in a folder that `sortnet.data.read.read_fold` can read.

    Attributes:
        folder: path of the folder.
        columns: names of the columns, if the parts are tables.
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

    def load(self) -> Fold:
        """Read the three parts of the folder; refuse a query that is in two parts."""
        fold = read_fold(self.folder, columns=self.columns)
        for a, b in combinations(_list_parts(fold), 2):
            refuse_shared(a, b)
        return fold


@dataclass(frozen=True)
class DividedFile(Split):
    """One file of queries, divided as `sortnet train` divides it.

    Attributes:
        file: path of the file, or a pattern of the paths of several files.
        seed: seed of the division.
        columns: names of the columns, if the file is a table.
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

    def load(self) -> Fold:
        return read_divided(self.file, by_hash(self.seed), columns=self.columns)


@dataclass(frozen=True)
class HoldOut(Split):
    """A random division of all queries of a fold, whose parts are joined first, or of one file.

    Attributes:
        data: path of the folder of the fold, or of a file, or a pattern of the paths of files.
        number: number of the division, from 1; the division depends on it and on `seed`.
        test: share of the queries in the test part.
        vali: share of the remaining queries in the validation part.
        seed: seed of all divisions.
        columns: names of the columns, if the data are tables.
    """

    data: str
    number: int
    test: float
    vali: float
    seed: int
    _: KW_ONLY
    columns: NamedColumns = UNNAMED

    @property
    def name(self) -> str:
        return f"split {self.number}"

    @property
    def files(self) -> tuple[Path, ...]:  # type: ignore[override]
        return tuple(data_files(self.data)) if is_one_file(self.data) else _parts_of(self.data)

    def load(self) -> Fold:
        seed = (self.seed, self.number)  # so that two seeds share no division
        if is_one_file(self.data):
            return read_divided(
                self.data,
                lambda names: drawn_parts(len(names), self.test, self.vali, seed=seed),
                columns=self.columns,
            )
        fold = OfficialFold(self.data, columns=self.columns).load()
        return hold_out(joined(_list_parts(fold)), self.test, self.vali, seed=seed)


def is_one_file(data: str) -> bool:
    """Whether `data` is the path of a file or a pattern of several paths, and not a folder."""
    return Path(data).is_file() or (not Path(data).exists() and glob.has_magic(data))


def folds_of(folder: str, columns: NamedColumns = UNNAMED) -> list[OfficialFold]:
    """List the folds in a folder, or the folder itself if it has the parts of one fold.

    Args:
        folder: path of the folder.
        columns: names of the columns, if the folds are tables.

    Raises:
        DataError: if the folder has no fold, or a fold lacks a part.
    """
    path = Path(folder)
    if not path.is_dir():
        fault = f"is {kind_of(path)}, not a folder of folds" if path.exists() else "no such folder"
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


def with_binary_grades(queries: Queries, relevant_from: int) -> Queries:
    """Replace the grades of queries by 1 from the lowest relevant grade on, and by 0 below."""
    return replace(queries, grades=(queries.grades >= relevant_from).astype(np.int32))


def _parts_of(folder: str) -> tuple[Path, ...]:
    """Find the training, validation and test file of a fold; raise DataError if one is missing."""
    files = {part: file_of(Path(folder), part) for part in ("train", "vali", "test")}
    for part, file in files.items():
        if file is None:
            raise DataError(f"{folder}: there is no {part}.txt: an experiment takes all three")
    return tuple(file for file in files.values() if file is not None)


def _list_parts(fold: Fold) -> list[Queries]:
    """List the training, validation and test part of a fold."""
    assert fold.test is not None
    return [fold.train, fold.vali, fold.test]
