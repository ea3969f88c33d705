"""Shards: each of several processes learns from its share of the queries.

A process that learns by itself has all queries and no shard; then the functions of this module cost
nothing.
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
    """Group of processes that learn one model, each from its own queries.

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


@dataclass(frozen=True, eq=False)
class Shard:
    """Share of the queries that one of several processes has: a run of consecutive queries.

    Attributes:
        group: the processes that share the queries.
        offsets: (n + 1,) `Queries.offsets` of the n queries of all processes together.
        first: the number of the shard's first query among the queries of all processes.
    """

    group: Group
    offsets: NDArray[np.int64]
    first: int

    @property
    def first_doc(self) -> int:
        """Number of the shard's first document among the documents of all processes."""
        return int(self.offsets[self.first])


def sharded(queries: Queries, group: Group) -> Queries:
    """Select this process's share of the queries that the processes of a group share.

    A share is a run of consecutive queries. All shares are about the same work, see
    `_ends_of_shares`.

    Returns:
        The queries of the share, with a `Shard` that tells their place among all queries. A single
        process gets all queries, without a shard.

    Cost: views; nothing is copied.
    """
    if group.size == 1:
        return queries
    ends = _ends_of_shares(queries.sizes, group.size)
    starts = [0, *ends[:-1]]
    first = starts[group.rank]
    end = ends[group.rank]
    share = queries.take(np.arange(first, end))
    return replace(share, shard=Shard(group, offsets=queries.offsets, first=first))


def _ends_of_shares(sizes: NDArray[np.int64], n_shares: int) -> list[int]:
    """Divide queries into runs of about equal work, and return the end of each run.

    The end is the number of the first query after the run. The work of a query of n documents is
    estimated as n log2 n. Run k of K ends with the query that brings the work so far to k / K of
    the total.

    Args:
        sizes: (n_queries,) the number of documents of each query.
        n_shares: the number of runs, K.
    """
    n_queries = len(sizes)
    if n_queries == 0:
        return [0] * n_shares
    # log2 1 is 0, but even a single document is some work.
    work_so_far = np.cumsum(sizes * np.log2(np.maximum(sizes, 2)))
    total_work = work_so_far[-1]
    ends = []
    for k in range(1, n_shares):
        work_to_reach = total_work * k / n_shares
        n_queries_before = int(np.count_nonzero(work_so_far < work_to_reach))
        ends.append(n_queries_before + 1)  # the run includes the query that reaches `work_to_reach`
    return [*ends, n_queries]


def offsets_of_all(queries: Queries) -> NDArray[np.int64]:
    """Return the `offsets` (n + 1,) of the n queries of all processes together."""
    return queries.offsets if queries.shard is None else queries.shard.offsets


def numbers_in_shard(queries: Queries, docs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn document numbers among all processes' documents into document numbers of this shard.

    A document of another shard gets a number below 0, or at least as large as the shard's number of
    documents.
    """
    return docs if queries.shard is None else docs - queries.shard.first_doc


def sum_over_processes(queries: Queries, values: Any) -> Any:
    """Add up the values of all shards; without a shard, return the values as they are."""
    return values if queries.shard is None else queries.shard.group.sum(np.asarray(values))


def gather_rows(queries: Queries, values: T) -> T:
    """Concatenate the rows of all shards; without a shard, return the rows as they are."""
    return values if queries.shard is None else queries.shard.group.gather(values)


def sum_of_earlier_processes(queries: Queries, n: int) -> int:
    """Add up the counts n of the processes before this process; 0 for the first process.

    Args:
        queries: the queries of this process.
        n: this process's count of anything, such as its pairs.
    """
    if queries.shard is None:
        return 0
    group = queries.shard.group
    n_of_process = group.gather(np.array([n]))
    return int(n_of_process[: group.rank].sum())
