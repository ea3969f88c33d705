"""Names of a labelled table's columns: one value from the command line down to the readers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Self

from sortnet.errors import DataError, ModelError

# The columns of query and document id where no other columns are named.
QUERY = "qid"
ID = "docid"
ALL_ROWS = "none"  # in place of a query column
LEAST_BINS, MOST_BINS = 2, 31  # the gain of grade 30 is 2^30 - 1


@dataclass(frozen=True)
class NamedColumns:
    """The columns of query, grade and document id, and how a column of numbers becomes grades.

    Attributes:
        query: the column of queries; None: `qid`; `none`: all rows are one query.
        grade: the column of grades; None: the first of `label`, `grade` and `relevance`.
        id: the column of document names; None: `docid`, or a column with a name like an id.
        ignore: columns that are no features.
        bins: the number of grades to make from a column of any numbers; None: it has grades.
        edges: the lowest number of each grade from 1 on, chosen on the training part.

    Raises:
        DataError: on a value of another type or range.

    >>> NamedColumns(grade="stars").over(NamedColumns(query="search", grade="points"))
    NamedColumns(query='search', grade='stars', id=None, ignore=(), bins=None, edges=())
    """

    query: str | None = None
    grade: str | None = None
    id: str | None = None
    ignore: tuple[str, ...] = ()
    bins: int | None = None
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for role in ("query", "grade", "id"):
            name = getattr(self, role)
            if name is not None and not isinstance(name, str):
                raise DataError(f"the {role} column must be a name, got {str(name)[:60]!r}")
        names = [name for name in (self.query, self.grade, self.id) if name is not None]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise DataError(f"column {min(repeated)[:60]!r} cannot be two of query, grade and id")
        if not isinstance(self.ignore, tuple) or not all(isinstance(x, str) for x in self.ignore):
            raise DataError(f"the ignored columns must be names, got {str(self.ignore)[:60]!r}")
        if self.bins is not None and not _is_whole(self.bins, LEAST_BINS, MOST_BINS):
            raise DataError(
                f"bins must be a whole number from {LEAST_BINS} to {MOST_BINS}, "
                f"got {str(self.bins)[:60]}"
            )
        if not isinstance(self.edges, tuple) or not _increase(self.edges):
            raise DataError(f"edges of bins must be increasing numbers, got {str(self.edges)[:60]}")

    def over(self, remembered: NamedColumns) -> NamedColumns:
        """These names, with the remembered names in place of open ones."""
        return replace(
            self,
            query=self.query if self.query is not None else remembered.query,
            grade=self.grade if self.grade is not None else remembered.grade,
            id=self.id if self.id is not None else remembered.id,
            bins=self.bins if self.bins is not None else remembered.bins,
            edges=self.edges or remembered.edges,
        )

    def to_json(self) -> dict[str, Any]:
        """The names as a value for the JSON document of a run or a model."""
        return {**asdict(self), "ignore": [*self.ignore], "edges": [*self.edges]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], path: object) -> Self:
        """Read the names from the value of `to_json`; `path` names the document in messages.

        Raises:
            ModelError: if the value is damaged.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping) or values.keys() - names:
            raise ModelError(f"{path}: columns cannot be {str(values)[:60]}")
        lists = {name: values.get(name, []) for name in ("ignore", "edges")}
        if not all(isinstance(value, list) for value in lists.values()):
            raise ModelError(f"{path}: columns cannot be {str(values)[:60]}")
        tuples = {name: tuple(value) for name, value in lists.items()}
        try:
            return cls(**{**values, **tuples})
        except DataError as error:
            raise ModelError(f"{path}: {error}") from None


def _is_whole(value: Any, least: int, most: int) -> bool:
    """Whether the value is a whole number in a range."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _increase(edges: tuple[Any, ...]) -> bool:
    """Whether the edges are finite numbers, each larger than the one before."""
    for edge in edges:
        if not isinstance(edge, int | float) or isinstance(edge, bool) or abs(edge) > 1e300:
            return False
        if not math.isfinite(edge):
            return False
    return all(low < high for low, high in pairwise(edges))


UNNAMED = NamedColumns()  # every column has its name by default
