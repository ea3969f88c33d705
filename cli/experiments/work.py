"""Work out the cells of an experiment that the store does not have yet, and keep them in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cli.inputs.opened_store import open_to_write
from cli.output import count, say
from sortnet.errors import SortNetError, StoreError
from sortnet.experiments.cells import Cell, Result, keys_of
from sortnet.experiments.executor import work_out_all
from sortnet.types import Progress
from store.experiments.cell_rows import keep_cell, kept_cells

if TYPE_CHECKING:
    from sqlalchemy import URL


class Where(NamedTuple):
    """Where cells are worked out and kept: options of every command of `sortnet experiment`."""

    store: URL | str | None
    jobs: int
    cluster: str | None
    cache: Path | None
    again: bool


class Found(NamedTuple):
    """What came of an experiment: results of its cells in their order, and what failed."""

    results: list[tuple[Cell, Result]]
    failed: list[tuple[Cell, str]]


def results_of(cells: Sequence[Cell], where: Where, progress: Progress) -> Found:
    """Results out of the store, and of the others by working them out; each is kept at once.

    Raises:
        SortNetError: if the data, the store or the cluster cannot be used.
    """
    progress("reading the data")
    keys = keys_of(cells)
    failed = []
    with open_to_write(where.store) as store:
        known = {} if where.again else kept_cells(store.database, keys)
        left = [k for k, key in enumerate(keys) if key not in known]
        if len(left) < len(cells):
            say(f"worked out before: {len(cells) - len(left)} of {count(len(cells), 'cell')}")
        some, began = [cells[k] for k in left], time.monotonic()
        progress(_state(len(left), 0, 0.0))
        outcomes = work_out_all(some, jobs=where.jobs, cluster=where.cluster, cache=where.cache)
        try:
            for done, (k, found) in enumerate(outcomes, 1):
                cell, key = some[k], keys[left[k]]
                if isinstance(found, str):
                    failed.append((cell, found))
                    say(f"{cell.name} failed: {found}")
                else:
                    known[key] = found
                    try:
                        keep_cell(store.database, key, cell, found)
                    except StoreError as error:
                        raise StoreError(f"{cell.name} cannot be kept: {error}") from None
                    took = sum(found.about["seconds"].values())
                    say(f"{done} of {len(left)}  {cell.name}  {took:.1f} CPU s")
                progress(_state(len(left) - done, done, time.monotonic() - began))
        except KeyboardInterrupt:
            raise SortNetError("interrupted: the same command resumes it") from None
    results = [(c, known[key]) for c, key in zip(cells, keys, strict=True) if key in known]
    return Found(results, failed)


def _state(left: int, done: int, seconds: float) -> str:
    """How many cells are left, and for how long."""
    if done == 0:
        return f"{count(left, 'cell')} to work out"
    return f"{count(left, 'cell')} left, about {seconds / done * left / 60:.0f} min"
