"""Sorting, the result of a sort."""

from __future__ import annotations

from dataclasses import dataclass

from sortnet.core.arrays import I64
from sortnet.core.compared_pairs import ComparedPairs


@dataclass(frozen=True, eq=False)
class Sorting:
    """Result of a sort: the ranking of every query, and the comparisons.

    Attributes:
        order: (n_docs,) int64 document numbers, query by query, best first.
        compared: all comparisons of the sort, with margins, but without a judge's answers.
    """

    order: I64
    compared: ComparedPairs
