"""NamedColumns: which columns of a labelled table have the queries, the grades and the ids."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Self

from sortnet.errors import DataError, ModelError
from sortnet.messages import python_values

QUERY = "qid"  # default name of the query column
ID = "docid"  # default name of the column of document ids
ALL_ROWS = "none"  # stands for a query column: all rows are one query
LEAST_BINS = 2
MOST_BINS = 31  # the highest grade is then 30, and its gain 2^30 - 1
_LARGEST_EDGE = 1e300


@dataclass(frozen=True)
class NamedColumns:
    """Names of the columns that have a role, and how a column of numbers becomes grades.

    Attributes:
        query: the name of the column of queries. None means `qid`; `none` means that all rows are
            one query.
        grade: the name of the column of grades. None means the first of `label`, `grade` and
            `relevance`.
        id: the name of the column of document names. None means `docid`, or a column whose name
            looks like the name of an id.
        ignore: the names of columns that are no features.
        bins: the number of grades to make of the numbers in the column `grade`. None means that
            the column has grades.
        edges: the lowest number of each grade from 1 on, chosen on the training part.

    Raises:
        DataError: if a value has a wrong type or is out of range.

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
        """Raise DataError if a name, the bins or the edges cannot be used."""
        self._check_roles()
        is_tuple = isinstance(self.ignore, tuple)
        if not is_tuple or not all(isinstance(name, str) for name in self.ignore):
            raise DataError(f"the ignored columns must be names, got {_shortened(self.ignore)!r}")
        is_whole = isinstance(self.bins, int) and not isinstance(self.bins, bool)
        if self.bins is not None and not (is_whole and LEAST_BINS <= self.bins <= MOST_BINS):
            raise DataError(
                f"bins must be a whole number from {LEAST_BINS} to {MOST_BINS}, "
                f"got {_shortened(self.bins)}"
            )
        if not isinstance(self.edges, tuple) or not _are_increasing(self.edges):
            raise DataError(
                f"edges of bins must be increasing numbers, got {_shortened(self.edges)}"
            )

    def _check_roles(self) -> None:
        """Raise DataError if the column of a role is no name, or one column has two roles."""
        column_of_role: dict[str, Any] = {"query": self.query, "grade": self.grade, "id": self.id}
        names = [column for column in column_of_role.values() if column is not None]
        for role, column in column_of_role.items():
            if not isinstance(column, str | None):
                raise DataError(f"the {role} column must be a name, got {_shortened(column)!r}")
            if column is not None and names.count(column) > 1:
                raise DataError(
                    f"column {_shortened(column)!r} cannot be two of query, grade and id"
                )

    def over(self, remembered: NamedColumns) -> NamedColumns:
        """Return a copy that takes a remembered value wherever this object has None or no edges."""
        return replace(
            self,
            query=self.query if self.query is not None else remembered.query,
            grade=self.grade if self.grade is not None else remembered.grade,
            id=self.id if self.id is not None else remembered.id,
            bins=self.bins if self.bins is not None else remembered.bins,
            edges=self.edges or remembered.edges,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the columns as a dict for the JSON document of a run or a model."""
        return {**asdict(self), "ignore": [*self.ignore], "edges": [*self.edges]}

    @classmethod
    def from_json(cls, values: Mapping[str, Any], path: object) -> Self:
        """Read the columns from a dict that `to_json` made.

        Args:
            values: the dict.
            path: the path of the JSON document, for messages.

        Raises:
            ModelError: if the dict is damaged.
        """
        fault = f"{path}: columns cannot be {_shortened(values)}"
        names = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping) or values.keys() - names:
            raise ModelError(fault)
        arguments = dict(values)
        for name in ("ignore", "edges"):  # tuples, which JSON has as lists
            items = values.get(name, [])
            if not isinstance(items, list):
                raise ModelError(fault)
            arguments[name] = tuple(items)
        try:
            return cls(**arguments)
        except DataError as error:
            raise ModelError(f"{path}: {error}") from None


def _shortened(value: object) -> str:
    """Return the first 60 characters of a value as a text, for a message."""
    return str(python_values(value))[:60]


def _are_increasing(edges: tuple[Any, ...]) -> bool:
    """Whether the edges are finite numbers in strictly ascending order."""
    for edge in edges:
        is_number = isinstance(edge, int | float) and not isinstance(edge, bool)
        # The bound comes first, since `math.isfinite` raises an error for a huge whole number.
        if not is_number or abs(edge) > _LARGEST_EDGE or not math.isfinite(edge):
            return False
    return all(low < high for low, high in pairwise(edges))


UNNAMED = NamedColumns()  # all columns have their default names
