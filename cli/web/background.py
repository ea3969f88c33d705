"""What goes on beside the answers: retraining, and a look at what other processes wrote."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cli.terminal.refitting import short_turns
from cli.web.page_service import PageService
from cli.web.people import People

LOOK = 1.0  # seconds between two looks at the store
REST = 1.0  # seconds between two trainings, at least
REST_SHARE = 2.0  # ... and in shares of what the last one took: people come first


@contextmanager
def kept_up(
    room: PageService, people: People, *, also: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Retrain whenever answers came, and take in others' answers, in threads of their own.

    Args:
        also: called before each look at the store.
    """
    over = threading.Event()

    def look() -> float:
        also()
        room.catch_up()
        people.read()
        return LOOK

    def train() -> float:
        if not room.stale:
            return REST / 4
        start = time.monotonic()
        room.refit()
        return max(REST, REST_SHARE * (time.monotonic() - start))

    threads = [
        threading.Thread(target=_again, args=(work, over), daemon=True) for work in (look, train)
    ]
    for thread in threads:
        thread.start()
    try:
        with short_turns():
            yield
    finally:
        over.set()
        threads[0].join(1)  # the training is not waited for: it leaves nothing behind


def _again(work: Callable[[], float], over: threading.Event) -> None:
    """Do it again and again; a fault is said, once, and tried again later."""
    wait, told = 0.0, ""
    while not over.wait(wait):
        try:
            wait, told = work(), ""
        except Exception as error:  # whatever it is: the answers must go on coming in
            wait, fault = 5.0, f"{type(error).__name__}: {error}"
            if fault != told:
                print(f"sortnet: {' '.join(fault.split())}", file=sys.stderr)
            told = fault
