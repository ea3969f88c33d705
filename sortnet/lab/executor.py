"""Run many tasks: in this process, in several processes, or on a Dask cluster, by joblib.

A worker process reads the data of a cell itself, and sends back only the ranking of the test
documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from sortnet.core import Progress
from sortnet.errors import SortNetError
from sortnet.files import one_line
from sortnet.lab.cells import Cell, Result, work_out
from sortnet.threads import one_blas_thread

_TRIES = 3  # how often cells are started whose worker dies
_TIMEOUT = 10  # seconds within which a cluster must answer
Outcome = Result | str  # the result of a cell, or the reason why there is none
T = TypeVar("T")


def work_out_all(
    cells: Sequence[Cell],
    *,
    jobs: int = 1,
    cluster: str | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Compute cells, and yield the number of each cell with its result as soon as it is done.

    If a worker dies, the cells that are not done are started again, at most twice.

    Args:
        cells: the cells.
        jobs: number of processes on this machine, each with one thread. With 1, the cells are
            computed in this process.
        cluster: address of a Dask scheduler, dask://HOST:PORT, whose workers are used in place of
            processes on this machine. They must find the files at the same paths.

    Yields:
        The position of the cell in `cells`, and its result or the reason why there is none.

    Raises:
        SortNetError: if the cluster cannot be reached, or Dask is not installed.
    """
    tasks_left = {k: partial(worked_out, k, cell) for k, cell in enumerate(cells)}
    for _ in range(_TRIES):
        try:
            with _backend(cluster):
                tasks = [*tasks_left.values()]
                for k, outcome in _results(tasks, jobs, return_as="generator_unordered"):
                    del tasks_left[k]
                    yield k, outcome
            return
        except Exception as error:
            is_dead_dask_worker = type(error).__name__ == "KilledWorker"
            if not isinstance(error, BrokenExecutor) and not is_dead_dask_worker:
                raise
    for k in tasks_left:  # a cell that is left may be what kills its worker
        yield k, "its worker died, again and again"


def worked_out(number: int, cell: Cell) -> tuple[int, Outcome]:
    """Compute a cell; return its number, and its result or the error as text.

    An error is returned, so that other cells continue.
    """
    try:
        return number, work_out(cell)
    except SortNetError as error:
        return number, one_line(error)
    except Exception as bug:
        return number, f"{type(bug).__name__}: {one_line(bug)}"


def in_parallel(tasks: Sequence[Callable[[], T]], jobs: int, progress: Progress) -> list[T]:
    """Run tasks in `jobs` processes, and return their results in order.

    Each process has one thread for linear algebra. `progress` gets a line after each task.
    """
    results = []
    for result in _results(tasks, jobs, return_as="generator"):
        results.append(result)
        progress(f"simulated {len(results)} of {len(tasks)} sessions")
    return results


def _results(tasks: Iterable[Callable[[], T]], jobs: int, *, return_as: str) -> Iterator[T]:
    """Yield the results of tasks in `jobs` processes of one thread each, see `joblib.Parallel`."""
    from joblib import Parallel, delayed

    # joblib gives one thread to its processes, but runs a single job in this process.
    with one_blas_thread():
        parallel = Parallel(jobs, return_as=return_as, batch_size=1)
        yield from parallel(delayed(task)() for task in tasks)


@contextmanager
def _backend(cluster: str | None) -> Iterator[None]:
    """Let joblib start processes of one thread each on this machine, or use a Dask cluster.

    Args:
        cluster: address of the cluster's scheduler, dask://HOST:PORT; None for this machine.

    Raises:
        SortNetError: if the cluster cannot be reached, or Dask is not installed.
    """
    from joblib import parallel_config

    if cluster is None:
        with parallel_config("loky", inner_max_num_threads=1):
            yield
        return
    try:
        distributed: Any = import_module("distributed")
        address = cluster.replace("dask://", "tcp://", 1)
        client = distributed.Client(address, timeout=_TIMEOUT)
    except ImportError:
        raise SortNetError("--cluster needs: pip install 'sortnet[dask]'") from None
    except (OSError, ValueError) as error:
        raise SortNetError(f"cluster {cluster[:60]} cannot be reached: {one_line(error)}") from None
    with closing(client), parallel_config("dask"):
        yield
