"""Sorting algorithms that ask one question at a time, to be compared with strategies of sessions.

Each sort is a generator that yields a question and is sent the answer. It sorts the list `order`
in place, the best item first; `top` is the number of best items that are wanted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sortnet.preference.base import Pair, unordered_pair

Asking: TypeAlias = Generator[Pair, bool, None]  # yields pairs (i, j); is sent whether i is better
AskingBest: TypeAlias = Generator[tuple[int, ...], int, None]  # yields items; is sent the best
Sort: TypeAlias = Callable[[list[int], int], Asking]


@dataclass(eq=False)
class _Merge:
    """A merge of two sorted runs; the merges of a merge sort form a binary tree.

    Attributes:
        parent: the merge that takes the result as one of its runs; None at the root.
        runs: the sorted runs to merge, without the items that are merged already. The merge starts
            when it has two runs.
        merged: the merged items, best first.
    """

    parent: _Merge | None
    runs: list[deque[int]] = field(default_factory=list)
    merged: list[int] = field(default_factory=list)


class MergePass:
    """A merge sort that lists the comparisons it waits for, and continues with each answer.

    As in a textbook merge sort there are at most
    n ceil(log2 n) comparisons. Merges of different runs wait for answers at the same time, so that
    several annotators can answer. Several lists are sorted separately.

    Args:
        orders: the lists of items to sort.

    Attributes:
        ranking: the items of each finished list, best first, list after list.

    >>> sort = MergePass([0, 1, 2])
    >>> while not sort.ranking:
    ...     a, b = next(sort.wanted())
    ...     sort.answer(a, b, first=max(a, b))
    >>> sort.ranking
    [2, 1, 0]

    Cost: O(n) to start, at most O(log n) per answer.
    """

    def __init__(self, *orders: Sequence[int]) -> None:
        self.ranking: list[int] = []
        self._waiting: dict[Pair, _Merge] = {}
        for order in orders:
            self._start(list(order), None)

    def wanted(self) -> Iterator[Pair]:
        """Yield the pending comparisons, oldest first, each with the lower item number first."""
        return iter(tuple(self._waiting))

    def __contains__(self, pair: Pair) -> bool:
        """Whether the comparison of a pair, the lower item number first, is pending."""
        return pair in self._waiting

    def answer(self, a: int, b: int, first: int) -> None:
        """Continue with the result of a comparison; ignored if the comparison is not pending.

        Args:
            a, b: the two items that were compared.
            first: the better of the two items.
        """
        merge = self._waiting.pop(unordered_pair(a, b), None)
        if merge is None:
            return
        left, right = merge.runs
        winning_run = left if left[0] == first else right
        merge.merged.append(winning_run.popleft())
        if left and right:
            self._wait_for_answer(merge)
        else:  # one of the runs is empty, and the items of the other run are in order already
            self._finish_run([*merge.merged, *left, *right], merge.parent)

    def _start(self, items: list[int], parent: _Merge | None) -> None:
        """Start to sort items; the parent merges the sorted run later."""
        if len(items) <= 1:
            self._finish_run(items, parent)
            return
        merge = _Merge(parent)
        middle = (len(items) + 1) // 2
        self._start(items[:middle], merge)
        self._start(items[middle:], merge)

    def _finish_run(self, run: list[int], parent: _Merge | None) -> None:
        """Give a sorted run to its parent, or add it to the ranking if there is no parent."""
        if parent is None:
            self.ranking += run
            return
        parent.runs.append(deque(run))
        if len(parent.runs) == 2:
            self._wait_for_answer(parent)

    def _wait_for_answer(self, merge: _Merge) -> None:
        """Add the comparison of the first items of both runs to the pending comparisons."""
        a, b = (run[0] for run in merge.runs)
        self._waiting[unordered_pair(a, b)] = merge


def merge_sort(order: list[int], top: int) -> Asking:
    """Sort the whole list by merging, whatever `top` is; the list changes only at the end."""
    merge_pass = MergePass(order)
    while not merge_pass.ranking:
        i, j = next(merge_pass.wanted())
        i_is_better = yield i, j
        winner = i if i_is_better else j
        merge_pass.answer(i, j, winner)
    order[:] = merge_pass.ranking


def heapsort(order: list[int], top: int) -> Asking:
    """Take the best items one by one from a binary heap, until `top` items are taken.

    At any time the list holds the items taken so far, and then the heap.

    Cost: at most 2 n comparisons to build the heap of n items, then 2 log2 n for each item taken.

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
    last_parent = len(order) // 2 - 1
    for root in range(last_parent, -1, -1):
        yield from _sift(order, root, 0)
    for n_best in range(1, min(top, len(order) - 1)):
        order.insert(n_best, order.pop())  # the last leaf becomes the root of the heap
        yield from _sift(order, 0, n_best)


