"""Comparator: decides which of two documents goes first in a sort."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from sortnet.core.arrays import F32, Ints


@runtime_checkable
class Comparator(Protocol):
    """Two functions: prepare a document once, compare prepared documents often."""

    def prepare(self, X: F32) -> Any:
        """(n, n_features) scaled features -> the input of `prefer`, n rows long."""
        ...

    def prefer(self, prepared: Any, i: Ints, j: Ints) -> F32:
        """(m,) margins of document i over document j: i goes first if positive."""
        ...
