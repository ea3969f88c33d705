"""Set the number of threads, run operations in one thread, and run kernels in several threads.

Torch and numba are imported only where they are used, because most callers need at most one of
them.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from sortnet.errors import DataError
from sortnet.messages import python_values

_T = TypeVar("_T")

_TORCH_THREADS: list[int] = []  # the number of threads that `set_threads` has set last, if any
_KERNEL_THREADS: list[int] = []  # the same for compiled functions

_THIS_THREAD = threading.local()  # `is_limited`: whether it is inside a context that limits torch
_LIMITS_LOCK = threading.Lock()
_LIBRARIES: dict[str, _Library] = {}  # {path of a library of products: the library}
_KERNEL_LIMITS: dict[object, int] = {}  # {context of `limit_threads`: its number}
_OUTSIDE: dict[object, int] = {}  # {context that limits torch: its number outside all limits}


def cores() -> int:
    """Count the cores that this process may use, by its CPU affinity and its container's limit."""
    n_cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    for quota, period in _time_limits():
        # A quota of "max" or "-1" is no limit.
        if quota.isdigit() and period.isdigit() and int(quota) and int(period):
            n_allowed = math.ceil(int(quota) / int(period))
            return max(1, min(n_cores, n_allowed))
    return n_cores


@cache
def _time_limits() -> list[tuple[str, str]]:
    """Read the limits of processor time by Linux's control groups, version 2, then version 1.

    A limit is two texts: the allowed microseconds, and the microseconds of a period.

    Cost: a third of a millisecond at the first call of a process, nothing afterwards.
    """
    # joblib.cpu_count reads the same files, but takes a tenth of a second to import.
    limits = []
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        limits.append((quota, period))
    with suppress(OSError):
        folder = Path("/sys/fs/cgroup/cpu")
        quota = (folder / "cpu.cfs_quota_us").read_text("ascii").strip()
        period = (folder / "cpu.cfs_period_us").read_text("ascii").strip()
        limits.append((quota, period))
    return limits


def set_threads(threads: int | None) -> None:
    """Set the number of threads of torch and the kernels to at most the number of cores.

    If torch is not loaded yet, it gets the number by `use_set_threads`.

    Args:
        threads: number of threads; None: the number stays as it is.
    """
    if threads is None:
        return
    threads = min(threads, cores())
    _set_torch_threads(threads)
    _KERNEL_THREADS[:] = [threads]


def kernel_threads() -> int:
    """Return the number of threads in which compiled functions may run.

    It is the limit of the innermost `limit_threads`, the number of `set_threads`, or the variable
    NUMBA_NUM_THREADS of the environment, by default the number of cores.
    """
    for numbers in ([*_KERNEL_LIMITS.values()], _KERNEL_THREADS):
        if numbers:
            return numbers[-1]
    limit = os.environ.get("NUMBA_NUM_THREADS", "")
    return int(limit) if limit.isdigit() and int(limit) else cores()


def n_threads() -> int:
    """Return the number of threads of torch, also if torch is not loaded yet."""
    torch = sys.modules.get("torch")
    if torch:
        return int(torch.get_num_threads())
    if _TORCH_THREADS:
        return _TORCH_THREADS[0]
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return int(limit) if limit.isdigit() and int(limit) else cores()


def _set_torch_threads(threads: int) -> None:
    """Set the number of torch's threads now if torch is loaded, and remember it for later."""
    _TORCH_THREADS[:] = [threads]
    torch = sys.modules.get("torch")
    if torch:
        torch.set_num_threads(threads)


def use_set_threads() -> None:
    """Set the threads of torch, which has just been loaded, to the number of `set_threads`."""
    for threads in _TORCH_THREADS:
        _set_torch_threads(threads)


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Limit the threads of torch, numpy and the kernels inside a context.

    The limit of numpy's products holds for the whole process. If several threads are inside such
    contexts, the context that was entered last decides; after the last exit the number of threads
    is as before the first entry.

    Args:
        n_jobs: number of threads; None: no new limit; -1: all cores; -2: all cores but one, and so
            on, as in scikit-learn.

    Raises:
        DataError: if `n_jobs` is 0 or no whole number.
    """
    if n_jobs is None:
        yield
        return
    if not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise DataError(
            f"n_jobs must be None, a number of threads or -1, got {python_values(n_jobs)!r}"
        )
    threads = int(n_jobs)
    if threads < 0:
        threads = max(1, cores() + 1 + threads)
    threads = min(threads, cores())
    found = ThreadpoolController()
    context = object()
    set_before = [*_TORCH_THREADS]
    n_before = n_threads()
    has_torch = "torch" in sys.modules
    with (
        _torch_limited(threads) if has_torch else nullcontext(),
        found.limit(limits=threads, user_api="openmp"),  # OpenMP has a number for each thread
        _limited(_libraries_of(found), threads),
    ):
        try:
            _KERNEL_LIMITS[context] = threads
            _TORCH_THREADS[:] = [threads]  # if torch is loaded in this context
            yield
        finally:
            del _KERNEL_LIMITS[context]
            if not has_torch and "torch" in sys.modules:
                _set_torch_threads(n_before)
            _TORCH_THREADS[:] = set_before


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run numpy's and scipy's products and factorisations in one thread, inside a context.

    The function is also a decorator.

    On a busy machine several threads take ten times the processor time of a single thread. The
    number of threads also changes the last bits of a result.

    Cost: a tenth of a millisecond.
    """
    with _limited(_numpy_and_scipy(), 1):
        yield


