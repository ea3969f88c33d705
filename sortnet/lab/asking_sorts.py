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

    The list is changed in place: at any time it holds the best items so far, then the heap.

    Cost: at most 2 n comparisons for the heap, then 2 log2 n for each of the best items.

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
    for n_best in range(1, min(top, len(order) - 1)):
        order.insert(n_best, order.pop())  # the last leaf becomes the root of the heap
        yield from _sift(order, 0, n_best)


def _sift(order: list[int], root: int, first: int) -> Asking:
    """Let an item of the heap, which begins at `first`, sink below the items that beat it."""
    n = len(order) - first
    while (child := 2 * root + 1) < n:
        if child + 1 < n and (yield order[first + child + 1], order[first + child]):
            child += 1
        if not (yield order[first + child], order[first + root]):
            return
        _swap(order, first + root, first + child)
        root = child


def setwise_heapsort(order: list[int], top: int, size: int) -> AskingBest:
    """Heapsort that asks for the best of an item and its size - 1 children in one question.

    It is the setwise heapsort of Zhuang and others (2023). The list is changed in place as by
    `heapsort`.

    Cost: at most n / (size - 1) calls and a few more for the heap, then log n to the base size - 1
    for each of the best items.
    """
    for root in range((len(order) - 2) // (size - 1), -1, -1):
        yield from _sift_set(order, root, 0, size)
    for n_best in range(1, min(top, len(order) - 1)):
        order.insert(n_best, order.pop())  # the last leaf becomes the root of the heap
        yield from _sift_set(order, 0, n_best, size)


def _sift_set(order: list[int], root: int, first: int, size: int) -> AskingBest:
    """Let an item of the heap, which begins at `first`, sink below the items that beat it."""
    n = len(order) - first
    while (child := (size - 1) * root + 1) < n:
        places = [root, *range(child, min(child + size - 1, n))]
        best = yield tuple(order[first + place] for place in places)
        best_place = next(place for place in places if order[first + place] == best)
        if best_place == root:
            return
        _swap(order, first + root, first + best_place)
        root = best_place


def _swap(order: list[int], a: int, b: int) -> None:
    """Exchange the items at two places."""
    order[a], order[b] = order[b], order[a]


def quicksort(order: list[int], top: int) -> Asking:
    """Split at the middle item, and sort the parts that reach into the first `top` places.

    The list is changed in place: items that are not compared yet stay behind the pivot.

    Cost: about 2 n comparisons for a few of the best items, 2 n ln n for all.
    """
    parts = [(0, len(order))]
    while parts:
        start, end = parts.pop()
        pivot = order.pop((start + end) // 2)
        rest = order[start : end - 1]
        better: list[int] = []
        worse: list[int] = []
        order.insert(start, pivot)
        for k, item in enumerate(rest):
            if (yield item, pivot):
                better.append(item)
            else:
                worse.append(item)
            order[start:end] = [*better, pivot, *rest[k + 1 :], *worse]
        middle = start + len(better)
        for part_start, part_end in ((middle + 1, end), (start, middle)):
            if part_end - part_start > 1 and part_start < top:
                parts.append((part_start, part_end))


def bubble_passes(order: list[int], top: int) -> Asking:
    """Let the best of the remaining items rise to the front, `top` times.

    Cost: n - 1 comparisons for the first pass, one less for each further one.
    """
    for first in range(min(top, len(order))):
        for place in range(len(order) - 1, first, -1):
            if (yield order[place], order[place - 1]):
                _swap(order, place - 1, place)
