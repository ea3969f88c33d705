"""Judge: who knows which of two documents of a query is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sortnet.core.arrays import F32, I32, I64

if TYPE_CHECKING:
    from sortnet.core import Queries


class Judge(Protocol):
    """Says which of two documents of a query is better, as far as it knows.

    It sees the queries as they are learned from: features are scaled, and each part numbers its own
    documents; `docids` and `rows` say which they are. `learn_to_sort` asks about no pair twice,
    but a run that is resumed asks again: then it has to say the same.
    """

    def __call__(self, queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
        """(m,) how probably document i is better than j: 1, 0, or between; NaN: it cannot say."""
        ...
