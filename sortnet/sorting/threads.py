"""Parallel kernels that are safe to call from several threads and in forked processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps
from numbers import Integral
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import torch
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from sortnet.errors import DataError

_F = TypeVar("_F", bound=Callable[..., Any])

_HOME = os.getpid()
_ONE_AT_A_TIME = threading.Lock()


def in_threads(function: _F) -> _F:
    """Compile a kernel whose `prange` runs in numba's threads.

    A process forked from the one that loaded this module has none of its threads, and numba would
    abort it: there the kernel runs in one thread, with the same results.
    """
    together = numba.njit(parallel=True, cache=True, nogil=True)(function)
    alone = numba.njit(cache=True, nogil=True)(_renamed(cast(FunctionType, function)))

    @wraps(function)
    def run(*arguments: Any) -> Any:
        if os.getpid() != _HOME:
            return alone(*arguments)
        threads = torch.get_num_threads()
        with _turn():
            result = together(*arguments)
        if torch.get_num_threads() != threads:  # the first kernel sets OpenMP's, which torch uses
            torch.set_num_threads(threads)
        return result

    return cast(_F, run)


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Use that many threads for torch, numpy and the kernels; None leaves them, -1 is every core.

    The numbers are the process's: of two threads that do this at once, the last decides.

    Raises:
        DataError: if `n_jobs` is 0 or no whole number.
    """
    if n_jobs is None:
        yield
        return
    if not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise DataError(f"n_jobs must be None, a number of threads or -1, got {n_jobs!r}")
    threads = effective_n_jobs(n_jobs)
    most: int = numba.config.NUMBA_NUM_THREADS
    before = torch.get_num_threads(), numba.get_num_threads()
    with threadpool_limits(threads):
        try:
            torch.set_num_threads(threads)
            numba.set_num_threads(min(threads, most))
            yield
        finally:
            torch.set_num_threads(before[0])
            numba.set_num_threads(before[1])


def _renamed(function: FunctionType) -> FunctionType:
    """The same function under another name: numba's cache finds compiled functions by name."""
    name = f"{function.__name__}_alone"
    twin = FunctionType(function.__code__, function.__globals__, name)
    twin.__qualname__, twin.__module__ = name, function.__module__
    return twin


def _turn() -> AbstractContextManager[Any]:
    """A lock if two kernels at once would abort the process: with numba's own workqueue."""
    try:
        safe = numba.threading_layer() != "workqueue"  # type: ignore[attr-defined]
    except ValueError:  # the first kernel starts the threads
        safe = False
    return nullcontext() if safe else _ONE_AT_A_TIME


def _use_one_thread() -> None:
    """A forked child has lost torch's threads too, and would wait for them forever."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_use_one_thread)
