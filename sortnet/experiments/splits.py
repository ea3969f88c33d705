"""Where the data of an experiment come from: values by which any process reads them itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from sortnet.data.divide import hold_out, joined, refuse_shared
from sortnet.data.read import Fold, file_of, read_fold
from sortnet.errors import DataError
from sortnet.types import Queries


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
        """Read it.

        Raises:
            DataError: if that is impossible, or a query is in two of its parts.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class OfficialFold(Split):
    """A folder with the three parts of a fold, as they are."""

    folder: str

    @property
    def name(self) -> str:
        return Path(self.folder).name

    @property
    def files(self) -> tuple[Path, ...]:  # type: ignore[override]
        return _parts_of(self.folder)

    def load(self, cache: Path | None = None) -> Fold:
        _parts_of(self.folder)  # refuses a folder that lacks a part
        fold = read_fold(self.folder, cache=cache)
        for a, b in combinations(_three(fold), 2):
            refuse_shared(a, b)
        return fold


@dataclass(frozen=True)
class HoldOut(OfficialFold):
    """All queries of a fold's folder, divided at random.

    Attributes:
        folder: its three parts are joined first.
        number: of the division, from 1; with `seed` it decides which queries are drawn.
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
        every = joined(_three(super().load(cache)))
        drawn = (self.seed, self.number)  # so two seeds share no division
        return hold_out(every, self.test, self.vali, seed=drawn)


def folds_of(folder: str) -> list[OfficialFold]:
    """The folds in a folder, or the folder itself if it is one.

    Raises:
        DataError: if there is none, or one lacks a part.
    """
    path = Path(folder)
    if not path.is_dir():
        raise DataError(f"{folder}: no such folder")
    inside = [path] if file_of(path, "train") else sorted(filter(Path.is_dir, path.iterdir()))
    found = [each for each in inside if file_of(each, "train")]
    if not found:
        raise DataError(f"{folder}: there are no folds in it: folders with train.txt, vali.txt ...")
    for each in found:
        _parts_of(str(each))
    return [OfficialFold(str(each)) for each in found]


def _parts_of(folder: str) -> tuple[Path, ...]:
    """The training, validation and test file of a fold; a missing one is refused by name."""
    files = {part: file_of(Path(folder), part) for part in ("train", "vali", "test")}
    for part, file in files.items():
        if file is None:
            raise DataError(f"{folder}: there is no {part}.txt: an experiment takes all three")
    return tuple(file for file in files.values() if file is not None)


def _three(fold: Fold) -> list[Queries]:
    assert fold.test is not None
    return [fold.train, fold.vali, fold.test]
