"""Make the HTTP server, which closes silent connections; keep the models fitted in a thread."""

from __future__ import annotations

import asyncio
import gc
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
_END_OF_HEAD = re.compile(rb"\n\r?\n")  # the empty line after the headers of a request
_FOLDED_LINE = re.compile(rb"\n[ \t]")  # a header line that continues the line before


class StrictConnection(h11.Connection):
    """An HTTP connection that refuses a request if it is ambiguous where the request ends.

    If a proxy and the server disagree where a request ends, a client can hide a second request
    behind it (RFC 9112, 5.2 and 6.1). So folded header lines, and a Content-Length together with a
    Transfer-Encoding, are errors, and the connection is closed.
    """

    def next_event(self) -> Any:
        """Return the next event of h11.

        Raises:
            h11.RemoteProtocolError: if the end of the request is ambiguous.
        """
        if self.their_state is h11.IDLE:
            self._refuse_folded_lines()
        event = super().next_event()
        if isinstance(event, h11.Request):
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event

    def _refuse_folded_lines(self) -> None:
        """Raise RemoteProtocolError if a header line of the next request is folded."""
        received, _ = self.trailing_data  # the bytes that h11 has not parsed yet
        head = _END_OF_HEAD.split(received, maxsplit=1)[0]
        if _FOLDED_LINE.search(head):
            raise h11.RemoteProtocolError("a header line is folded")


class Impatient(H11Protocol):
    """The HTTP/1.1 protocol of uvicorn with a timeout for the head of a request.

    `cli.web.guard` limits the time for the body of a request.

    Args:
        patience: the timeout in seconds, counted from the start of the connection or from the last
            request.
    """

    def __init__(self, *args: Any, patience: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = StrictConnection(h11.SERVER)
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._update_timer()

    def handle_events(self) -> None:
        super().handle_events()
        self._update_timer()

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(error)

    def _update_timer(self) -> None:
        """Run the timer only while the connection waits for the head of a request."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(self._patience, self.timeout_keep_alive_handler)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):
    """A server of uvicorn that ends in an orderly way after SIGHUP, too."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop the server after a signal.

        The handler of uvicorn would also raise the signal again while requests are running.
        """
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop the server at SIGHUP, too, until the end of the `with` block.

        Without this handler SIGHUP would raise an exception in the middle of a request, where the
        exception would be lost.
        """
        with ExitStack() as stack:
            if self._handles_hangup():
                previous_handler = signal.signal(signal.SIGHUP, self.handle_exit)
                stack.callback(signal.signal, signal.SIGHUP, previous_handler)
            with super().capture_signals():
                yield

    @staticmethod
    def _handles_hangup() -> bool:
        """Tell whether a handler of SIGHUP can be set, and the signal is not ignored."""
        if threading.current_thread() is not threading.main_thread():
            return False  # Python sets handlers of signals only in the main thread
        if not hasattr(signal, "SIGHUP"):  # not every system has it
            return False
        return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def make_server(app: Guard) -> uvicorn.Server:
    """Make a server for the application; the server logs only its own errors."""
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
                faults = _read_and_fit_once(pages, people)
            except Exception as error:  # no error may end the thread: answers must be fitted later
                faults = [f"{type(error).__name__}: {error}"]
                seconds = 5 * READ_EVERY
            if faults:
                pages.faults.begin("keeping up", faults[0])
            else:
                pages.faults.end("keeping up", "answers are read and fitted again")


def _read_and_fit_once(pages: Pages, people: People) -> list[str]:
    """Read the links and judgements of a collection, and fit its models; return their faults."""
    people.read()
    for service in pages.services:
        service.sync()
        service.keep_fitted()
    return [service.fault for service in pages.services if service.fault]
