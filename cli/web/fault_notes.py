"""Faults of a running server on its terminal: printed once, with a note when they are over."""

from __future__ import annotations

import threading
from contextlib import suppress

from cli.console import say
from sortnet.messages import printable


class FaultNotes:
    """The present faults of a collection's server, printed as they begin and end; thread-safe.

    >>> notes = FaultNotes("essays")
    >>> notes.begin("storing", "the disk is full")
    >>> notes.end("storing", "answers are stored again")
    >>> notes.end("storing", "answers are stored again")
    """

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._present: dict[str, str] = {}  # {kind of work: its fault}
        self._lock = threading.Lock()

    def begin(self, work: str, fault: str) -> None:
        """Print a fault of some work, unless it is the work's present fault already."""
        fault = " ".join(fault.split())
        with self._lock:
            is_new = self._present.get(work) != fault
            self._present[work] = fault
        if is_new:
            self._print(fault)

    def end(self, work: str, note: str) -> None:
        """Print that some work succeeds again, if it had a fault."""
        with self._lock:
            had_fault = self._present.pop(work, None) is not None
        if had_fault:
            self._print(note)

    def _print(self, text: str) -> None:
        # The terminal may be a file on a full disk: requests must be answered all the same.
        with suppress(OSError):
            say(printable(f"sortnet: collection {self._collection!r}: {text}"))
