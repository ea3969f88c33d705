"""The nouns of a study: its size, its plan, its points, the figures of a cell, and the study."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sortnet.core import NamedColumns, Queries
from sortnet.core.named_columns import UNNAMED
from sortnet.lab.cells import Cell, Result
from sortnet.lab.splits import OfficialFold, folds_of
from sortnet.lab.synthetic import MadeClasses

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Size:
    """How large a study is.

    Attributes:
        documents: to learn from, of made data.
        tested: to test with, of made data.
        draws: number of draws of made data, each a repetition.
        folds: number of a folder's folds, the first of them; None: all folds.
        step: the factor between two budgets of answers.
        most: documents of the largest training part, where their number is studied.
        sets: to learn from, of made sets.
    """

    documents: int
    tested: int
    draws: int
    folds: int | None
    step: int
    most: int
    sets: int


SIZES = {
    "small": Size(10_000, 2_000, 3, 2, 8, 10_000, 2_000),
    "paper": Size(100_000, 10_000, 5, None, 2, 100_000, 10_000),
}


class Plan(NamedTuple):
    """The data that a study is made on: a folder of folds, if there is one, a size and a seed."""

    folder: str | None
    size: Size
    seed: int
    columns: NamedColumns = UNNAMED  # of the folds' tables

    def folds(self) -> list[OfficialFold]:
        """The first folds of the folder, up to the size's number of folds."""
        return folds_of(str(self.folder), self.columns)[: self.size.folds]

    def seeds(self) -> range:
        """A seed for each repetition on made data."""
        return range(self.seed, self.seed + self.size.draws)

    def made(self, **changes: Any) -> list[MadeClasses]:
        """A draw of made data for each repetition; `changes` are of `MadeClasses`."""
        sizes = {"n_train": self.size.documents, "n_test": self.size.tested}
        return [MadeClasses(**{**sizes, **changes}, seed=seed) for seed in self.seeds()]


class Point(NamedTuple):
    """A cell, and where it stands in the figure."""

    cell: Cell
    series: str
    x: Any


class Row(NamedTuple):
    """A figure of one cell.

    Rows of the same measure, series and `at` are averaged, and their x are averaged, too. Without
    `at` the x takes its place.
    """

    measure: str
    series: str
    x: Any
    value: float
    at: Any = None


TestPart: TypeAlias = Callable[[], Queries]  # reads the test part of a point's cell
Reading: TypeAlias = Callable[[Point, Result, TestPart], Iterable[Row]]


def no_notes(frame: pd.DataFrame) -> list[str]:
    """The notes of a study whose frame says everything."""
    return []


@dataclass(frozen=True)
class Study:
    """A study of the papers.

    Attributes:
        says: its question, in a sentence.
        source: where the papers ask it.
        x: name of the quantity that is across.
        points: makes the cells that are worked out.
        read: makes the figures of one cell.
        data: whether it takes a folder of folds: `folder`, `made` data alone, or `either`.
        log: whether x is drawn on a logarithmic scale.
        notes: makes further lines of text from the frame.
    """

    says: str
    source: str
    x: str
    points: Callable[[Plan], list[Point]]
    read: Reading
    data: str = "folder"
    log: bool = False
    notes: Callable[[pd.DataFrame], list[str]] = no_notes
