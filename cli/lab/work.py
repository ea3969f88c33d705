"""Compute the results of an experiment that the store lacks, and store them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from cli.console import say
from sortnet.core import Progress
from sortnet.errors import SortNetError, StoreError
from sortnet.lab.cells import Cell, Result, keys_of
from sortnet.lab.executor import Outcome, work_out_all
from sortnet.messages import count
from store.lab.cell_rows import StoredCell, keep_cell, kept_cells

if TYPE_CHECKING:
    from sqlalchemy import URL

    from store import Store


class RunOptions(NamedTuple):
    """Options of `sortnet experiment` that say how results are computed and stored.

    Attributes:
        store: the store of results; None for the default store.
        jobs: number of processes.
        cluster: address of a Dask scheduler that is used in place of processes; or None.
        cache: cache folder for the data; None for no cache.
        again: whether cells are computed again although the store has their results.
    """

    store: URL | str | None
    jobs: int
    cluster: str | None
    cache: Path | None
    again: bool


class Results(NamedTuple):
    """Results of an experiment's cells; a cell is one ranker on one division of the data.

    Attributes:
        results: the cells that have a result, in their order, each with its result.
        failed: the cells that failed, each with the reason.
    """

    results: list[tuple[Cell, Result]]
    failed: list[tuple[Cell, str]]


def cpu_seconds(result: Result) -> float:
    """Return the CPU seconds in which the result of a cell was computed."""
    seconds: float = sum(result.about["seconds"].values())
    return seconds


class _Stopwatch:
    """Measures the time from one lap to the next by the wall clock."""

    def __init__(self) -> None:
        """Begin the first lap."""
        self._began = time.monotonic()

    def lap(self) -> float:
        """Return the seconds since the last lap ended, and begin the next lap."""
        ended = time.monotonic()
        seconds = ended - self._began
        self._began = ended
        return seconds


class TimeLeft:
    """Estimates how long the remaining cells take, by the times of the cells that are done.

    A cell is expected to take as long as the mean of the same ranker's cells that are done, or, if
    there is none, as long as the mean of all cells that are done. Several processes share the work.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def add(self, cell: Cell, seconds: float) -> None:
        """Note the seconds that one process worked on a cell."""
        self.seconds[cell.ranker.name].append(seconds)

    def estimate(self, cells: Sequence[Cell]) -> float:
        """Estimate the seconds until the given cells are computed.

        >>> from types import SimpleNamespace
        >>> fast, slow = (SimpleNamespace(ranker=SimpleNamespace(name=n)) for n in ("fast", "slow"))
        >>> time_left = TimeLeft(jobs=2)
        >>> time_left.add(fast, 2.0)
        >>> time_left.estimate([slow, fast])
        2.0
        >>> time_left.add(slow, 10.0)
        >>> time_left.estimate([slow, fast, fast])
        7.0
        """
        average = fmean(chain(*self.seconds.values()))
        expected = [fmean(self.seconds.get(cell.ranker.name) or [average]) for cell in cells]
        return sum(expected) / self.jobs


def results_of(cells: Sequence[Cell], run_options: RunOptions, progress: Progress) -> Results:
    """Load the results that the store has, and compute and store the missing results.

    A new result is stored at once, so that an interrupted command can be resumed.

    Raises:
        SortNetError: if the data, the store or the cluster cannot be used.
    """
    from store import open_store

    progress("reading the data")
    keys = keys_of(cells)
    with open_store(run_options.store) as store:
        result_of_key = {} if run_options.again else _stored_results(store, keys)
        keys_and_cells = zip(keys, cells, strict=True)
        to_do = [(key, cell) for key, cell in keys_and_cells if key not in result_of_key]
        _say_what_is_to_do(len(cells), len(to_do), run_options.jobs)
        progress(f"{count(len(to_do), 'cell')} to work out")
        failed = []
        try:
            for key, cell, outcome in _compute(to_do, store, run_options, progress):
                if isinstance(outcome, str):
                    failed.append((cell, outcome))
                else:
                    result_of_key[key] = outcome
        except KeyboardInterrupt:
            raise SortNetError("interrupted: the same command resumes it") from None
    results = [
        (cell, result_of_key[key])
        for cell, key in zip(cells, keys, strict=True)
        if key in result_of_key
    ]
    return Results(results, failed)


def _stored_results(store: Store, keys: Sequence[str]) -> dict[str, Result]:
    """Read the results that the store has, as {key of a cell: result}."""
    return {
        key: Result(stored.order, stored.about)
        for key, stored in kept_cells(store.database, keys).items()
    }


def _say_what_is_to_do(n_cells: int, n_to_do: int, jobs: int) -> None:
    """Say how many results are stored already, and how many are to be computed."""
    n_stored = n_cells - n_to_do
    if n_stored:
        say(f"worked out before: {n_stored} of {count(n_cells, 'cell')}")
    if n_to_do:
        processes = f" in {jobs} processes" if jobs > 1 else ""
        say(f"{count(n_to_do, 'cell')} to work out{processes}")


def _compute(
    to_do: Sequence[tuple[str, Cell]], store: Store, run_options: RunOptions, progress: Progress
) -> Iterator[tuple[str, Cell, Outcome]]:
    """Compute results, store each at once, and tell how long the remaining results take.

    Args:
        to_do: the cells, each with its key.
        store: the store.
        run_options: options of the computation.
        progress: called with the number of cells that are left.

    Yields:
        The key of a cell that has ended, the cell, and its result or the reason why it failed.
    """
    cells = [cell for _, cell in to_do]
    cells_left = dict(enumerate(cells))
    time_left = TimeLeft(run_options.jobs)
    outcomes = work_out_all(
        cells, jobs=run_options.jobs, cluster=run_options.cluster, cache=run_options.cache
    )
    stopwatch = _Stopwatch()
    for n_ended, (number, outcome) in enumerate(outcomes, 1):
        key, cell = to_do[number]
        del cells_left[number]
        seconds = stopwatch.lap()
        if isinstance(outcome, str):
            line = f"{cell.name} failed: {outcome}"
        else:
            _keep(store, key, cell, outcome)
            seconds_of_cell = cpu_seconds(outcome)
            line = f"{n_ended} of {len(to_do)}  {cell.name}  {seconds_of_cell:.1f} CPU s"
            if run_options.jobs > 1:
                # A lap of several processes is not the time of a cell. Each process has one thread,
                # so its CPU seconds are about its wall seconds.
                seconds = seconds_of_cell
        time_left.add(cell, seconds)
        work_left = _describe_work_left([*cells_left.values()], time_left)
        say(f"{line}; {work_left}" if cells_left else line)
        progress(work_left)
        yield key, cell, outcome


def _keep(store: Store, key: str, cell: Cell, result: Result) -> None:
    """Store the result of a cell in the database.

    Raises:
        StoreError: if the result cannot be stored; the message names the cell.
    """
    try:
        keep_cell(
            store.database,
            key,
            StoredCell(result.order, result.about),
            ranker=cell.ranker.name,
            part=cell.split.name,
            cell=cell.to_json(),
        )
    except StoreError as error:
        raise StoreError(f"{cell.name} cannot be kept: {error}") from None


def _describe_work_left(cells_left: Sequence[Cell], time_left: TimeLeft) -> str:
    """Write how many cells are not computed yet, and about how long they will take."""
    duration = in_words(time_left.estimate(cells_left))
    return f"{count(len(cells_left), 'cell')} left, about {duration}"


def in_words(seconds: float) -> str:
    """Write a duration in seconds, minutes or hours.

    >>> in_words(0.2), in_words(100), in_words(9000)
    ('1 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
