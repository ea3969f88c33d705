"""Shards: the queries of a whole that one of several processes has.

A process that has all of them is a group of one, and everything here costs it nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sortnet.types import Queries

_DOCS_A_BLOCK = 1 << 17
MOST_BLOCKS = 64  # as many gradients can be added up
T = TypeVar("T", bound=NDArray[Any])


class Group(Protocol):
    """Processes that learn one model, each from its own queries; all call the same in turn."""

    rank: int
    size: int

    def sum(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums of the whole numbers of all processes: exact, in whatever order."""
        ...

    def begin_sum(self, counts: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        """The same; what is returned waits for it, and is called before anything else here."""
        ...

    def gather(self, values: T) -> T:
        """(m, ...) the rows of all processes, those of the first process first."""
        ...


class Alone:
    """The group of one process."""

    rank, size = 0, 1

    def sum(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts

    def begin_sum(self, counts: NDArray[np.int64]) -> Callable[[], NDArray[np.int64]]:
        return lambda: counts

    def gather(self, values: T) -> T:
        return values


@dataclass(frozen=True, eq=False)
class Shard:
    """Which queries of a whole a process has, and how the whole is divided.

    Attributes:
        group: the processes.
        offsets: (n + 1,) of the documents of all queries, as `Queries.offsets`.
        first: the number of its first query.
        blocks: (n_blocks + 1,) the first query of each block, and the end: gradients are computed
            block by block, on one process each, so that no model depends on how many there are.
    """

    group: Group
    offsets: NDArray[np.int64]
    first: int
    blocks: NDArray[np.int64]

    @property
    def n_blocks(self) -> int:
        return len(self.blocks) - 1

    @property
    def first_doc(self) -> int:
        """The number of its first document."""
        return int(self.offsets[self.first])


def sharded(queries: Queries, group: Group, blocks: int | None = None) -> Queries:
    """The queries of this process: a run of whole blocks, which are even in n log n.

    Args:
        queries: all queries.
        group: the processes, each of which calls this with the same queries.
        blocks: parts that the whole is divided into, so the most processes that have any; None:
            one for every 131,072 documents, 64 at most.

    Cost: views; nothing is copied.
    """
    n = blocks or int(np.clip(queries.n_docs // _DOCS_A_BLOCK, 1, MOST_BLOCKS))
    if n == 1 == group.size:
        return queries
    work = np.cumsum(queries.sizes * np.log2(np.maximum(queries.sizes, 2)))
    total = work[-1] if len(work) else 0.0
    bounds = np.searchsorted(work, total * np.arange(1, n) / n, side="left") + 1
    firsts = np.concatenate(([0], np.minimum(bounds, len(queries)), [len(queries)]))
    first, last = (int(firsts[rank * n // group.size]) for rank in (group.rank, group.rank + 1))
    return replace(
        queries.take(np.arange(first, last)),
        shard=Shard(group, queries.offsets, first, firsts.astype(np.int64)),
    )


def offsets_of_all(queries: Queries) -> NDArray[np.int64]:
    """(n + 1,) `offsets` of these queries, of a shard those of the whole."""
    return queries.offsets if queries.shard is None else queries.shard.offsets


def own(queries: Queries, docs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Document numbers of the whole as those of a shard; below 0 or too high: of another one."""
    return docs if queries.shard is None else docs - queries.shard.first_doc


def summed(queries: Queries, counts: Any) -> Any:
    """Whole numbers of these queries, of a shard those of the whole."""
    if queries.shard is None:
        return counts
    return queries.shard.group.sum(np.asarray(counts, np.int64))


def gathered(queries: Queries, values: T) -> T:
    """Rows of these queries, in their order; of a shard those of the whole."""
    return values if queries.shard is None else queries.shard.group.gather(values)


def before(queries: Queries, n: int) -> int:
    """The sum of the numbers n of the processes before this one."""
    if queries.shard is None:
        return 0
    group = queries.shard.group
    return int(group.gather(np.array([n]))[: group.rank].sum())


def blocks_of(queries: Queries) -> list[tuple[int, int]]:
    """The first query of each block here and the one after its last; one of all without a shard."""
    if queries.shard is None:
        return [(0, len(queries))]
    bounds = np.clip(queries.shard.blocks - queries.shard.first, 0, len(queries))
    firsts = bounds.tolist()
    return [(a, b) for a, b in pairwise(firsts) if a < b]


def block_of(queries: Queries, which: NDArray[np.int64]) -> NDArray[np.int64]:
    """The block of each of these queries, by their numbers here."""
    if queries.shard is None:
        return np.zeros(len(which), np.int64)
    return np.searchsorted(queries.shard.blocks, which + queries.shard.first, side="right") - 1
