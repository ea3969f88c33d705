"""Serve a run's page on the loopback interface; it is drawn again after each iteration."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import ClassVar

from cli.output import put, say
from cli.report.page import render
from sortnet.errors import SortNetError
from store import Run

HOST = "127.0.0.1"  # never another: the page is only for users of this machine
# In addition to the page's own policy, which limits what it may load.
HEADERS = {
    "Content-Security-Policy": "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def _page_of(run: Run, interval: float) -> Callable[[], str]:
    """The page as text, drawn once per state of the run and shared by all requests."""
    lock, refresh = threading.Lock(), max(1, round(interval))

    @lru_cache(1)
    def drawn(status: str, n_iterations: int) -> str:
        return render(run, refresh=refresh if status == "running" else None)

    def text() -> str:
        with lock:
            return drawn(run.status, len(run.iterations_frame()))

    return text


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    page: Callable[[], str]

    def server_bind(self) -> None:
        TCPServer.server_bind(self)  # HTTPServer's own method queries the name service
        self.server_name, self.server_port = HOST, self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "sortnet", ""
    timeout: ClassVar[float] = 10.0  # timeout of a silent client

    def _found(self) -> tuple[int, str]:
        port = self.server.server_port
        if self.command != "GET":
            return 405, "GET only\n"
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            return 421, "this server answers to its own address only\n"  # against DNS rebinding
        if self.path != "/":
            return 404, "there is one page: /\n"
        try:
            return 200, self.server.page()
        except SortNetError as error:
            return 500, f"{error}\n"

    def do_GET(self) -> None:
        code, text = self._found()
        body = text.encode()
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if code == 405:
            self.send_header("Allow", "GET")
        kind = "html" if code == 200 else "plain"
        self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET

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
    server.page = _page_of(run, interval)
    with server:
        put(f"http://{HOST}:{server.server_port}/")
        say("Ctrl-C stops the page; the run continues")
        server.serve_forever(poll_interval=0.2)
