"""Make the HTTP server; keep the models fitted in a thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn

from cli.signals import signals_handled
from cli.web.guard import Guard
from cli.web.pages import Pages, People
from store.service.short_turns import short_turns

READ_EVERY = 1.0  # seconds between two reads of the store
MOST_CONNECTIONS = 1000  # more connections are answered with 503, after which pages try again


class _Server(uvicorn.Server):
    """A server of uvicorn that ends in an orderly way after SIGHUP, too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop the server at a signal, which uvicorn would raise again when it has stopped."""

        def stop(number: int, frame: object) -> None:
            self.should_exit = True

        with signals_handled(stop, "SIGINT", "SIGTERM", "SIGHUP"):
            yield


def make_server(app: Guard) -> uvicorn.Server:
    """Make a server for the application; the server logs only its own errors."""
    config = uvicorn.Config(
        app,
        http="h11",
        log_config=None,
        log_level="error",
        access_log=False,  # the addresses contain secret tokens
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    return _Server(config)


@contextmanager
def keep_up_to_date(
    sites: Sequence[tuple[Pages, People]], *, before_read: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Read judgements of other processes and keep the models fitted, until the `with` block ends.

    A background thread does this.

    Args:
        sites: the pages and the links of each collection.
        before_read: called before each read of the store.
    """
    stopped = threading.Event()
    thread = threading.Thread(target=_read_and_fit, args=(sites, before_read, stopped), daemon=True)
    thread.start()
    # Judgements and libraries live as long as the server, so the garbage collector need not look at
    # these objects. A pass over them would stop all answers for some tenths of a second.
    gc.freeze()
    try:
        with short_turns():
            yield
    finally:
        gc.unfreeze()
        stopped.set()
        thread.join(timeout=1)  # a longer fit is not awaited: it has no side effects


def _read_and_fit(
    sites: Sequence[tuple[Pages, People]], before_read: Callable[[], None], stopped: threading.Event
) -> None:
    """Read judgements and fit the models until `stopped` is set.

    An error is printed once, and reading and fitting are tried again later.
    """
    seconds = 0.0  # time until the next read
    while not stopped.wait(seconds):
        seconds = READ_EVERY
        before_read()
        for pages, people in sites:
            try:
                people.read()
                for service in pages.services:
                    service.sync()
                    service.keep_fitted()
                faults = [service.fault for service in pages.services if service.fault]
            except Exception as error:  # no error may end the thread: answers must be fitted later
                faults = [f"{type(error).__name__}: {error}"]
                seconds = 5 * READ_EVERY
            if faults:
                pages.faults.begin("keeping up", faults[0])
            else:
                pages.faults.end("keeping up", "answers are read and fitted again")
