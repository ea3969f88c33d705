"""The HTTP server, which closes silent connections, and a thread that keeps the models fitted."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cli.web.guard import Guard
from cli.web.pages import Pages, People
from store.service.short_turns import short_turns

READ_EVERY = 1.0  # seconds between two reads of the store
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_FOLDED_LINE = re.compile(rb"\n[ \t]")


class StrictConnection(h11.Connection):
    """An h11 connection that refuses two kinds of requests whose end is ambiguous.

    If a proxy and the server disagree where a request ends, a client can hide a second request
    behind it (RFC 9112, 5.2 and 6.1). So folded header lines, and a Content-Length together with a
    Transfer-Encoding, are errors, and the connection is closed.
    """

    def next_event(self) -> Any:
        """The next event of h11; an error if the head of the request is ambiguous."""
        if self.their_state is h11.IDLE:
            self._refuse_folded_lines()
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event

    def _refuse_folded_lines(self) -> None:
        received, _ = self.trailing_data
        head = _END_OF_HEAD.split(received, maxsplit=1)[0]
        if _FOLDED_LINE.search(head):
            raise h11.RemoteProtocolError("a header line is folded")


class Impatient(H11Protocol):
    """The HTTP/1.1 protocol of uvicorn with a timeout for the head of a request.

    `patience` is the timeout in seconds, counted from the start of the connection or the last
    request. The time of the body is limited in `cli.web.guard`.
    """

    def __init__(self, *args: Any, patience: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = StrictConnection(h11.SERVER)
        self._patience = patience
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_or_not()

    def handle_events(self) -> None:
        super().handle_events()
        self._wait_or_not()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(error)

    def _wait_or_not(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(self._patience, self.timeout_keep_alive_handler)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop the server after a signal.

        The handler of uvicorn would also raise the signal again while requests are running.
        """
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGHUP as uvicorn handles SIGTERM: an exception in a request would be lost."""
        hangup: Any = getattr(signal, "SIGHUP", None)
        in_main = threading.current_thread() is threading.main_thread()
        handles = hangup and in_main and signal.getsignal(hangup) is not signal.SIG_IGN
        previous = signal.signal(hangup, self.handle_exit) if handles else None
        try:
            with super().capture_signals():
                yield
        finally:
            if handles:
                signal.signal(hangup, previous)


def make_server(app: Guard) -> uvicorn.Server:
    """Make a server of the application; it logs only its own errors."""
    config = uvicorn.Config(
        app,
        http=partial(Impatient, patience=app.patience),  # type: ignore[arg-type]
        log_config=None,
        log_level="error",
        access_log=False,  # the addresses contain secret tokens
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    return _Server(config)


@contextmanager
def keep_up_to_date(
    sites: Sequence[tuple[Pages, People]], *, before_read: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Read judgements of other processes and keep the models fitted, in background threads.

    `before_read` is called before each read of the store.
    """
    stopped = threading.Event()
    thread = threading.Thread(target=_read_and_fit, args=(sites, before_read, stopped), daemon=True)
    thread.start()
    # Judgements and libraries live as long as the server, so the garbage collector need not look at
    # them. A pass over them would stop all answers for some tenths of a second.
    gc.freeze()
    try:
        with short_turns():
            yield
    finally:
        gc.unfreeze()
        stopped.set()
        thread.join(1)  # a running fit is not awaited: it has no side effects


def _read_and_fit(
    sites: Sequence[tuple[Pages, People]], before_read: Callable[[], None], stopped: threading.Event
) -> None:
    """Read judgements and fit the models until `stopped` is set.

    An error is printed once, and the work is tried again later.
    """
    wait = 0.0
    while not stopped.wait(wait):
        wait = READ_EVERY
        before_read()
        for pages, people in sites:
            try:
                people.read()
                for service in pages.services:
                    service.sync()
                    service.update()
                faults = [service.fault for service in pages.services if service.fault]
                fault = faults[0] if faults else ""
            except Exception as error:  # any error: answers must still be accepted
                fault = f"{type(error).__name__}: {error}"
                wait = 5 * READ_EVERY
            if fault:
                pages.faults.begin("keeping up", fault)
            else:
                pages.faults.end("keeping up", "answers are read and fitted again")