def one_numpy_thread() -> AbstractContextManager[None]:
    """Run numpy's products in one thread, inside a context.

    Cost: microseconds; `one_blas_thread` is slower because it also limits scipy's library.
    """
    return _limited(_numpy_alone(), 1)


@dataclass(eq=False)
class _Library:
    """Library of products, whose number of threads holds for the whole process.

    Attributes:
        controller: threadpoolctl's object that gets and sets the number of threads.
        limits: {context: limit} of the contexts that limit the library now; the last limit holds.
        threads_before: the number of threads before there was any limit.
    """

    controller: Any
    limits: dict[object, int] = field(default_factory=dict)
    threads_before: int = 0

    def limit(self, context: object, threads: int) -> None:
        """Set the limit of a context that begins."""
        if not self.limits:
            self.threads_before = self.controller.get_num_threads()
        self.limits[context] = threads
        self._use_last_limit()

    def release(self, context: object) -> None:
        """Remove the limit of a context that ends."""
        if self.limits.pop(context, None) is not None:
            self._use_last_limit()

    def _use_last_limit(self) -> None:
        """Set the number of threads that holds now, if it is another number."""
        threads = [self.threads_before, *self.limits.values()][-1]
        if self.controller.get_num_threads() == threads:
            return
        # threadpoolctl lets only the first thread set the number of OpenBLAS, and ignores other
        # threads without a word. The limits are counted here, so every thread may set it.
        controller = self.controller
        set_anyway = getattr(controller, "_real_set_num_threads", controller.set_num_threads)
        set_anyway(threads)


@contextmanager
def _limited(libraries: Sequence[_Library], threads: int) -> Iterator[None]:
    """Limit the threads of libraries inside a context; several threads may be inside at once."""
    context = object()
    try:
        with _LIMITS_LOCK:
            for library in libraries:
                library.limit(context, threads)
        yield
    finally:
        with _LIMITS_LOCK:
            for library in libraries:
                library.release(context)


def _libraries_of(found: ThreadpoolController) -> list[_Library]:
    """List the libraries of products among the libraries that were found in this process.

    A library is the same object each time, because the object holds the limits.
    """
    controllers = found.select(user_api="blas").lib_controllers
    return [_LIBRARIES.setdefault(one.filepath, _Library(one)) for one in controllers]


@cache
def _numpy_alone() -> list[_Library]:
    """Find the libraries that compute numpy's products."""
    import numpy  # noqa: F401  # its library must be loaded to be found

    return _libraries_of(ThreadpoolController())


@cache
def _numpy_and_scipy() -> list[_Library]:
    """Find the libraries that compute the products of numpy and scipy."""
    import scipy.linalg  # noqa: F401  # its own library must be loaded to be found

    return _libraries_of(ThreadpoolController())


@contextmanager
def one_thread_an_operation() -> Iterator[int]:
    """Run torch operations in one thread inside a context.

    The context yields the number of threads from before.

    Small operations gain nothing from more threads, which mostly wait for each other on a busy
    machine. In one thread, no result depends on the number of cores.
    """
    with _torch_limited(1) as n_before:
        yield n_before


@contextmanager
def _torch_limited(threads: int) -> Iterator[int]:
    """Limit torch's threads inside a context, which yields the number of threads from before.

    Each thread has its own number. The number of a new thread is the number that any thread set
    last, which may be the limit of another thread. Such a limit is not restored.
    """
    import torch

    context = object()
    was_limited = getattr(_THIS_THREAD, "is_limited", False)
    n_before = torch.get_num_threads()
    with _LIMITS_LOCK:
        n_outside = next(iter(_OUTSIDE.values()), n_before)
        _OUTSIDE[context] = n_outside
    if not was_limited:
        n_before = n_outside
    try:
        _THIS_THREAD.is_limited = True
        torch.set_num_threads(threads)
        yield n_before
    finally:
        _THIS_THREAD.is_limited = was_limited
        torch.set_num_threads(n_before)
        with _LIMITS_LOCK:
            del _OUTSIDE[context]


def side_by_side(work: Callable[[_T], None], items: Sequence[_T]) -> None:
    """Call the function `work` with each item, in as many threads as `kernel_threads` says."""
    threads = min(len(items), kernel_threads())
    if threads < 2:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(threads) as pool:
        # The results are awaited, because an exception of `work` is raised with its result.
        for _ in pool.map(work, items):
            pass


def _use_one_thread() -> None:
    """Let torch use one thread in a forked process, which has lost the threads of its parent.

    With more threads torch would wait forever for the lost threads.
    """
    torch = sys.modules.get("torch")
    if torch:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_use_one_thread)
    # Otherwise a fork could copy a lock that a lost thread holds.
    os.register_at_fork(
        before=_LIMITS_LOCK.acquire,
        after_in_parent=_LIMITS_LOCK.release,
        after_in_child=_LIMITS_LOCK.release,
    )
