"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into KeyboardInterrupt; signals ignored by nohup stay ignored."""

    def end(number: int, frame: object) -> None:
        for (
            each
        ) in heard:  # a closing terminal sends two: the second must not interrupt the cleanup
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
    """End on SIGTERM, a closed terminal or Ctrl-C; leases and claims are released."""
    with suppress(KeyboardInterrupt), signals_as_ctrl_c():
        yield