def _sift(order: list[int], root: int, first: int) -> Asking:
    """Move the item at `root` down in a binary heap, as long as one of its children is better.

    The children of the item at position p are at the positions 2 p + 1 and 2 p + 2.

    Args:
        order: the list; the heap is its part from `first` on.
        root: position of the item in the heap.
        first: position in the list at which the heap begins.
    """
    heap_size = len(order) - first
    child = 2 * root + 1
    while child < heap_size:
        if child + 1 < heap_size:
            right_is_better = yield order[first + child + 1], order[first + child]
            if right_is_better:
                child += 1
        child_is_better = yield order[first + child], order[first + root]
        if not child_is_better:
            return
        _swap(order, first + root, first + child)
        root = child
        child = 2 * root + 1


def setwise_heapsort(order: list[int], top: int, size: int) -> AskingBest:
    """Sort by a heap whose questions ask for the best of `size` items: a parent and its children.

    This is the setwise heapsort of Zhuang et al. 2023, with size - 1 children of each item. As in
    `heapsort`, the list holds the items taken so far, and then the heap.

    Cost: for n items about n / (size - 1) questions to build the heap, then log n to the base
    size - 1 for each item taken.
    """
    last_parent = (len(order) - 2) // (size - 1)  # parent of the last item, see `_sift_set`
    for root in range(last_parent, -1, -1):
        yield from _sift_set(order, root, 0, size)
    for n_best in range(1, min(top, len(order) - 1)):
        order.insert(n_best, order.pop())  # the last leaf becomes the root of the heap
        yield from _sift_set(order, 0, n_best, size)


def _sift_set(order: list[int], root: int, first: int, size: int) -> AskingBest:
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

    Cost: for n items about 2 n comparisons for a few of the best items, 2 n ln n for all.
    """
    unsorted_ranges = [(0, len(order))]
    while unsorted_ranges:
        start, end = unsorted_ranges.pop()
        pivot = order.pop((start + end) // 2)
        rest = order[start : end - 1]
        better: list[int] = []
        worse: list[int] = []
        order.insert(start, pivot)
        for n_compared, item in enumerate(rest, start=1):
            item_is_better = yield item, pivot
            if item_is_better:
                better.append(item)
            else:
                worse.append(item)
            order[start:end] = [*better, pivot, *rest[n_compared:], *worse]
        middle = start + len(better)
        # The better items are pushed last, so that they are sorted first.
        for range_start, range_end in ((middle + 1, end), (start, middle)):
            if range_end - range_start > 1 and range_start < top:
                unsorted_ranges.append((range_start, range_end))


def bubble_passes(order: list[int], top: int) -> Asking:
    """Let the best of the remaining items rise to the front, `top` times.

    Cost: for n items n - 1 comparisons in the first pass, and one less in each further pass.
    """
    for first in range(min(top, len(order))):
        for position in range(len(order) - 1, first, -1):
            is_better = yield order[position], order[position - 1]
            if is_better:
                _swap(order, position - 1, position)
