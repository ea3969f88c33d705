"""One merge sort whose comparisons are answered by people, several at a time, in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sortnet.preference.base import Pair


@dataclass(eq=False)
class _Merge:
    """A node of the sort's tree: two sorted runs on their way to one."""

    parent: _Merge | None
    runs: list[list[int]] = field(default_factory=list)  # of the children that are done
    merged: list[int] = field(default_factory=list)
    at: list[int] = field(default_factory=lambda: [0, 0])

    def wants(self) -> Pair:
        """The heads of both runs."""
        return self.runs[0][self.at[0]], self.runs[1][self.at[1]]

    def take(self, run: int) -> bool:
        """Move the head of a run; whether that ends the merge."""
        self.merged.append(self.runs[run][self.at[run]])
        self.at[run] += 1
        for k in (0, 1):
            if self.at[k] == len(self.runs[k]):
                self.merged += self.runs[1 - k][self.at[1 - k] :]
                return True
        return False


class MergePass:
    """A merge sort that says which comparisons it waits for, and goes on with each answer.

    Every item is compared, and the comparisons connect all items; those of a textbook merge
    sort: at most n ceil(log2 n). Merges of different parts of the list wait at the same time, so
    that many people can answer.

    Args:
        order: the items, in the order to be sorted.

    Attributes:
        ranking: the items best first, once nothing is waited for.

    >>> sort = MergePass([0, 1, 2])
    >>> while not sort.ranking:
    ...     a, b = next(sort.wanted())
    ...     sort.answer(a, b, first=max(a, b))
    >>> sort.ranking
    [2, 1, 0]

    Cost: O(n) to begin, O(log n) an answer at the most.
    """

    def __init__(self, order: Sequence[int]) -> None:
        self.ranking: list[int] = []
        self._waiting: dict[Pair, _Merge] = {}
        self._begin(list(order), None)

    def wanted(self) -> Iterator[Pair]:
        """The comparisons waited for, each the lower number first, oldest first."""
        return iter(tuple(self._waiting))

    def __contains__(self, pair: Pair) -> bool:
        return pair in self._waiting

    def answer(self, a: int, b: int, first: int) -> None:
        """Which of two goes first; what is not waited for changes nothing."""
        merge = self._waiting.pop((min(a, b), max(a, b)), None)
        if merge is not None:
            self._go_on(merge, 0 if merge.wants()[0] == first else 1)

    def _begin(self, items: list[int], parent: _Merge | None) -> None:
        if len(items) <= 1:
            self._done(items, parent)
            return
        merge = _Merge(parent)
        self._begin(items[: (len(items) + 1) // 2], merge)
        self._begin(items[(len(items) + 1) // 2 :], merge)

    def _done(self, run: list[int], parent: _Merge | None) -> None:
        if parent is None:
            self.ranking = run
            return
        parent.runs.append(run)
        if len(parent.runs) == 2:
            self._wait(parent)

    def _wait(self, merge: _Merge) -> None:
        a, b = merge.wants()
        self._waiting[min(a, b), max(a, b)] = merge

    def _go_on(self, merge: _Merge, run: int) -> None:
        if merge.take(run):
            self._done(merge.merged, merge.parent)
        else:
            self._wait(merge)
