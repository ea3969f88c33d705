"""Protocol of a judge, which answers which of two documents of a query is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sortnet.core.arrays import F32, I32, I64

if TYPE_CHECKING:
    from sortnet.core import Queries


class Judge(Protocol):
    """Function that answers which of two documents of a query is better.

    SortNet calls the judge with queries whose features are scaled. The document numbers i and j
    count the documents of these queries; `docids` and `rows` identify the documents in the caller's
    data. `learn_to_sort` asks about no pair twice, but a resumed run asks again, and needs the same
    answers.
    """

    def __call__(self, queries: Queries, i: I64 | I32, j: I64 | I32) -> F32:
        """Answer which document is better, for m pairs of documents of one query.

        Args:
            queries: the queries.
            i, j: (m,) numbers of the documents of each pair.

        Returns:
            (m,) probabilities that document i is better than document j; NaN for no answer.
        """
        ...
