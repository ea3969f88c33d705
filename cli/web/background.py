"""Background work: fitting the model and reading judgements of other processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli.web.page_service import PageService
from cli.web.people import People

LOOK = 1.0  # seconds between two reads of the store


@contextmanager
def kept_up(
    pages: PageService, people: People, *, also: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Read judgements of other processes and keep the model fitted, in background threads.

    Args:
        also: called before each read of the store.
    """
    over = threading.Event()
    thread = threading.Thread(target=_look_again, args=(pages, people, also, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1)  # a running fit is not awaited: it has no side effects


def _look_again(
    pages: PageService, people: People, also: Callable[[], None], over: threading.Event
) -> None:
    """Repeat until stopped; an error is printed once, and the work is retried later."""
    wait, printed = 0.0, ""
    while not over.wait(wait):
        wait = LOOK
        try:
            also()
            pages.service.sync()
            people.read()
            pages.service.update()
            fault = pages.service.fault
        except Exception as error:  # any error: answers must still be accepted
            wait, fault = 5 * LOOK, f"{type(error).__name__}: {error}"
        if fault and fault != printed:
            print(f"sortnet: {' '.join(fault.split())}", file=sys.stderr)
        printed = fault
