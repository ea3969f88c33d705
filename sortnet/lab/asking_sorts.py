"""Sorts that ask for one comparison at a time, as baselines of the choice of questions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

from sortnet.preference.base import Pair
from sortnet.preference.strategies import MergePass

Asking: TypeAlias = Generator[Pair, bool, None]  # yields pairs (i, j), is sent whether i won
AskingBest: TypeAlias = Generator[tuple[int, ...], int, None]  # yields items, is sent the best
Sort: TypeAlias = Callable[[list[int], int], Asking]


def merge_sort(order: list[int], top: int) -> Asking:
    """Merge runs until all are one, whatever `top` is; the list is changed at the end."""
    sort = MergePass(order)
    while not sort.ranking:
        i, j = next(sort.wanted())
        sort.answer(i, j, i if (yield i, j) else j)
    order[:] = sort.ranking


def heapsort(order: list[int], top: int) -> Asking:
    """Take the best items one by one from a binary heap, until `top` are known.

    The list is changed in place: at any time it holds the items that were taken, then the heap.

    Cost: at most 2 n comparisons for the heap, then 2 log2 n for each item taken.

    >>> order = [2, 0, 3, 1]
    >>> sort = heapsort(order, 2)
    >>> i, j = next(sort)
    >>> while True:
    ...     try:
    ...         i, j = sort.send(i > j)
    ...     except StopIteration:
    ...         break
    >>> order[:2]
    [3, 2]
    """
    for root in range(len(order) // 2 - 1, -1, -1):
        yield from _sift(order, root, 0)
    for taken in range(1, min(top, len(order) - 1)):
        order.insert(taken, order.pop())  # the last leaf becomes the root of what is left
        yield from _sift(order, 0, taken)


def _sift(order: list[int], root: int, first: int) -> Asking:
    """Let an item of the heap, which begins at `first`, sink below those that beat it."""
    n = len(order) - first
    while (child := 2 * root + 1) < n:
        if child + 1 < n and (yield order[first + child + 1], order[first + child]):
            child += 1
        if not (yield order[first + child], order[first + root]):
            return
        a, b = first + root, first + child
        order[a], order[b] = order[b], order[a]
        root = child


def setwise_heapsort(order: list[int], top: int, size: int) -> AskingBest:
    """Heapsort whose heap has so many children that an item and they are one question.

    A call asks for the best of up to `size` items (Zhuang and others, 2023). The list is changed in
    place as by `heapsort`.

    Cost: at most n / (size - 1) calls and a few more for the heap, then log n to the base size - 1
    for each item taken.
    """
    for root in range((len(order) - 2) // (size - 1), -1, -1):
        yield from _sift_set(order, root, 0, size)
    for taken in range(1, min(top, len(order) - 1)):
        order.insert(taken, order.pop())  # the last leaf becomes the root of what is left
        yield from _sift_set(order, 0, taken, size)


def _sift_set(order: list[int], root: int, first: int, size: int) -> AskingBest:
    """Let an item of the heap, which begins at `first`, sink below those that beat it."""
    n = len(order) - first
    while (child := (size - 1) * root + 1) < n:
        places = [root, *range(child, min(child + size - 1, n))]
        best = yield tuple(order[first + place] for place in places)
        at = next(place for place in places if order[first + place] == best)
        if at == root:
            return
        a, b = first + root, first + at
        order[a], order[b] = order[b], order[a]
        root = at


def quicksort(order: list[int], top: int) -> Asking:
    """Split at the middle item, and sort the parts that reach into the first `top` places.

    The list is changed in place: items that are not compared yet stay behind the pivot.

    Cost: about 2 n comparisons for a few of the best items, 2 n ln n for all.
    """
    parts = [(0, len(order))]
    while parts:
        start, end = parts.pop()
        pivot, *rest = (order.pop((start + end) // 2), *order[start : end - 1])
        better: list[int] = []
        worse: list[int] = []
        order.insert(start, pivot)
        for k, item in enumerate(rest):
            (better if (yield item, pivot) else worse).append(item)
            order[start:end] = [*better, pivot, *rest[k + 1 :], *worse]
        middle = start + len(better)
        found = [(middle + 1, end), (start, middle)]
        parts += [(a, b) for a, b in found if b - a > 1 and a < top]


def bubble_passes(order: list[int], top: int) -> Asking:
    """Let the best of the remaining items rise to the front, `top` times.

    Cost: n - 1 comparisons for the first pass, one less for each further one.
    """
    for first in range(min(top, len(order))):
        for at in range(len(order) - 1, first, -1):
            if (yield order[at], order[at - 1]):
                order[at - 1], order[at] = order[at], order[at - 1]
