"""Let signals end a command in the same way as Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


def _handlers(*names: str) -> dict[int, Any]:
    """Return the handlers of the named signals, {number: handler}.

    Signals that the system does not have, and handlers that were not set from Python, are left out.
    Outside the main thread the dict is empty, because only the main thread can set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    return {number: handler for number, handler in handlers.items() if handler is not None}


@contextmanager
def signals_restored() -> Iterator[None]:
    """Restore the signal handlers after the body, which is a whole command.

    This is needed because `signals_as_ctrl_c` ignores all signals after the first signal.
    """
    handlers = _handlers("SIGINT", "SIGTERM", "SIGHUP")
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def handle_signals(handler: Callable[[int, Any], None], *names: str) -> dict[int, Any]:
    """Handle the named signals; an ignored signal, as by nohup, stays ignored.

    Args:
        handler: called with the number of a signal.
        names: names of the signals.

    Returns:
        {number: handler before} of the signals that are handled.
    """
    handlers = _handlers(*names)
    handled = {number: before for number, before in handlers.items() if before != signal.SIG_IGN}
    for number in handled:
        signal.signal(number, handler)
    return handled


@contextmanager
def signals_handled(handler: Callable[[int, Any], None], *names: str) -> Iterator[list[int]]:
    """Handle the named signals in the body, see `handle_signals`; yield the numbers of signals."""
    handled = handle_signals(handler, *names)
    try:
        yield [*handled]
    finally:
        for number, before in handled.items():
            # A handler that ignores further signals does so until `signals_restored` ends.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, before)


@contextmanager
def signals_as_ctrl_c() -> Iterator[list[int]]:
    """Turn SIGTERM and SIGHUP into a KeyboardInterrupt with the signal's name.

    After the first signal further signals are ignored, so that the command can report why it ends;
    `signals_restored` restores the handlers.

    Python ignores an interrupt in a finaliser or in a callback of an import, and `cli.__main__`
    raises it again.

    Yields:
        The list of the numbers of received signals, which grows when a signal comes.
    """
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        """Note the signal, ignore further signals, and raise KeyboardInterrupt."""
        received.append(number)
        # A closing terminal sends two signals; the second must not interrupt the cleanup.
        for handled_number in numbers:
            signal.signal(handled_number, signal.SIG_IGN)
        raise KeyboardInterrupt(signal.Signals(number).name)

    with signals_handled(interrupt, "SIGTERM", "SIGHUP") as numbers:
        yield received


@contextmanager
def ended_by_signals() -> Iterator[list[int]]:
    """End the body at SIGTERM, a closed terminal or Ctrl-C, and continue after the body.

    So the code after the body can release leases and claims.

    Yields:
        The list of the numbers of received signals, which grows when a signal comes.
    """
    with suppress(KeyboardInterrupt), signals_as_ctrl_c() as received:
        yield received
