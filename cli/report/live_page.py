"""Serve a run's page on the loopback interface; it is drawn again after each iteration."""

from __future__ import annotations

import errno
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, ClassVar

from cli.output import put, say
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from store import Run

HOST = "127.0.0.1"  # never another: the page is only for users of this machine
# In addition to the page's own policy, which limits what it may load.
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class _Page:
    """The page as text, drawn once per state of the run and shared by all requests."""

    def __init__(self, run: Run, interval: float) -> None:
        self._run, self._refresh = run, max(1, round(interval))
        self._lock = threading.Lock()
        self._drawn: tuple[object, str] | None = None

    def text(self) -> str:
        from cli.report.page import render

        with self._lock:
            status = self._run.status
            state = (status, len(self._run.iterations_frame()))
            if self._drawn is None or self._drawn[0] != state:
                again = self._refresh if status == "running" else None
                self._drawn = state, render(self._run, refresh=again)
            return self._drawn[1]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    page: _Page

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own method queries the name service
        self.server_name, self.server_port = HOST, self.server_address[1]

    @property
    def names(self) -> tuple[str, str]:
        """Allowed values of the Host header, against DNS rebinding."""
        return f"{HOST}:{self.server_port}", f"localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "sortnet", ""
    timeout: ClassVar[float] = 10.0  # timeout of a silent client

    def do_GET(self) -> None:
        if self.headers.get("Host") not in self.server.names:
            self._answer(421, "this server answers to its own address only\n")
        elif self.path != "/":
            self._answer(404, "there is one page: /\n")
        else:
            self._page()

    def _page(self) -> None:
        try:
            text = self.server.page.text()
        except SortNetError as error:
            self._answer(500, f"{error}\n")
        else:
            self._answer(200, text, "text/html; charset=utf-8")

    def _only_get(self) -> None:
        self._answer(405, "GET only\n")

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _only_get

    def _answer(self, code: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if code == 405:
            self.send_header("Allow", "GET")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the terminal is for the address and errors."""


def serve(run: Run, port: int, interval: float) -> None:
    """Serve the run's page until Ctrl-C.

    Raises:
        SortNetError: if the port is not available.
    """
    try:
        server = _Server((HOST, port), _Handler)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            fault = f"port {port} is in use: choose another with --port, or leave it out"
        else:
            fault = f"cannot listen on port {port}: {error.strerror or error}"
        raise SortNetError(fault) from None
    server.page = _Page(run, interval)
    with server:
        put(f"http://{HOST}:{server.server_port}/")
        say("Ctrl-C stops the page; the run continues")
        server.serve_forever(poll_interval=0.2)
