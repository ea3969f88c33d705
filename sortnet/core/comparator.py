"""Protocol of a comparator, which decides which of two documents goes first in a sort."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from sortnet.core.arrays import F32, Ints


@runtime_checkable
class Comparator(Protocol):
    """Comparator of documents: `prepare` runs once per document, `prefer` once per comparison."""

    def prepare(self, X: F32) -> Any:
        """Prepare scaled features (n, n_features): return n rows that `prefer` reads."""
        ...

    def prefer(self, prepared: Any, i: Ints, j: Ints) -> F32:
        """Margins (m,) of documents i over j; document i goes first if its margin is positive."""
        ...
