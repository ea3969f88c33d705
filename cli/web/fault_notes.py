"""Print each fault of a running server on its terminal once, and a note when the fault is over."""

from __future__ import annotations

import threading
from contextlib import suppress

from cli.console import say
from sortnet.messages import printable


class FaultNotes:
    """Prints the faults of a collection's server when they begin and when they end; thread-safe.

    >>> notes = FaultNotes("essays")
    >>> notes.begin("storing", "the disk is full")
    >>> notes.end("storing", "answers are stored again")
    >>> notes.end("storing", "answers are stored again")
    """

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._present_faults: dict[str, str] = {}  # {task: its fault}
        self._lock = threading.Lock()

    def begin(self, task: str, fault: str) -> None:
        """Print a fault of a task of the server, unless the same fault was printed last."""
        fault = " ".join(fault.split())
        with self._lock:
            is_new = self._present_faults.get(task) != fault
            self._present_faults[task] = fault
        if is_new:
            self._print(fault)

    def end(self, task: str, note: str) -> None:
        """Print a note that a task succeeds again, if the task had a fault."""
        with self._lock:
            had_fault = self._present_faults.pop(task, None) is not None
        if had_fault:
            self._print(note)

    def _print(self, text: str) -> None:
        # The output may go to a file on a full disk: requests must be answered all the same.
        with suppress(OSError):
            say(printable(f"sortnet: collection {self._collection!r}: {text}"))
