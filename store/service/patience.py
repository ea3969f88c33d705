"""Wait for a store whose server is away, so that an answer that was paid for is not lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sortnet.errors import StoreError
from sortnet.messages import note
from store.database.engine import LONGEST_WAIT, Database

_SHORTEST_WAIT = 0.1  # seconds before the second attempt
T = TypeVar("T")


class StorePatience:
    """Attempts at a store, repeated while its server is away; shared by several threads.

    Args:
        database: the database of the store.
        seconds: time for which its server may be away. Then every attempt fails at once, until an
            attempt succeeds.
        name: name of the judge in messages.
        notify: called with a message when the waiting begins.
    """

    def __init__(
        self, database: Database, seconds: float, name: str, notify: Callable[[str], None] = note
    ) -> None:
        self._database = database
        self._seconds = seconds
        self._name = name
        self._notify = notify
        self._lock = threading.Lock()
        self._until: float | None = None  # None: the server was there at the last attempt
        self._stopped = threading.Event()

    def do(self, work: Callable[[], T]) -> T:
        """Call a function until the store's server answers it, and return its result.

        Args:
            work: reads or writes the store. It must be idempotent: an attempt that fails here may
                have succeeded on the server.

        Raises:
            StoreError: of the last attempt, if the server stays away; any other error at once.
        """
        seconds = _SHORTEST_WAIT
        while True:
            try:
                result = work()
            except StoreError as error:
                if not self._database.is_away(error) or not self._wait(seconds):
                    raise
            else:
                self._until = None
                return result
            seconds = min(2 * seconds, LONGEST_WAIT)

    def stop(self) -> None:
        """End all waits: every further attempt is the last one."""
        self._stopped.set()

    def _wait(self, seconds: float) -> bool:
        """Wait before the next attempt; returns False if there must be none."""
        with self._lock:
            if self._until is None:
                self._until = time.monotonic() + self._seconds
                if self._seconds > 0 and not self._stopped.is_set():
                    until = f"waiting for at most {self._seconds:g} seconds"
                    self._notify(f"{self._name}: {self._database.name} is away: {until}")
            seconds_left = self._until - time.monotonic()
        return seconds_left > 0 and not self._stopped.wait(min(seconds, seconds_left))
