"""Compute the results of an experiment that the store lacks, and store them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cli.console import say
from sortnet.core import Progress
from sortnet.errors import SortNetError, StoreError
from sortnet.lab.cells import Cell, Result, keys_of
from sortnet.lab.executor import work_out_all
from sortnet.messages import count
from store.lab.cell_rows import keep_cell, kept_cells

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
        results: dict[str, Result] = {}
        if not run_options.again:
            for key, (order, about) in kept_cells(store.database, keys).items():
                results[key] = Result(order, about)
        to_do = {key: cell for key, cell in zip(keys, cells, strict=True) if key not in results}
        n_stored = len(cells) - len(to_do)
        if n_stored:
            say(f"worked out before: {n_stored} of {count(len(cells), 'cell')}")
        try:
            computed, failed = _compute(to_do, store, run_options, progress)
        except KeyboardInterrupt:
            raise SortNetError("interrupted: the same command resumes it") from None
    results |= computed
    in_order = [
        (cell, results[key]) for key, cell in zip(keys, cells, strict=True) if key in results
    ]
    return Results(in_order, failed)


def _compute(
    to_do: dict[str, Cell], store: Store, run_options: RunOptions, progress: Progress
) -> tuple[dict[str, Result], list[tuple[Cell, str]]]:
    """Compute results, store each at once, and tell how long the remaining results take.

    Args:
        to_do: the cells by key.
        store: the store.
        run_options: options of the computation.
        progress: called with the number of cells that are left.

    Returns:
        The results by key, and the cells that failed, each with the reason.

    Raises:
        StoreError: if a result cannot be stored; the message names the cell.
    """
    n_cells = len(to_do)
    if n_cells:
        processes = f" in {run_options.jobs} processes" if run_options.jobs > 1 else ""
        say(f"{count(n_cells, 'cell')} to work out{processes}")
    progress(f"{count(n_cells, 'cell')} to work out")
    results: dict[str, Result] = {}
    failed = []
    keys = [*to_do]
    began = time.monotonic()
    outcomes = work_out_all(
        [*to_do.values()],
        jobs=run_options.jobs,
        cluster=run_options.cluster,
        cache=run_options.cache,
    )
    for n_ended, (number, outcome) in enumerate(outcomes, 1):
        key = keys[number]
        cell = to_do[key]
        if isinstance(outcome, str):
            failed.append((cell, outcome))
            line = f"{cell.name} failed: {outcome}"
        else:
            try:
                keep_cell(store.database, key, outcome.order, outcome.about, **_named(cell))
            except StoreError as error:
                raise StoreError(f"{cell.name} cannot be kept: {error}") from None
            results[key] = outcome
            line = f"{n_ended} of {n_cells}  {cell.name}  {cpu_seconds(outcome):.1f} CPU s"
        n_left = n_cells - n_ended
        seconds_of_cell = (time.monotonic() - began) / n_ended
        left = f"{count(n_left, 'cell')} left, about {in_words(seconds_of_cell * n_left)}"
        say(f"{line}; {left}" if n_left else line)
        progress(left)
    return results, failed


def _named(cell: Cell) -> dict[str, object]:
    """Name and describe a cell for the store."""
    return {"ranker": cell.ranker.name, "part": cell.split.name, "cell": cell.to_json()}


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
