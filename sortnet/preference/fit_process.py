"""A process of its own for fits, so that answers given meanwhile do not wait for an interpreter."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias, TypeVar

from sortnet.errors import SortNetError

Result = TypeVar("Result")
Call: TypeAlias = Callable[..., Any]  # of a function and its arguments; returns what that does
_NICE = 5  # below those who answer


class FitProcess:
    """Calls functions in another process, one at a time; thread-safe.

    The process is started by the first call, and again after it was killed. It ends with this one,
    also in the middle of a call, and Ctrl-C is left to this one.

    >>> process = FitProcess()
    >>> process(max, 3, 5)
    5
    >>> process.close()

    Cost: some seconds to start, for it imports the libraries again; then copies of the arguments
    and the result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._ours: Connection | None = None

    def __call__(self, function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """What the function returns.

        Raises:
            Exception: what it raises there.
            SortNetError: if the process was killed meanwhile.
        """
        with self._lock:
            if self._process is None:
                self._start()
            assert self._ours is not None
            try:
                self._ours.send((function, arguments, named))
                done, found = self._ours.recv()
            except (EOFError, OSError):
                self._process = None
                raise SortNetError(
                    "the process of the fits was killed: for lack of memory?"
                ) from None
        if not done:
            raise found
        result: Result = found
        return result

    def close(self) -> None:
        """End the process, without waiting for a call."""
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        context = get_context("spawn")  # a fork would take along locks that other threads hold
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        with _deaf_to_ctrl_c():
            self._process.start()
        theirs.close()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """What is started within it inherits that Ctrl-C, which reaches all processes, is blocked."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would unblock it, if that were to be started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(calls: Connection) -> None:
    """Answer calls until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # also where it cannot be blocked
    with suppress(AttributeError, OSError):
        os.nice(_NICE)
    with suppress(EOFError, OSError):
        while True:
            function, arguments, named = calls.recv()
            try:
                found = True, function(*arguments, **named)
            except Exception as error:  # it belongs to the caller
                found = False, error
            calls.send(found)
