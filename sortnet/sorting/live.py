"""Live ranking: a ranking into which documents are inserted, and from which they are removed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from sortedcontainers import SortedKeyList

from sortnet.core import F32, Comparator, Queries
from sortnet.errors import ComparatorError, DataError

Name = TypeVar("Name", bound=Hashable)
Document = TypeVar("Document")

_GAP = 1 << 128  # room for at least 128 insertions at one spot before relabelling


class LiveRanking(Generic[Name, Document]):
    """Ranked list, best first, that inserts a document with O(log n) comparisons.

    A place is found by binary search with the comparator, once; then the document gets an integer
    label between those of its neighbours, and the list is kept sorted by label. The comparator is
    never called again for documents already placed, so that one that is not transitive or not
    deterministic cannot corrupt the list: it only decides where new documents go.

    Args:
        prefer: margin of its first document over its second; see `pairwise` for comparators.
        ranked: (name, document) of documents already in order, best first; not compared.

    Attributes:
        comparisons: how often `prefer` was called.

    Raises:
        DataError: on a name that occurs twice.

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
        self.comparisons = 0
        self._prefer = prefer
        self._documents: dict[Name, Document] = {}
        for name, document in ranked:
            self._refuse_known(name)
            self._documents[name] = document
        self._relabel(list(self._documents))

    def insert(self, name: Name, document: Document) -> int:
        """Insert a new document, behind documents that tie with it; return its rank from 1.

        Nothing changes if the comparator fails.

        Raises:
            DataError: if the name is there already.
            ComparatorError: if a margin is not a number.

        Cost: at most ceil(log2(n + 1)) comparisons. Moving the list is O(log n), approximately;
        after 128 insertions or more at one spot it is relabelled once, in O(n log n).
        """
        self._refuse_known(name)
        place = self._search(document)
        self._labels[name] = self._label_between(place)
        self._documents[name] = document
        self._order.add(name)
        return place + 1

    def remove(self, name: Name) -> Document:
        """Remove a document and return it; all other documents keep their order.

        Raises:
            DataError: if it is not there.

        >>> ranking = LiveRanking(lambda a, b: a - b, [("gold", 3.0), ("bronze", 1.0)])
        >>> ranking.remove("gold"), list(ranking)
        (3.0, ['bronze'])

        Cost: O(log n), no comparisons.
        """
        self._refuse_unknown(name)
        self._order.remove(name)
        del self._labels[name]
        return self._documents.pop(name)

    def rank(self, name: Name) -> int:
        """Rank of a document, 1 for the best.

        Raises:
            DataError: if it is not there.

        Cost: O(log n), no comparisons.
        """
        self._refuse_unknown(name)
        return int(self._order.bisect_key_left(self._labels[name])) + 1

    @overload
    def __getitem__(self, place: int) -> Name: ...
    @overload
    def __getitem__(self, place: slice) -> list[Name]: ...
    def __getitem__(self, place: int | slice) -> Name | list[Name]:
        """Names by place, as in a list (0 is the best): `ranking[:10]`, `ranking[-1]`."""
        names: Name | list[Name] = self._order[place]
        return names

    def __iter__(self) -> Iterator[Name]:
        """Iterate over the names, best first."""
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, name: object) -> bool:
        return name in self._documents

    def __repr__(self) -> str:
        return f"LiveRanking({len(self)} documents, {self.comparisons} comparisons)"

    def _search(self, document: Document) -> int:
        """Find the place of a new document by bisection, behind documents that beat or tie it."""
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            self.comparisons += 1
            margin = self._prefer(document, self._documents[self._order[middle]])
            if math.isnan(margin):
                raise ComparatorError(
                    f"the margin over document {self._order[middle]!r} is not a number"
                )
            if margin > 0:
                high = middle
            else:
                low = middle + 1
        return low

    def _label_between(self, place: int) -> int:
        """Make a label for a new document at this place, between the labels of its neighbours."""
        if not self._order:
            return 0
        if place == 0:
            return self._labels[self._order[0]] - _GAP
        before = self._labels[self._order[place - 1]]
        if place == len(self._order):
            return before + _GAP
        after = self._labels[self._order[place]]
        if after - before < 2:
            self._relabel(list(self._order))
            return self._label_between(place)
        return (before + after) // 2

    def _relabel(self, names: list[Name]) -> None:
        """Assign new, evenly spaced labels to all documents."""
        self._labels = {name: place * _GAP for place, name in enumerate(names)}
        self._order: Any = SortedKeyList(names, key=self._labels.__getitem__)

    def _refuse_known(self, name: Name) -> None:
        if name in self._documents:
            raise DataError(f"document {name!r} is ranked already")

    def _refuse_unknown(self, name: Name) -> None:
        if name not in self._documents:
            raise DataError(f"document {name!r} is not ranked")

    def _check(self) -> None:
        """Raise AssertionError unless every document has exactly one place."""
        self._order._check()
        labels = [self._labels[name] for name in self._order]
        assert labels == sorted(set(labels))
        assert len(labels) == len(self._labels) == len(self._documents)
        assert set(self._order) == set(self._labels) == set(self._documents)


@runtime_checkable
class _Ranks(Protocol):
    """Interface of the rankers in `sortnet.rankers`, which this package must not import."""

    @property
    def depends_on_query(self) -> bool: ...

    def margins(self, queries: Queries, i: list[int], j: list[int], /) -> F32: ...


def pairwise(of: _Ranks | Comparator) -> Callable[[F32, F32], float]:
    """Make a function that returns the margin of two documents, given the features of both.

    The function is the `prefer` of a `LiveRanking`.

    Args:
        of: a ranker, such as `Model`, which takes unscaled features; or a comparator, which takes
            scaled features. A warning is issued if a ranker's margins depend on the other documents
            of the list.

    >>> class ByFirstFeature:
    ...     def prepare(self, X): return X[:, 0]
    ...     def prefer(self, x, i, j): return x[i] - x[j]
    >>> margin = pairwise(ByFirstFeature())
    >>> margin(np.array([3.0, 0.0]), np.array([1.0, 0.0]))
    2.0

    Cost: prepares both documents for every comparison.
    """

    if not isinstance(of, _Ranks):
        return lambda a, b: _margin_by(of, a, b)
    if of.depends_on_query:
        warnings.warn(
            "this ranker's margins depend on all documents of the list, not only on the two that "
            "are compared: train with a scaling that does not depend on it, such as normal",
            stacklevel=2,
        )
    return lambda a, b: float(of.margins(Queries.from_arrays([a, b]), [0], [1])[0])


def _margin_by(comparator: Comparator, a: F32, b: F32) -> float:
    """Margin of document a over document b by a comparator, given scaled features."""
    prepared = comparator.prepare(np.stack([a, b]).astype(np.float32, copy=False))
    return float(comparator.prefer(prepared, np.array([0]), np.array([1]))[0])
