"""Watch a run that another process trains."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from store.runs.run import Run


@dataclass(frozen=True)
class RunChange:
    """The progress of a run since it was last read.

    Attributes:
        status: one of `store.runs.run.STATUSES`, or `killed`.
        rows: new iterations, each a dict with the columns of `Run.iterations_frame`.
    """

    status: str
    rows: Sequence[Mapping[str, Any]]


def watch(run: Run, interval: float = 1.0) -> Iterator[RunChange]:
    """Read a run again and again until it ends, and yield its new iterations each time.

    Args:
        run: the run, as `Store.run` returns it.
        interval: seconds between two readings.

    >>> import tempfile
    >>> from sortnet import Queries
    >>> from store import open_store
    >>> queries = Queries.from_arrays([[0.0], [1.0]], [0, 1], group=[2])
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open_store(f"{folder.name}/runs.db") as store:
    ...     run = store.start_run(
    ...         command="train", config={}, seed=0, versions={}, train=queries, vali=queries
    ...     )
    ...     run.record({"iteration": 0, "quality": 0.5})
    ...     run.finish("done")
    ...     [(change.status, len(change.rows)) for change in watch(run)]
    [('done', 1)]
    >>> folder.cleanup()
    """
    n_rows = 0
    while True:
        status = run.status  # is read before the rows, so that an ended run has all of its rows
        rows = run.iteration_rows()
        yield RunChange(status, rows[n_rows:])
        if status != "running":
            return
        n_rows = len(rows)
        time.sleep(interval)
