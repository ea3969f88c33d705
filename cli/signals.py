"""Signals that end a command as Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end what is done as Ctrl-C does; what is held is given back."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), end) for name in names}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
