"""Let signals end a command in the same way as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_ENDING = ("SIGINT", "SIGTERM", "SIGHUP")
_RECEIVED: list[int] = []  # signals that the running command has received


def raise_if_signalled() -> None:
    """Raise KeyboardInterrupt if a signal came earlier.

    The signal has already raised KeyboardInterrupt, but an exception in a finaliser is lost.
    """
    if _RECEIVED:
        raise KeyboardInterrupt(signal.Signals(_RECEIVED[0]).name)


@contextmanager
def signals_restored() -> Iterator[None]:
    """Restore the signal handlers after the body, which is a whole command.

    A command ignores further signals after the first one, see `signals_as_ctrl_c`.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if handler is not None:  # None: the handler was not set from Python
                signal.signal(number, handler)


@contextmanager
def signals_as_ctrl_c() -> Iterator[list[int]]:
    """Turn SIGTERM and SIGHUP into a KeyboardInterrupt with the signal's name.

    Signals ignored by nohup stay ignored. After a signal, further signals are ignored until the
    command has reported why it ends, see `signals_restored`.

    Yields the list of the signals received. An interrupt in a callback of an import or in a
    finaliser is lost, so a long task calls `raise_if_signalled` from time to time.
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
        handled = []  # Python lets only the main thread set handlers of signals
    previous_handlers = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield received
    finally:
        for number, handler in previous_handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """End the body on SIGTERM, a closed terminal or Ctrl-C, and continue after it.

    So leases and claims are released. Yields the list of the signals received.
    """
    with suppress(KeyboardInterrupt), signals_as_ctrl_c() as received:
        yield received
