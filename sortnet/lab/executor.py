"""Work out many cells at once: here, in several processes, or on a Dask cluster.

A worker reads the data itself: no array travels but the ranking.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import one_line
from sortnet.lab.cells import Cell, Result, work_out

_RESTARTS = 2  # of a cell whose worker died
_REACHED = 10  # seconds within which a cluster must answer
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
Outcome = Result | str  # a string says why there is no result


def work_out_all(
    cells: Sequence[Cell],
    *,
    jobs: int = 1,
    cluster: str | None = None,
    cache: Path | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Work out cells, and yield each cell's number with its result, or why there is no result.

    Cells come in the order in which they end. A cell whose worker dies is started again, twice at
    most.

    Args:
        cells: what to work out.
        jobs: processes on this machine, of one thread each; 1: this process.
        cluster: a Dask scheduler, dask://HOST:PORT, in place of processes here; its workers read
            the files at the same paths.

    Raises:
        SortNetError: if the cluster cannot be reached, or Dask is not installed.
    """
    if jobs == 1 and cluster is None:
        yield from ((k, worked_out(cell, cache)) for k, cell in enumerate(cells))
        return
    cells_left = dict(enumerate(cells))
    n_restarts = 0
    while cells_left:
        a_worker_died = False
        with _executor(jobs, cluster) as executor:
            for k, outcome in _as_they_end(executor, cells_left, cache):
                if outcome is None:
                    a_worker_died = True
                    continue
                del cells_left[k]
                yield k, outcome
        if a_worker_died:
            n_restarts += 1
        if n_restarts > _RESTARTS:
            yield from ((k, "its worker died, again and again") for k in cells_left)
            return


def worked_out(cell: Cell, cache: Path | None = None) -> Outcome:
    """The result of a cell, or why there is none: a ranker's fault must not end other cells."""
    try:
        return work_out(cell, cache=cache)
    except SortNetError as error:
        return one_line(error)
    except (MemoryError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as bug:
        return _fault_line(bug)


def _as_they_end(
    executor: Executor, cells: dict[int, Cell], cache: Path | None
) -> Iterator[tuple[int, Outcome | None]]:
    """Yield the number and outcome of each cell that ends; None if its worker died."""
    futures: dict[Future[Outcome], int] = {
        executor.submit(worked_out, cell, cache): k for k, cell in cells.items()
    }
    try:
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenExecutor:
                yield futures[future], None
            except Exception as error:  # each executor has kinds of its own
                is_dead = type(error).__name__ == "KilledWorker"
                yield futures[future], None if is_dead else _fault_line(error)
    finally:
        for future in futures:
            future.cancel()


def _fault_line(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)}"


@contextmanager
def _executor(jobs: int, cluster: str | None) -> Iterator[Executor]:
    """Processes of one thread each on this machine, or the workers of a Dask cluster."""
    if cluster is None:
        from joblib.externals.loky import ProcessPoolExecutor

        one_thread = {f"{library}_NUM_THREADS": "1" for library in _THREADS}
        executor = ProcessPoolExecutor(jobs, env=one_thread)
        try:
            yield executor
        finally:
            executor.shutdown(wait=True, kill_workers=True)
        return
    try:
        distributed: Any = import_module("distributed")
        client = distributed.Client(cluster.replace("dask://", "tcp://", 1), timeout=_REACHED)
    except ImportError:
        raise SortNetError("--cluster needs: pip install 'sortnet[dask]'") from None
    except (OSError, ValueError) as error:
        raise SortNetError(f"cluster {cluster[:60]} cannot be reached: {one_line(error)}") from None
    with closing(client):
        yield client.get_executor(pure=False)
