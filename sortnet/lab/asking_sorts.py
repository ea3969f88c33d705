"""Sorting algorithms that ask one question at a time, to be compared with strategies of sessions.

Each sort is a generator that yields the items of a question, two or more, and is sent the best of
them. It sorts the list `order` in place, the best item first; `top` is the number of best items
that are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TypeAlias, TypeVar

Asking: TypeAlias = Generator[tuple[int, ...], int, None]  # yields items; is sent the best
Sort: TypeAlias = Callable[[list[int], int], Asking]
Reply = TypeVar("Reply")


def merge_sort(order: list[int], top: int) -> Asking:
    """Sort the whole list by merging runs of 1, 2, 4 ... items, whatever `top` is.

    The list changes only at the end.

    Cost: at most n ceil(log2 n) questions about n items.
    """
    runs = [[item] for item in order]
    while len(runs) > 1:
        merged_runs = []
        for first, second in zip(runs[::2], runs[1::2], strict=False):
            merged: list[int] = []
            while first and second:
                best = yield first[0], second[0]
                winning_run = first if first[0] == best else second
                merged.append(winning_run.pop(0))
            merged_runs.append([*merged, *first, *second])
        if len(runs) % 2:
            merged_runs.append(runs[-1])
        runs = merged_runs
    order[:] = runs[0] if runs else []


def heapsort(order: list[int], top: int) -> Asking:
    """Take the best items one by one from a binary heap, until `top` items are taken.

    This is `setwise_heapsort` with two children of each item. A question about a parent and its
    children becomes questions about pairs: which child is better, and is it better than the parent.

    Cost: at most 2 n questions to build the heap of n items, then 2 log2 n for each item taken.

    >>> order = [2, 0, 3, 1]
    >>> sort = heapsort(order, 2)
    >>> items = next(sort)
    >>> while True:
    ...     try:
    ...         items = sort.send(max(items))
    ...     except StopIteration:
    ...         break
    >>> order[:2]
    [3, 2]
    """
    sort = setwise_heapsort(order, top, size=3)
    items = next(sort, None)
    while items is not None:
        parent, *children = items
        best = children[0]
        if len(children) == 2:
            best = yield children[1], children[0]
        best = yield best, parent
        items = next_items(sort, best)


def next_items(
    asking: Generator[tuple[int, ...], Reply, None], reply: Reply
) -> tuple[int, ...] | None:
    """Send a reply, and return the items of the next question; None if there is no question."""
    try:
        return asking.send(reply)
    except StopIteration:
        return None


def setwise_heapsort(order: list[int], top: int, size: int = 4) -> Asking:
    """Sort by a heap; each question asks for the best of `size` items, a parent and its children.

    This is the setwise heapsort of Zhuang et al. 2023, with size - 1 children of each item. At any
    time the list holds the items taken so far, and then the heap.

    Cost: for n items about n / (size - 1) questions to build the heap, then log n to the base
    size - 1 for each item taken.
    """
    last_parent = (len(order) - 2) // (size - 1)  # parent of the last item, see `_sift`
    for root in range(last_parent, -1, -1):
        yield from _sift(order, root, 0, size)
    for n_best in range(1, min(top, len(order) - 1)):
        order.insert(n_best, order.pop())  # the last leaf becomes the root of the heap
        yield from _sift(order, 0, n_best, size)


def _sift(order: list[int], root: int, first: int, size: int) -> Asking:
    """Move the item at `root` down in a heap, as long as one of its children is better.

    Each item of the heap has size - 1 children. The children of the item at position p are at the
    positions (size - 1) p + 1, (size - 1) p + 2 and so on.

    Args:
        order: the list; the heap is its part from `first` on.
        root: position of the item in the heap.
        first: position in the list at which the heap begins.
        size: number of items in a question.
    """
    heap_size = len(order) - first
    child = (size - 1) * root + 1
    while child < heap_size:
        positions = [root, *range(child, min(child + size - 1, heap_size))]
        best = yield tuple(order[first + position] for position in positions)
        best_position = next(k for k in positions if order[first + k] == best)
        if best_position == root:
            return
        _swap(order, first + root, first + best_position)
        root = best_position
        child = (size - 1) * root + 1


def _swap(order: list[int], a: int, b: int) -> None:
    """Exchange the items at the positions a and b."""
    order[a], order[b] = order[b], order[a]


def quicksort(order: list[int], top: int) -> Asking:
    """Sort by quicksort with the middle item as pivot; leave out ranges below the first `top`.

    During a split, items that are not compared yet are directly behind the pivot.

    Cost: for n items about 2 n questions for a few of the best items, 2 n ln n for all.
    """
    unsorted_ranges = [(0, len(order))]
    while unsorted_ranges:
        start, end = unsorted_ranges.pop()
        pivot = order.pop((start + end) // 2)
        uncompared = order[start : end - 1]
        better: list[int] = []
        worse: list[int] = []
        order.insert(start, pivot)
        for n_compared, item in enumerate(uncompared, start=1):
            best = yield item, pivot
            side = better if best == item else worse
            side.append(item)
            order[start:end] = [*better, pivot, *uncompared[n_compared:], *worse]
        middle = start + len(better)
        # The better items are pushed last, so that they are sorted first.
        for range_start, range_end in ((middle + 1, end), (start, middle)):
            if range_end - range_start > 1 and range_start < top:
                unsorted_ranges.append((range_start, range_end))


def bubble_passes(order: list[int], top: int) -> Asking:
    """Let the best of the remaining items rise to the front, `top` times.

    Cost: for n items n - 1 questions in the first pass, and one less in each further pass.
    """
    for first in range(min(top, len(order))):
        for position in range(len(order) - 1, first, -1):
            best = yield order[position], order[position - 1]
            if best == order[position]:
                _swap(order, position - 1, position)


SORTS: dict[str, Sort] = {
    "merge-sort": merge_sort,
    "quicksort": quicksort,
    "heapsort": heapsort,
    "setwise-heapsort": partial(setwise_heapsort, size=4),
    "bubble": bubble_passes,
}
