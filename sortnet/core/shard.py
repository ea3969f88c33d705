"""Shards: each of several processes learns from its share of the queries.

The whole are the queries of all processes. A single process has all queries, and no shard: then
the functions of this module cost nothing.
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
    """Processes that learn one model, each from its own queries; all make the same calls."""

    rank: int
    size: int

    def sum(self, values: T) -> T:
        """The sums over all processes, the same in each of them."""
        ...

    def gather(self, values: T) -> T:
        """(m, ...) the rows of all processes, in the order of the processes."""
        ...


class Alone:
    """The group of a process that learns by itself: sums and rows are already complete."""

    rank, size = 0, 1

    def sum(self, values: T) -> T:
        return values

    def gather(self, values: T) -> T:
        return values


@dataclass(frozen=True, eq=False)
class Shard:
    """A process's share of the queries of a whole.

    Attributes:
        group: the processes that share the queries.
        offsets: (n + 1,) `Queries.offsets` of the whole.
        first: number of the share's first query in the whole.
    """

    group: Group
    offsets: NDArray[np.int64]
    first: int

    @property
    def first_doc(self) -> int:
        """Number of the share's first document in the whole."""
        return int(self.offsets[self.first])


def sharded(queries: Queries, group: Group) -> Queries:
    """This process's share of the queries, balanced by estimated work, n log n per query.

    Cost: views; nothing is copied.
    """
    if group.size == 1:
        return queries
    work = np.cumsum(queries.sizes * np.log2(np.maximum(queries.sizes, 2)))
    total = work[-1] if len(work) else 0.0
    shares = total * np.arange(1, group.size) / group.size
    bounds = np.minimum(np.searchsorted(work, shares, side="left") + 1, len(queries))
    bounds_of_shares = [0, *bounds.tolist(), len(queries)]
    first = bounds_of_shares[group.rank]
    last = bounds_of_shares[group.rank + 1]
    return replace(queries.take(np.arange(first, last)), shard=Shard(group, queries.offsets, first))


def offsets_of_all(queries: Queries) -> NDArray[np.int64]:
    """(n + 1,) `offsets` of the queries; if they are a shard, the offsets of the whole."""
    return queries.offsets if queries.shard is None else queries.shard.offsets


def own(queries: Queries, docs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn document numbers of the whole into document numbers of this shard.

    A document of another shard gets a number below 0, or a number above the last document's.
    """
    return docs if queries.shard is None else docs - queries.shard.first_doc


def summed(queries: Queries, values: Any) -> Any:
    """Complete sums over the queries: if they are a shard, add up the sums of all shards."""
    return values if queries.shard is None else queries.shard.group.sum(np.asarray(values))


def gathered(queries: Queries, values: T) -> T:
    """Complete rows of the queries: if they are a shard, join the rows of all shards."""
    return values if queries.shard is None else queries.shard.group.gather(values)


def before(queries: Queries, n: int) -> int:
    """Add up the numbers n of the processes that come before this process."""
    if queries.shard is None:
        return 0
    group = queries.shard.group
    return int(group.gather(np.array([n]))[: group.rank].sum())
