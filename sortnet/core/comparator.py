"""Protocol of a comparator, which decides which of two documents goes first in a sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from sortnet.core.arrays import F32, F64, Ints

# A function of the scaled features, (m, d), of the first and of the second document of m pairs. It
# returns the margins, (m,), and their gradients in both features, (m, d) each.
Margin: TypeAlias = Callable[[F64, F64], tuple[F64, F64, F64]]


@runtime_checkable
class Comparator(Protocol):
    """Comparator of documents: `prepare` runs once per document, `prefer` once per comparison."""

    def prepare(self, X: F32) -> Any:
        """Prepare n documents for comparisons, given their scaled features, (n, n_features).

        Returns:
            The prepared documents, any value that `prefer` accepts.
        """
        ...

    def prefer(self, prepared: Any, i: Ints, j: Ints) -> F32:
        """Compute the margins of documents i over documents j, (m,).

        Document i goes first if the margin is positive, document j if it is negative.

        Args:
            prepared: the result of `prepare` for n documents.
            i, j: (m,) numbers of documents, 0 to n - 1.
        """
        ...
