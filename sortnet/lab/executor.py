"""Compute many cells of an experiment: in this process, in several, or on a Dask cluster.

A worker process reads the data itself and sends back only the ranking of the test documents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import AbstractContextManager, closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from sortnet.errors import SortNetError
from sortnet.files import one_line
from sortnet.lab.cells import Cell, Result, work_out

_RESTARTS = 2  # how often cells are started again whose worker died
_TIMEOUT = 10  # seconds within which a cluster must answer
_THREADED_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMBA")
Outcome = Result | str  # the result of a cell, or the reason why there is none


def work_out_all(
    cells: Sequence[Cell],
    *,
    jobs: int = 1,
    cluster: str | None = None,
    cache: Path | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Compute cells, and yield the number of each cell with its result as soon as it is done.

    If a worker dies, the cells that are not done are started again, at most twice.

    Args:
        cells: the cells.
        jobs: number of processes on this machine, each with one thread. With 1, the cells are
            computed in this process.
        cluster: address of a Dask scheduler, dask://HOST:PORT, whose workers are used in place of
            processes on this machine. They must find the files at the same paths.
        cache: cache folder for the data.

    Yields:
        The position of the cell in `cells`, and its result or the reason why there is none.

    Raises:
        SortNetError: if the cluster cannot be reached, or Dask is not installed.
    """
    if jobs == 1 and cluster is None:
        for k, cell in enumerate(cells):
            yield k, worked_out(cell, cache)
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
        if n_restarts > _RESTARTS:  # a cell that is left may be what kills its worker
            for k in cells_left:
                yield k, "its worker died, again and again"
            return


def worked_out(cell: Cell, cache: Path | None = None) -> Outcome:
    """Compute a cell; return its result, or the error as text so that other cells continue."""
    try:
        return work_out(cell, cache=cache)
    except SortNetError as error:
        return one_line(error)
    except (MemoryError, ArithmeticError, LookupError, TypeError, ValueError, RuntimeError) as bug:
        return _fault_line(bug)


def _as_they_end(
    executor: Executor, cells: dict[int, Cell], cache: Path | None
) -> Iterator[tuple[int, Outcome | None]]:
    """Compute cells by an executor, and report each cell as soon as it ends.

    Args:
        executor: the processes, on this machine or in a cluster.
        cells: {number: cell}.
        cache: cache folder for the data; None for no cache.

    Yields:
        The number of the cell, and its result or the reason why there is none. None stands for the
        result if the worker of the cell died.
    """
    futures: dict[Future[Outcome], int] = {
        executor.submit(worked_out, cell, cache): k for k, cell in cells.items()
    }
    try:
        for future in as_completed(futures):
            yield futures[future], _outcome_of(future)
    finally:
        for future in futures:
            future.cancel()


def _outcome_of(future: Future[Outcome]) -> Outcome | None:
    """Return the result of a cell that has ended, or an error as text; None if its worker died."""
    try:
        return future.result()
    except BrokenExecutor:
        return None
    except Exception as error:  # each executor has its own exceptions
        is_dead_dask_worker = type(error).__name__ == "KilledWorker"
        return None if is_dead_dask_worker else _fault_line(error)


def _fault_line(error: Exception) -> str:
    return f"{type(error).__name__}: {one_line(error)}"


def _executor(jobs: int, cluster: str | None) -> AbstractContextManager[Executor]:
    """Start processes of one thread each on this machine, or connect to a Dask cluster."""
    return _local_processes(jobs) if cluster is None else _dask_cluster(cluster)


@contextmanager
def _local_processes(jobs: int) -> Iterator[Executor]:
    """Start processes of one thread each on this machine; kill them at the end."""
    from joblib.externals.loky import ProcessPoolExecutor

    one_thread = {f"{library}_NUM_THREADS": "1" for library in _THREADED_LIBRARIES}
    executor = ProcessPoolExecutor(jobs, env=one_thread)
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, kill_workers=True)


@contextmanager
def _dask_cluster(cluster: str) -> Iterator[Executor]:
    """Connect to a Dask cluster, given its address dask://HOST:PORT.

    Raises:
        SortNetError: if the cluster cannot be reached, or Dask is not installed.
    """
    try:
        distributed: Any = import_module("distributed")
        address = cluster.replace("dask://", "tcp://", 1)
        client = distributed.Client(address, timeout=_TIMEOUT)
    except ImportError:
        raise SortNetError("--cluster needs: pip install 'sortnet[dask]'") from None
    except (OSError, ValueError) as error:
        raise SortNetError(f"cluster {cluster[:60]} cannot be reached: {one_line(error)}") from None
    with closing(client):
        yield client.get_executor(pure=False)
