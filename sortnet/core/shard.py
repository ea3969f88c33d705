"""Groups of processes that learn one model: each sorts a share of the queries.

Every process has all queries and makes the same decisions. Only the sorts and the gradients of
mini-batches are divided among the processes.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=NDArray[Any])


class Group(Protocol):
    """Group of processes that learn one model.

    All processes call `sum` and `gather` equally often, in the same order.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
    """

    rank: int
    size: int

    def sum(self, values: T) -> T:
        """Add up the arrays of all processes; every process gets the sum."""
        ...

    def gather(self, values: T) -> T:
        """Concatenate the rows of the arrays of all processes, in the order of the processes."""
        ...


class Alone:
    """Group of a single process, which learns by itself.

    There are no arrays of other processes, so `sum` and `gather` return the array as it is.
    """

    rank = 0
    size = 1

    def sum(self, values: T) -> T:
        return values

    def gather(self, values: T) -> T:
        return values


ALONE = Alone()


def own_share(group: Group, begin: int, end: int) -> tuple[int, int]:
    """Divide the range begin .. end - 1 equally; return this process's range, without its end.

    >>> own_share(ALONE, 3, 9)
    (3, 9)
    """
    n = end - begin
    return begin + n * group.rank // group.size, begin + n * (group.rank + 1) // group.size


def own_queries(group: Group, sizes: NDArray[np.int64]) -> tuple[int, int]:
    """Divide queries into runs of about equal work; return the first query of this process's run.

    Args:
        group: the processes.
        sizes: (n_queries,) the number of documents n of each query, whose work is about n log2 n.

    Returns:
        The first query of the run, and the first query after the run.
    """
    work_so_far = np.cumsum(sizes * np.log2(np.maximum(sizes, 2)))
    total = work_so_far[-1] if len(sizes) else 0.0
    ends = np.searchsorted(work_so_far, total * np.arange(1, group.size) / group.size) + 1
    bounds = [0, *np.minimum(ends, len(sizes)).tolist(), len(sizes)]
    return bounds[group.rank], bounds[group.rank + 1]
