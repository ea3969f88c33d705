"""Protocol of a judge, which answers which of two documents of a query is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sortnet.core.arrays import F32, I32, I64

if TYPE_CHECKING:
    from sortnet.core import Queries


class Judge(Protocol):
    """Function that answers which of two documents of a query is better.

    It gets the queries in the form that is learned from: features are scaled, and each part numbers
    its own documents; `docids` and `rows` identify them. `learn_to_sort` asks about no pair twice,
    but a resumed run asks again, and needs the same answers.
    """

    def __call__(self, queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
        """Probabilities (m,) that document i is better than j, from 0 to 1; NaN for no answer."""
        ...
