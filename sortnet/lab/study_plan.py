"""Types that describe a study: size, data, cells, and how figures are read from their results."""

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
    """The size of a study.

    Attributes:
        documents: number of training documents of synthetic data.
        tested: number of test documents, or test sets, of synthetic data.
        draws: number of times that synthetic data are drawn; each draw is a repetition.
        folds: number of folds that are used, from the first on. If None, all folds.
        step: the factor between a budget of answers and the next larger budget.
        most: number of documents in the largest training part of a study of training sizes.
        sets: number of training sets, in a study of sets.
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
    """The data of a study: a folder of folds or synthetic data, a size and a seed.

    Attributes:
        folder: a folder of folds; None for synthetic data.
        size: the size of the study.
        seed: the first seed of the synthetic data, and the seed of the rankers on folds.
        columns: names of the columns, if the folds are tables.
    """

    folder: str | None
    size: Size
    seed: int
    columns: NamedColumns = UNNAMED

    def folds(self) -> list[OfficialFold]:
        """List the first folds of the folder, as many as the size says."""
        return folds_of(str(self.folder), self.columns)[: self.size.folds]

    def seeds(self) -> range:
        """Return a seed for each draw of synthetic data."""
        return range(self.seed, self.seed + self.size.draws)

    def made(self, **changes: Any) -> list[MadeClasses]:
        """List the draws of synthetic data; `changes` are values for fields of `MadeClasses`."""
        fields = {"n_train": self.size.documents, "n_test": self.size.tested, **changes}
        return [MadeClasses(**fields, seed=seed) for seed in self.seeds()]


class Point(NamedTuple):
    """A cell with its curve (`series`) and its x in the figure of a study."""

    cell: Cell
    series: str
    x: Any


class Row(NamedTuple):
    """The value of one measure that is read from the result of one cell.

    Rows with the same measure, series and `at` are averaged to one point of a curve. If `at` is
    None, rows with the same x are averaged; otherwise the x are averaged, too.
    """

    measure: str
    series: str
    x: Any
    value: float
    at: Any = None


TestPart: TypeAlias = Callable[[], Queries]  # reads the test part of a cell's data
Reading: TypeAlias = Callable[[Point, Result, TestPart], Iterable[Row]]


def no_notes(frame: pd.DataFrame) -> list[str]:
    """Return no notes, for a study that needs no text besides its figures."""
    return []


@dataclass(frozen=True)
class Study:
    """A study of the papers: its question, its cells and how its figures are read.

    Attributes:
        question: the question that the study answers, in a sentence.
        source: paper and section with the same study.
        x: name of the quantity on the x axis.
        points: lists the cells to compute, with their curves and x.
        read: reads the values of measures from the result of one cell.
        data: the data of the study: a `folder` of folds, synthetic (`made`), or `either`.
        log: whether x is drawn on a logarithmic scale.
        notes: writes further lines of text about the frame of figures.
    """

    question: str
    source: str
    x: str
    points: Callable[[Plan], list[Point]]
    read: Reading
    data: str = "folder"
    log: bool = False
    notes: Callable[[pd.DataFrame], list[str]] = no_notes
