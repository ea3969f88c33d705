"""Wait for a database server that is away, so that no paid answer of a judge is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from sortnet.errors import StoreError
from sortnet.messages import note
from store.database.engine import LONGEST_WAIT, SHORTEST_WAIT, Database

T = TypeVar("T")


class StorePatience:
    """Repeats reads and writes while the store's server is away; several threads may share it.

    Args:
        database: the database of the store.
        seconds: time for which the server may be away. After this time every attempt fails at once,
            until an attempt succeeds.
        name: name of the judge in messages.
        notify: called with a message when the waiting begins.

    Attributes:
        was_away: whether the server has been away, so that leases may have ended meanwhile.
    """

    def __init__(
        self, database: Database, seconds: float, name: str, notify: Callable[[str], None] = note
    ) -> None:
        """Set how long the server may be away, counted from the first attempt that fails."""
        self._database = database
        self._seconds = seconds
        self._name = name
        self._notify = notify
        self._lock = threading.Lock()
        self.was_away = False
        self._has_told = False  # whether a message has told of the present waiting
        self._until: float | None = None  # time when the waiting ends; None: nobody waits
        self._stopped = threading.Event()

    def retry_while_away(self, use_store: Callable[[], T]) -> T:
        """Call a function until the store's server answers, and return the function's result.

        Each wait between two attempts is twice as long as the wait before, up to 5 seconds.

        Args:
            use_store: reads or writes the store. It must be idempotent: an attempt that fails here
                may have succeeded on the server.

        Raises:
            StoreError: from the last attempt, if the server stays away. Any other error is raised
                at once.
        """
        seconds = SHORTEST_WAIT
        is_first = True
        while True:
            try:
                result = use_store()
            except StoreError as error:
                # The first attempt may only have found a connection from before the server was
                # away, which tells nothing about now.
                if not self._database.is_away(error) or not self._wait(seconds, tells=not is_first):
                    raise
            else:
                with self._lock:  # the server is back
                    self._until = None
                    self._has_told = False
                return result
            seconds = min(2 * seconds, LONGEST_WAIT)
            is_first = False

    def stop(self) -> None:
        """End all waits; from now on, an attempt that fails is not repeated."""
        self._stopped.set()

    def _wait(self, seconds: float, *, tells: bool) -> bool:
        """Wait before the next attempt; return False if there must be no further attempt.

        The first thread that waits starts the time for which the server may be away.

        Args:
            seconds: length of the wait.
            tells: whether a message tells of the waiting, unless another thread has told of it.
        """
        with self._lock:
            self.was_away = True
            if self._until is None:
                self._until = time.monotonic() + self._seconds
            if tells and not self._has_told and not self._stopped.is_set():
                self._has_told = True
                until = f"waiting for at most {self._seconds:g} seconds"
                self._notify(f"{self._name}: {self._database.name} is away: {until}")
            seconds_left = self._until - time.monotonic()
        return seconds_left > 0 and not self._stopped.wait(min(seconds, seconds_left))
