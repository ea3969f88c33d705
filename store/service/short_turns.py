"""Give the interpreter's threads short turns, so that other work does not delay answers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Seconds for which another thread may hold the interpreter while somebody answers. An answer is
# stored in about fifty database calls, and each call may wait for the interpreter.
_SWITCH_INTERVAL = 0.0005


@contextmanager
def short_turns() -> Iterator[None]:
    """Shorten the thread switch interval, so that other work does not delay answers.

    >>> with short_turns():
    ...     sys.getswitchinterval() < 0.001
    True
    """
    _SHORT_TURNS.enter()
    try:
        yield
    finally:
        _SHORT_TURNS.leave()


class _ShortTurns:
    """Counts the threads that need short turns; the first sets the interval, the last resets it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_threads = 0
        self._interval_before = 0.0

    def enter(self) -> None:
        """Shorten the switch interval, if no other thread has shortened it."""
        with self._lock:
            if self._n_threads == 0:
                self._interval_before = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_INTERVAL)
            self._n_threads += 1

    def leave(self) -> None:
        """Restore the switch interval, if no other thread needs short turns."""
        with self._lock:
            self._n_threads -= 1
            if self._n_threads == 0:
                sys.setswitchinterval(self._interval_before)


_SHORT_TURNS = _ShortTurns()
