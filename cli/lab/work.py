"""Compute the results of an experiment that the store lacks, and store them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from cli.console import say
from sortnet.core import Progress
from sortnet.errors import SortNetError
from sortnet.lab.cells import Cell, Result, keys_of
from sortnet.lab.executor import work_out_all
from sortnet.messages import count
from store.cell_rows import keep_cell, kept_cells

if TYPE_CHECKING:
    from sqlalchemy import URL


# The cells that have a result, in their order, each with its result; a cell is one ranker on one
# division of the data.
Results: TypeAlias = list[tuple[Cell, Result]]
Failed: TypeAlias = list[tuple[Cell, str]]  # the cells that failed, each with the reason


def cpu_seconds(result: Result) -> float:
    """Return the CPU seconds in which the result of a cell was computed."""
    seconds: float = sum(result.about["seconds"].values())
    return seconds


def results_of(
    cells: Sequence[Cell],
    progress: Progress,
    *,
    store: URL | str | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    again: bool = False,
) -> tuple[Results, Failed]:
    """Load the results that the store has, and compute and store the missing results.

    A new result is stored at once, so that an interrupted command can be resumed.

    Args:
        cells: the cells.
        progress: called with the number of cells that are left.
        store: the store of results; None for the default store.
        jobs: number of processes.
        cluster: address of a Dask scheduler that is used in place of processes; or None.
        again: whether cells are computed again although the store has their results.

    Returns:
        The results, and the cells that failed.

    Raises:
        SortNetError: if the data, the store or the cluster cannot be used.
    """
    from store import open_store

    progress("reading the data")
    keys = keys_of(cells)
    failed: Failed = []
    with open_store(store) as opened_store:
        database = opened_store.database
        stored = {} if again else kept_cells(database, keys)
        results = {key: Result(order, about) for key, (order, about) in stored.items()}
        to_do = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in results}
        n_stored = len(cells) - len(to_do)
        if n_stored:
            say(f"worked out before: {n_stored} of {count(len(cells), 'cell')}")
        work_left = f"{count(len(to_do), 'cell')} to work out"
        if to_do:
            say(f"{work_left} in {jobs} processes" if jobs > 1 else work_left)
        progress(work_left)
        began = time.monotonic()
        outcomes = work_out_all([*to_do.values()], jobs=jobs, cluster=cluster)
        try:
            for n_ended, (number, outcome) in enumerate(outcomes, 1):
                key, cell = [*to_do.items()][number]
                if isinstance(outcome, str):
                    failed.append((cell, outcome))
                    line = f"{cell.name} failed: {outcome}"
                else:
                    keep_cell(
                        database, key, outcome.order, outcome.about,
                        ranker=cell.ranker.name, part=cell.split.name, cell=cell.to_json(),
                    )  # fmt: skip
                    results[key] = outcome
                    seconds = cpu_seconds(outcome)
                    line = f"{n_ended} of {len(to_do)}  {cell.name}  {seconds:.1f} CPU s"
                n_left = len(to_do) - n_ended
                seconds_left = (time.monotonic() - began) / n_ended * n_left
                work_left = (
                    f"{count(n_left, 'cell')} left, about {timedelta(seconds=round(seconds_left))}"
                )
                say(f"{line}; {work_left}" if n_left else line)
                progress(work_left)
        except KeyboardInterrupt:
            raise SortNetError("interrupted: the same command resumes it") from None
    in_order = [
        (cell, results[key]) for key, cell in zip(keys, cells, strict=True) if key in results
    ]
    return in_order, failed
