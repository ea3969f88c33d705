"""Shards: the queries of a whole that one of several processes has.

A process that has all of them is a group of one, and everything here costs it nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sortnet.core import Queries

T = TypeVar("T", bound=NDArray[Any])


class Group(Protocol):
    """Processes that learn one model, each from its own queries; all call the same in turn."""

    rank: int
    size: int

    def sum(self, values: T) -> T:
        """The sums over all processes, the same in each of them."""
        ...

    def gather(self, values: T) -> T:
        """(m, ...) the rows of all processes, those of the first process first."""
        ...


class Alone:
    """The group of one process."""

    rank, size = 0, 1

    def sum(self, values: T) -> T:
        return values

    def gather(self, values: T) -> T:
        return values


@dataclass(frozen=True, eq=False)
class Shard:
    """Which queries of a whole a process has.

    Attributes:
        group: the processes.
        offsets: (n + 1,) of the documents of all queries, as `Queries.offsets`.
        first: the number of its first query.
    """

    group: Group
    offsets: NDArray[np.int64]
    first: int

    @property
    def first_doc(self) -> int:
        """The number of its first document."""
        return int(self.offsets[self.first])


def sharded(queries: Queries, group: Group) -> Queries:
    """The queries of this process: of as much work, by n log n, as those of each other one.

    Cost: views; nothing is copied.
    """
    if group.size == 1:
        return queries
    work = np.cumsum(queries.sizes * np.log2(np.maximum(queries.sizes, 2)))
    total = work[-1] if len(work) else 0.0
    shares = total * np.arange(1, group.size) / group.size
    bounds = np.minimum(np.searchsorted(work, shares, side="left") + 1, len(queries))
    firsts = [0, *bounds.tolist(), len(queries)]
    first, last = firsts[group.rank : group.rank + 2]
    return replace(queries.take(np.arange(first, last)), shard=Shard(group, queries.offsets, first))


def offsets_of_all(queries: Queries) -> NDArray[np.int64]:
    """(n + 1,) `offsets` of these queries, of a shard those of the whole."""
    return queries.offsets if queries.shard is None else queries.shard.offsets


def own(queries: Queries, docs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Document numbers of the whole as those of a shard; below 0 or too high: of another one."""
    return docs if queries.shard is None else docs - queries.shard.first_doc


def summed(queries: Queries, values: Any) -> Any:
    """Sums over these queries, of a shard those over the whole."""
    return values if queries.shard is None else queries.shard.group.sum(np.asarray(values))


def gathered(queries: Queries, values: T) -> T:
    """Rows of these queries, in their order; of a shard those of the whole."""
    return values if queries.shard is None else queries.shard.group.gather(values)


def before(queries: Queries, n: int) -> int:
    """The sum of the numbers n of the processes before this one."""
    if queries.shard is None:
        return 0
    group = queries.shard.group
    return int(group.gather(np.array([n]))[: group.rank].sum())
