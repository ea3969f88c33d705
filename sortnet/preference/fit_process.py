"""A separate process for fits, so that the main process can take answers during a fit."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sortnet.errors import SortNetError

Result = TypeVar("Result")
Call: TypeAlias = Callable[..., Any]  # takes a function and its arguments, returns its result
_NICE = 5  # a fit has a lower priority than answers


class FitProcess:
    """Call functions in another process, one at a time; thread-safe.

    The first call starts the process, and so does the first call after the process was killed. The
    process ends with the present process, even in the middle of a call, and ignores Ctrl-C.

    >>> process = FitProcess()
    >>> process(max, 3, 5)
    5
    >>> process.close()

    Cost: some seconds to start, since the process imports the libraries; then copies of the
    arguments and of the result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __call__(self, function: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Call a function in the other process, and return the result.

        Raises:
            Exception: the error that the function raises.
            SortNetError: if the process was killed during the call.
        """
        with self._lock:
            if self._process is None:
                self._start()
            assert self._connection is not None
            try:
                self._connection.send((function, arguments, named))
                outcome: _Outcome = self._connection.recv()
            except (EOFError, OSError):
                self._process = None  # the next call starts another process
                raise SortNetError(
                    "the process of the fits was killed: for lack of memory?"
                ) from None
        if outcome.error is not None:
            raise outcome.error
        result: Result = outcome.result
        return result

    def close(self) -> None:
        """Kill the process, without waiting for a running call."""
        if self._process is not None:
            self._process.kill()

    def _start(self) -> None:
        """Start the process, with a connection for the calls and their outcomes."""
        context = get_context("spawn")  # a fork would copy locks that other threads hold
        self._connection, connection_of_process = context.Pipe()
        self._process = context.Process(target=_work, args=(connection_of_process,), daemon=True)
        with _blocked_ctrl_c():
            self._process.start()
        connection_of_process.close()


class _Outcome(NamedTuple):
    """The result of a call, or the error that the called function raised."""

    result: Any = None
    error: Exception | None = None


@contextmanager
def _blocked_ctrl_c() -> Iterator[None]:
    """Block Ctrl-C in any process that is started in the `with` block.

    A terminal sends Ctrl-C to all processes that were started from it. Without POSIX signals
    nothing is blocked.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # multiprocessing unblocks Ctrl-C when it starts its resource tracker, so the tracker is started
    # first.
    resource_tracker.ensure_running()
    mask_before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask_before)


def _work(connection: Connection) -> None:
    """Call the functions that are sent through the connection, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for systems that cannot block Ctrl-C
    with suppress(AttributeError, OSError):
        os.nice(_NICE)
    with suppress(EOFError, OSError):
        while True:
            function, arguments, named = connection.recv()
            try:
                outcome = _Outcome(result=function(*arguments, **named))
            except Exception as error:  # the caller raises it
                outcome = _Outcome(error=error)
            connection.send(outcome)
