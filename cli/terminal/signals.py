"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_RECEIVED: list[int] = []  # signals that the running command has received


def raise_if_signalled() -> None:
    """Raise KeyboardInterrupt if a signal came.

    The signal has raised KeyboardInterrupt already, but in a finaliser that is lost.
    """
    if _RECEIVED:
        raise KeyboardInterrupt(signal.Signals(_RECEIVED[0]).name)


@contextmanager
def signals_restored() -> Iterator[None]:
    """Restore the handlers of signals after the body, a whole command, has ignored them."""
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

    Signals ignored by nohup stay ignored. After a signal, further signals are ignored until the
    command has reported why it ends, see `signals_restored`.

    Yields the list of the signals received: an interrupt within a callback of an import or a
    finaliser is lost, so a long task calls `raise_if_signalled` now and then.
    """
    received = _RECEIVED
    received.clear()

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        # A closing terminal sends two signals: the second must not interrupt the cleanup.
        for handled_number in handled:
            signal.signal(handled_number, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        handled = []  # Python handles signals in the main thread alone
    previous_handlers = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield received
    finally:
        for number, handler in previous_handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """End on SIGTERM, a closed terminal or Ctrl-C; leases and claims are released."""
    with suppress(KeyboardInterrupt), signals_as_ctrl_c() as received:
        yield received
