"""Live ranking: a ranking into which documents are inserted, and from which they are removed."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from sortnet.core import F32, Comparator, Queries
from sortnet.errors import ComparatorError, DataError

Name = TypeVar("Name", bound=Hashable)
Document = TypeVar("Document")


class LiveRanking(Generic[Name, Document]):
    """Ranked list, best first, that inserts a document with O(log n) comparisons.

    The place of a new document is found once, by binary search with the comparator, which is never
    called again for two documents of the list. So a comparator that is not transitive or not
    deterministic cannot corrupt the list: it only decides the places of new documents.

    Args:
        prefer: a function that returns the margin of its first over its second document; `pairwise`
            makes it from a comparator or a ranker.
        ranked: (name, document) of the first documents, best first; they are not compared.

    Attributes:
        comparisons: the number of calls of `prefer`.

    Raises:
        DataError: if a name occurs twice.

    >>> ranking = LiveRanking(lambda a, b: a - b, [("gold", 3.0), ("bronze", 1.0)])
    >>> ranking.insert("silver", 2.0)
    2
    >>> list(ranking), ranking.rank("bronze"), ranking[:2]
    (['gold', 'silver', 'bronze'], 3, ['gold', 'silver'])
    """

    def __init__(
        self,
        prefer: Callable[[Document, Document], float],
        ranked: Iterable[tuple[Name, Document]] = (),
    ) -> None:
        """Begin with documents that are ranked already, best first, without comparisons."""
        self.comparisons = 0
        self._prefer = prefer
        self._documents: dict[Name, Document] = {}
        for name, document in ranked:
            self._refuse_known(name)
            self._documents[name] = document
        self._names = list(self._documents)  # best first

    def insert(self, name: Name, document: Document) -> int:
        """Insert a new document, behind documents that tie with it; return its rank from 1.

        If the comparator raises an error, the list does not change.

        Raises:
            DataError: if the name is in the list already.
            ComparatorError: if a margin is not a number.

        Cost: at most ceil(log2(n + 1)) comparisons.
        """
        self._refuse_known(name)
        # Documents that the new one does not beat come before it.
        place = bisect_left(self._names, True, key=lambda other: self._beats(document, other))
        self._documents[name] = document
        self._names.insert(place, name)
        return place + 1

    def remove(self, name: Name) -> Document:
        """Remove a document and return it; all other documents keep their order.

        Raises:
            DataError: if the name is not in the list.

        >>> ranking = LiveRanking(lambda a, b: a - b, [("gold", 3.0), ("bronze", 1.0)])
        >>> ranking.remove("gold"), list(ranking)
        (3.0, ['bronze'])

        Cost: O(n), no comparisons.
        """
        del self._names[self.rank(name) - 1]
        return self._documents.pop(name)

    def rank(self, name: Name) -> int:
        """Return the rank of a document, 1 for the best.

        Raises:
            DataError: if the name is not in the list.

        Cost: O(n), no comparisons.
        """
        if name not in self._documents:
            raise DataError(f"document {name!r} is not ranked")
        return self._names.index(name) + 1

    @overload
    def __getitem__(self, place: int) -> Name: ...
    @overload
    def __getitem__(self, place: slice) -> list[Name]: ...
    def __getitem__(self, place: int | slice) -> Name | list[Name]:
        """Return names by place, from 0 for the best, as in `ranking[:10]` or `ranking[-1]`."""
        return self._names[place]

    def __iter__(self) -> Iterator[Name]:
        """Iterate over the names, best first."""
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._documents

    def __repr__(self) -> str:
        return f"LiveRanking({len(self)} documents, {self.comparisons} comparisons)"

    def _beats(self, document: Document, other_name: Name) -> bool:
        """Compare a new document with a document of the list."""
        self.comparisons += 1
        margin = self._prefer(document, self._documents[other_name])
        if math.isnan(margin):
            raise ComparatorError(f"the margin over document {other_name!r} is not a number")
        return margin > 0

    def _refuse_known(self, name: Name) -> None:
        """Raise DataError if the name is in the list."""
        if name in self._documents:
            raise DataError(f"document {name!r} is ranked already")


@runtime_checkable
class _Ranker(Protocol):
    """Interface of the rankers in `sortnet.rankers`, which this package must not import."""

    @property
    def depends_on_query(self) -> bool: ...

    def margins(self, queries: Queries, i: list[int], j: list[int], /) -> F32: ...


def pairwise(of: _Ranker | Comparator) -> Callable[[F32, F32], float]:
    """Make a function that returns the margin of two documents, given the features of both.

    A `LiveRanking` needs such a function as `prefer`. A warning is issued if a ranker's margins
    depend on the other documents of a query.

    Args:
        of: a ranker, such as `Model`; the function then takes unscaled features. Or a comparator;
            the function then takes scaled features.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> margin = pairwise(ByFirstFeature())
    >>> margin(np.array([3.0, 0.0]), np.array([1.0, 0.0]))
    2.0

    Cost: a comparison prepares both documents.
    """
    if isinstance(of, _Ranker):
        return _margin_by_ranker(of)

    def margin(a: F32, b: F32) -> float:
        """Compute the margin of document a over document b, given scaled features."""
        prepared = of.prepare(np.stack([a, b]).astype(np.float32, copy=False))
        return float(of.prefer(prepared, np.array([0]), np.array([1]))[0])

    return margin


def _margin_by_ranker(ranker: _Ranker) -> Callable[[F32, F32], float]:
    """Make a function that returns the margin of two documents, given their unscaled features."""
    if ranker.depends_on_query:
        warnings.warn(
            "this ranker's margins depend on all documents of the list, not only on the two that "
            "are compared: train with a scaling that does not depend on it, such as normal",
            stacklevel=3,
        )
    return lambda a, b: float(ranker.margins(Queries.from_arrays([a, b]), [0], [1])[0])
