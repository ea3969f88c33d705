"""Live ranking: a ranking into which documents are inserted, and from which they are removed."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from typing import Any, Generic, TypeVar, overload

import numpy as np
from sortedcontainers import SortedKeyList

from sortnet.core import F32, Comparator, Queries
from sortnet.errors import ComparatorError, DataError

Name = TypeVar("Name", bound=Hashable)
Document = TypeVar("Document")

# Distance of neighbouring labels. Each insertion at the same place halves it, so that 128
# insertions are possible before new labels are needed.
_GAP = 1 << 128


class LiveRanking(Generic[Name, Document]):
    """Ranked list, best first, that inserts a document with O(log n) comparisons.

    The place of a new document is found once, by binary search with the comparator. Then the
    document gets an integer label between the labels of its neighbours, and the list is sorted by
    label. The comparator is never called again for two documents of the list. So a comparator that
    is not transitive or not deterministic cannot corrupt the list: it only decides the places of
    new documents.

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
        self._relabel(list(self._documents))

    def insert(self, name: Name, document: Document) -> int:
        """Insert a new document, behind documents that tie with it; return its rank from 1.

        If the comparator raises an error, the list does not change.

        Raises:
            DataError: if the name is in the list already.
            ComparatorError: if a margin is not a number.

        Cost: at most ceil(log2(n + 1)) comparisons, and about O(log n) to insert into the list.
        After 128 or more insertions at one place all documents get new labels, in O(n log n).
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
            DataError: if the name is not in the list.

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
        """Return the rank of a document, 1 for the best.

        Raises:
            DataError: if the name is not in the list.

        Cost: O(log n), no comparisons.
        """
        self._refuse_unknown(name)
        return int(self._order.bisect_key_left(self._labels[name])) + 1

    @overload
    def __getitem__(self, place: int) -> Name: ...
    @overload
    def __getitem__(self, place: slice) -> list[Name]: ...
    def __getitem__(self, place: int | slice) -> Name | list[Name]:
        """Return names by place, from 0 for the best, as in `ranking[:10]` or `ranking[-1]`."""
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
        """Find the place of a new document by bisection, behind documents that beat it or tie."""
        low, high = 0, len(self._order)
        while low < high:
            middle = (low + high) // 2
            other_name = self._order[middle]
            self.comparisons += 1
            margin = self._prefer(document, self._documents[other_name])
            if math.isnan(margin):
                raise ComparatorError(f"the margin over document {other_name!r} is not a number")
            if margin > 0:
                high = middle
            else:
                low = middle + 1
        return low

    def _label_between(self, place: int) -> int:
        """Make a label for a new document at `place`, between the labels of its neighbours."""
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
        """Raise DataError if the name is in the list."""
        if name in self._documents:
            raise DataError(f"document {name!r} is ranked already")

    def _refuse_unknown(self, name: Name) -> None:
        """Raise DataError unless the name is in the list."""
        if name not in self._documents:
            raise DataError(f"document {name!r} is not ranked")


def pairwise(of: Any) -> Callable[[F32, F32], float]:
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
    if not hasattr(of, "margins"):  # rankers have it, in a package that must not be imported here
        return partial(_margin_by_comparator, of)
    if of.depends_on_query:
        warnings.warn(
            "this ranker's margins depend on all documents of the list, not only on the two that "
            "are compared: train with a scaling that does not depend on it, such as normal",
            stacklevel=2,
        )
    return partial(_margin_by_ranker, of)


def _margin_by_ranker(ranker: Any, a: F32, b: F32) -> float:
    """Compute the margin of document a over document b by a ranker, given unscaled features."""
    return float(ranker.margins(Queries.from_arrays([a, b]), [0], [1])[0])


def _margin_by_comparator(comparator: Comparator, a: F32, b: F32) -> float:
    """Compute the margin of document a over document b by a comparator, given scaled features."""
    prepared = comparator.prepare(np.stack([a, b]).astype(np.float32, copy=False))
    return float(comparator.prefer(prepared, np.array([0]), np.array([1]))[0])
