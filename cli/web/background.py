"""What goes on beside the answers: fits, and a look at what other processes wrote."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli.web.page_service import PageService
from cli.web.people import People

LOOK = 1.0  # seconds between two looks at the store


@contextmanager
def kept_up(
    pages: PageService, people: People, *, also: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Take in others' answers and keep the model fitted, in threads of their own.

    Args:
        also: called before each look at the store.
    """
    over = threading.Event()
    thread = threading.Thread(target=_look_again, args=(pages, people, also, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1)  # a fit is not waited for: it leaves nothing behind


def _look_again(
    pages: PageService, people: People, also: Callable[[], None], over: threading.Event
) -> None:
    """Look until it is over; a fault is printed once, and what failed is tried again later."""
    wait, printed = 0.0, ""
    while not over.wait(wait):
        wait = LOOK
        try:
            also()
            pages.service.sync()
            people.read()
            pages.service.update()
            fault = pages.service.fault
        except Exception as error:  # whatever it is: the answers must go on coming in
            wait, fault = 5 * LOOK, f"{type(error).__name__}: {error}"
        if fault and fault != printed:
            print(f"sortnet: {' '.join(fault.split())}", file=sys.stderr)
        printed = fault
