"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """SIGTERM and a closed terminal raise KeyboardInterrupt; what nohup ignores stays ignored."""

    def end(number: int, frame: object) -> None:
        for each in heard:  # a terminal that goes sends two: the second must not cut off the end
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    both = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    heard = [number for number in both if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM, a closed terminal and Ctrl-C end what is done; what is held is given back."""
    with suppress(KeyboardInterrupt), signals_as_ctrl_c():
        yield
