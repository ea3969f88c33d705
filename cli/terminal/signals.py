"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_CAME: list[int] = []  # signals of the command that runs


def raise_if_signalled() -> None:
    """Raise KeyboardInterrupt if a signal came, whose own may have been lost in a finaliser."""
    if _CAME:
        raise KeyboardInterrupt(signal.Signals(_CAME[0]).name)


@contextmanager
def signals_restored() -> Iterator[None]:
    """Restore the handlers of signals that the body, a whole command, has left ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # else it was not set from Python
                signal.signal(number, handler)


@contextmanager
def signals_as_ctrl_c() -> Iterator[list[int]]:
    """Turn SIGTERM and SIGHUP into a KeyboardInterrupt with the signal's name.

    Signals ignored by nohup stay ignored. Those that are ignored at the end, since the command is
    ending already, stay so until it has reported why, see `signals_restored`.

    Yields the list of those that came: an interrupt within a callback of an import or a finaliser
    is lost, so a long task calls `raise_if_signalled` now and then.
    """
    came = _CAME
    came.clear()

    def end(number: int, frame: object) -> None:
        came.append(number)
        # A closing terminal sends two: the second must not interrupt the cleanup.
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    both = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heard = [number for number in both if signal.getsignal(number) is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        heard = []  # Python hears signals in the main thread alone
    before = {number: signal.signal(number, end) for number in heard}
    try:
        yield came
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """End on SIGTERM, a closed terminal or Ctrl-C; leases and claims are released."""
    with suppress(KeyboardInterrupt), signals_as_ctrl_c() as came:
        yield came
