"""Groups of processes that learn one model: their shares of the queries, and values they share.

Every process has all queries and makes the same decisions. The loop divides its sorts among the
processes, and the learners add up the gradients of their shares of each mini-batch.
`sortnet.learning.torchrun` has the group of the processes that torchrun started. Another module
starts processes that share no model: `sortnet.lab.executor` computes the cells of an experiment.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from sortnet.core.arrays import F32, I64, Array
from sortnet.errors import SortNetError

T = TypeVar("T", bound=Array)
SIGTERM_CAME = "ended by SIGTERM, which torchrun sends when another process has ended"


class Group:
    """Group of processes that learn one model; this class is a process that learns by itself.

    A subclass has several processes. All of them call `sum` and `gather` equally often, in the same
    order. A single process gets its array back as it is.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
    """

    rank = 0
    size = 1

    def sum(self, values: T) -> T:
        """Add up the arrays of all processes; every process gets the sum."""
        return values

    def gather(self, values: T) -> T:
        """Concatenate the rows of the arrays of all processes, in the order of the processes."""
        return values


ALONE = Group()


def own_share(group: Group, begin: int, end: int) -> tuple[int, int]:
    """Divide the range begin .. end - 1 equally; return this process's range, without its end.

    >>> own_share(ALONE, 3, 9)
    (3, 9)
    """
    n = end - begin
    return begin + n * group.rank // group.size, begin + n * (group.rank + 1) // group.size


def own_queries(group: Group, sizes: I64) -> tuple[int, int]:
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


def summed(group: Group, arrays: Sequence[F32]) -> list[F32]:
    """Add up each of several arrays over all processes, in one message, which has a fixed cost."""
    total = group.sum(np.concatenate([array.reshape(-1) for array in arrays]))
    sums = np.split(total, np.cumsum([array.size for array in arrays])[:-1])
    return [part.reshape(array.shape) for part, array in zip(sums, arrays, strict=True)]


class AnotherProcessEnded(SortNetError):
    """Raised when another process of the group has ended, so that this process must end too."""


def broadcast(group: Group, value: Any) -> Any:
    """Send a JSON value from the first process to all processes; all of them return it."""
    text = b""
    if group.rank == 0:
        text = json.dumps(value, default=np.generic.item).encode()  # numpy's numbers as Python's
    # All other processes send no bytes, so the gathered bytes are the text of the first process.
    raw = group.gather(np.frombuffer(text, np.uint8))
    return json.loads(raw.tobytes())


def every(group: Group, value: Any) -> list[Any]:
    """Collect one value from each process, sent as JSON, in the order of the processes."""
    raw = group.gather(np.frombuffer(json.dumps(value).encode() + b"\n", np.uint8))
    return [json.loads(line) for line in raw.tobytes().splitlines()]


def threads_of(group: Group) -> int | None:
    """Return the number of threads for this process, its share of the machine's cores.

    Return None for a process that learns by itself, which needs no limit.
    """
    if group.size == 1:
        return None
    from sortnet.threads import cores  # imports threadpoolctl, which few commands need

    n_processes_here = int(os.environ.get("LOCAL_WORLD_SIZE", group.size))
    return max(1, cores() // n_processes_here)


def is_from_torchrun(interrupt: KeyboardInterrupt) -> bool:
    """Whether torchrun's SIGTERM caused the interrupt; its text is the name of the signal."""
    return str(interrupt) == "SIGTERM"
