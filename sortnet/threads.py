"""Threads: how many there are, operations that run in one, kernels that run in several.

This module loads neither torch nor numba, for what asks it for one thread may need neither.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache, wraps
from numbers import Integral
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

from threadpoolctl import ThreadpoolController, threadpool_limits

from sortnet.errors import DataError

_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")

_HOME = os.getpid()
_ONE_AT_A_TIME = threading.Lock()
_LITTLE = 1 << 16  # numbers in a kernel's arrays that one thread works on faster than several
_TORCH_THREADS: list[int] = []  # that `set_threads` was asked for last
# torch's threads that were set where operations now run in one.
_SET_ASIDE: ContextVar[int] = ContextVar("threads set aside", default=1)


def cores() -> int:
    """The cores that this process may use, by its affinity and its container's limit."""
    counted = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        counted = len(os.sched_getaffinity(0))
    for quota, period in _time_limits():
        if quota.isdigit() and period.isdigit() and int(quota) and int(period):
            return max(1, min(counted, -(-int(quota) // int(period))))
    return counted


def _time_limits() -> Iterator[tuple[str, str]]:
    """The microseconds of processor time in each period that Linux's control groups 2 and 1 allow,
    as texts; joblib.cpu_count reads the same files, and takes a tenth of a second to import."""
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        yield quota, period
    with suppress(OSError):
        folder = Path("/sys/fs/cgroup/cpu")
        texts = [(folder / f"cpu.cfs_{name}_us").read_text("ascii") for name in ("quota", "period")]
        yield texts[0].strip(), texts[1].strip()


def set_threads(threads: int | None) -> None:
    """Use that many threads for torch and the kernels, at most the cores; None leaves them.

    Torch that is loaded later has as many.
    """
    if threads is None:
        return
    import numba

    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    threads = min(threads, cores())
    _set_torch_threads(threads)
    numba.set_num_threads(min(threads, most))


def _set_torch_threads(threads: int) -> None:
    _TORCH_THREADS[:] = [threads]
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


def use_set_threads() -> None:
    """Give torch, which has just been loaded, the threads that `set_threads` was asked for."""
    for threads in _TORCH_THREADS:
        _set_torch_threads(threads)


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
    import numba
    import torch

    threads = int(n_jobs) if n_jobs > 0 else max(1, cores() + 1 + int(n_jobs))
    before = torch.get_num_threads(), numba.get_num_threads()
    with threadpool_limits(threads):
        try:
            set_threads(threads)
            yield
        finally:
            torch.set_num_threads(before[0])
            numba.set_num_threads(before[1])


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run numpy's and scipy's products and factorisations in one thread; also a decorator.

    On a busy machine their threads take ten times the processor time that the work takes, and how
    many there are changes the last bits of a result.

    Cost: a tenth of a millisecond.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


class _NumpyThreads:
    """The threads of numpy's products: one while somebody asks for one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._asking == 0:
                self._before = [library.get_num_threads() for library in _numpy_libraries()]
                self._set([1] * len(self._before))
            self._asking += 1

    def __exit__(self, *fault: object) -> None:
        with self._lock:
            self._asking -= 1
            if self._asking == 0:
                self._set(self._before)

    def _set(self, threads: Sequence[int]) -> None:
        for library, number in zip(_numpy_libraries(), threads, strict=True):
            if library.get_num_threads() != number:
                library.set_num_threads(number)


_NUMPY_THREADS = _NumpyThreads()


def one_numpy_thread() -> AbstractContextManager[None]:
    """Run numpy's products in one thread; several threads may ask for it at once.

    Cost: microseconds, where `one_blas_thread` looks after scipy's library, too.
    """
    return _NUMPY_THREADS


@cache
def _numpy_libraries() -> list[Any]:
    import numpy  # noqa: F401  # its library must be there to be found

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  # has a library of its own, which must be there to be found

    return ThreadpoolController()


@contextmanager
def one_thread_an_operation() -> Iterator[int]:
    """Run every torch operation in one thread; yields the number of threads before.

    Small operations gain nothing from more (on a busy machine the threads mostly wait for each
    other), and no result depends on their number. Only what runs `with threads_set_aside()` uses as
    many as were set.
    """
    import torch

    threads = torch.get_num_threads()
    if threads == 1:
        yield threads
        return
    aside = _SET_ASIDE.set(threads)
    torch.set_num_threads(1)
    try:
        yield threads
    finally:
        torch.set_num_threads(threads)
        _SET_ASIDE.reset(aside)


@contextmanager
def threads_set_aside() -> Iterator[None]:
    """The threads that torch had before `one_thread_an_operation`."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(max(before, _SET_ASIDE.get()))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def side_by_side(work: Callable[[_T], None], items: Sequence[_T]) -> None:
    """Call `work` with each item, in as many threads as the kernels have."""
    import numba

    threads = min(len(items), numba.get_num_threads())
    if threads < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, items):
            pass


def in_threads(function: _F) -> _F:
    """Compile a kernel whose `prange` runs in numba's threads.

    With little to do it runs in one thread, with the same results: to wait for others would take
    longer, on a busy machine a hundred times as long. A process forked from the one that loaded
    this module has none of its threads, and numba would abort it: there it always runs in one.
    """
    import numba

    together = numba.njit(parallel=True, cache=True, nogil=True)(function)
    alone = numba.njit(cache=True, nogil=True)(_renamed(cast(FunctionType, function)))

    @wraps(function)
    def run(*arguments: Any) -> Any:
        numbers = sum(getattr(argument, "size", 0) for argument in arguments)
        if numbers < _LITTLE or os.getpid() != _HOME:
            return alone(*arguments)
        torch = sys.modules.get("torch")
        threads = torch.get_num_threads() if torch else 0
        with _turn():
            result = together(*arguments)
        # The first kernel sets OpenMP's, which torch uses.
        if torch and torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        return result

    return cast(_F, run)


def _renamed(function: FunctionType) -> FunctionType:
    """The same function under another name: numba's cache finds compiled functions by name."""
    name = f"{function.__name__}_alone"
    twin = FunctionType(function.__code__, function.__globals__, name)
    twin.__qualname__, twin.__module__ = name, function.__module__
    return twin


def _turn() -> AbstractContextManager[Any]:
    """A lock if two kernels at once would abort the process: with numba's own workqueue."""
    import numba

    try:
        safe = numba.threading_layer() != "workqueue"  # type: ignore[attr-defined]
    except ValueError:  # the first kernel starts the threads
        safe = False
    return nullcontext() if safe else _ONE_AT_A_TIME


def _use_one_thread() -> None:
    """A forked child has lost torch's threads too, and would wait for them forever."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_use_one_thread)
