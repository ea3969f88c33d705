"""Work out the cells of an experiment that the store does not have yet, and keep them in it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from cli.console import say
from sortnet.core import Progress
from sortnet.errors import SortNetError, StoreError
from sortnet.lab.cells import Cell, Result, keys_of
from sortnet.lab.executor import work_out_all
from sortnet.messages import count
from store.lab.cell_rows import StoredCell, keep_cell, kept_cells
from store.service.existing_store import open_to_write

if TYPE_CHECKING:
    from sqlalchemy import URL

    from store import Store


class RunOptions(NamedTuple):
    """Options of every command of `sortnet experiment`: where cells are worked out and kept."""

    store: URL | str | None
    jobs: int
    cluster: str | None
    cache: Path | None
    again: bool


class Results(NamedTuple):
    """Results of the cells of an experiment, in their order, and cells that failed, with why."""

    results: list[tuple[Cell, Result]]
    failed: list[tuple[Cell, str]]


class TimeLeft:
    """Estimate how long the cells that are left take, from the cells that are done.

    A ranker takes about as long on each part of the data; a ranker of which no cell is done yet is
    taken for an average one. Several processes share the work.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def add(self, cell: Cell, seconds: float) -> None:
        """Note the seconds that one process worked on a cell."""
        self.seconds[cell.ranker.name].append(seconds)

    def of(self, cells: Sequence[Cell]) -> float:
        """Seconds until these cells are worked out.

        >>> from types import SimpleNamespace
        >>> fast, slow = (SimpleNamespace(ranker=SimpleNamespace(name=n)) for n in ("fast", "slow"))
        >>> time_left = TimeLeft(jobs=2)
        >>> time_left.add(fast, 2.0)
        >>> time_left.of([slow, fast])
        2.0
        >>> time_left.add(slow, 10.0)
        >>> time_left.of([slow, fast, fast])
        7.0
        """
        average = fmean(chain(*self.seconds.values()))
        expected = [fmean(self.seconds.get(cell.ranker.name) or [average]) for cell in cells]
        return sum(expected) / self.jobs


def results_of(cells: Sequence[Cell], where: RunOptions, progress: Progress) -> Results:
    """Results of cells, from the store or by working them out; a new result is kept at once.

    Raises:
        SortNetError: if the data, the store or the cluster cannot be used.
    """
    progress("reading the data")
    keys = keys_of(cells)
    failed: list[tuple[Cell, str]] = []
    with open_to_write(where.store) as store:
        result_of_key = {}
        if not where.again:
            stored_cells = kept_cells(store.database, keys)
            for key, stored in stored_cells.items():
                result_of_key[key] = Result(stored.order, stored.about)
        cells_left = {k: cell for k, cell in enumerate(cells) if keys[k] not in result_of_key}
        n_stored = len(cells) - len(cells_left)
        if n_stored:
            say(f"worked out before: {n_stored} of {count(len(cells), 'cell')}")
        to_do = list(cells_left)
        if to_do:
            processes = f" in {where.jobs} processes" if where.jobs > 1 else ""
            say(f"{count(len(to_do), 'cell')} to work out{processes}")
        progress(f"{count(len(to_do), 'cell')} to work out")
        time_left = TimeLeft(where.jobs)
        outcomes = work_out_all(
            [cells[k] for k in to_do], jobs=where.jobs, cluster=where.cluster, cache=where.cache
        )
        began = time.monotonic()
        try:
            for n_ended, (k, outcome) in enumerate(outcomes, 1):
                cell = cells_left.pop(to_do[k])
                ended = time.monotonic()
                wall_seconds = ended - began
                began = ended
                if isinstance(outcome, str):
                    failed.append((cell, outcome))
                    time_left.add(cell, wall_seconds)
                    line = f"{cell.name} failed: {outcome}"
                else:
                    key = keys[to_do[k]]
                    result_of_key[key] = outcome
                    _keep(store, key, cell, outcome)
                    cpu_seconds = sum(outcome.about["seconds"].values())
                    # Each of several processes has one thread, so it works for its CPU seconds.
                    time_left.add(cell, wall_seconds if where.jobs == 1 else cpu_seconds)
                    line = f"{n_ended} of {len(to_do)}  {cell.name}  {cpu_seconds:.1f} CPU s"
                remaining = _remaining(cells_left.values(), time_left)
                say(f"{line}; {remaining}" if cells_left else line)
                progress(remaining)
        except KeyboardInterrupt:
            raise SortNetError("interrupted: the same command resumes it") from None
    results = [
        (cell, result_of_key[key])
        for cell, key in zip(cells, keys, strict=True)
        if key in result_of_key
    ]
    return Results(results, failed)


def _keep(store: Store, key: str, cell: Cell, result: Result) -> None:
    """Store a result; a fault names its cell."""
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


def _remaining(cells_left: Collection[Cell], time_left: TimeLeft) -> str:
    """The number of cells that are left, and about how long they take."""
    duration = in_words(time_left.of(tuple(cells_left)))
    return f"{count(len(cells_left), 'cell')} left, about {duration}"


def in_words(seconds: float) -> str:
    """A duration in the unit that fits.

    >>> in_words(0.2), in_words(100), in_words(9000)
    ('1 s', '2 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
