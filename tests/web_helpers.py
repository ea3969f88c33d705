"""Helpers for tests of the pages: serve a collection in a thread, and send requests to it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from cli.web.app import make_app
from cli.web.pages import Pages
from cli.web.server import keep_up_to_date, make_server
from store import Collection

WAIT = 300


@dataclass(frozen=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Client:
    """Send requests to a server on the loopback interface."""

    port: int

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.send("GET", path, **headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Reply:
        text = json.dumps({} if body is None else body).encode()
        return self.send("POST", path, text, **{"Content_Type": "application/json", **headers})


@dataclass(frozen=True)
class Served:
    """A server in a thread of this process."""

    client: Client
    pages: Pages

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.client.port}"

    def link(self, name: str) -> str:
        return f"/a/{self.pages.collection.annotator(name).token}"

    @property
    def admin(self) -> str:
        return f"/admin/{self.pages.admin_token}"


@contextmanager
def listening(port: int = 0) -> Iterator[socket.socket]:
    with socket.socket() as made:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen(100)
        yield made


@contextmanager
def served(
    collection: Collection,
    *,
    lease: float = 600.0,
    port: int = 0,
    background: bool = False,
) -> Iterator[Served]:
    """Serve the pages of a collection; `background` fits while it serves, as the command does."""
    pages = Pages(collection, lease_seconds=lease)
    kept = keep_up_to_date([pages]) if background else nullcontext()
    with running([pages], port=port) as client, kept:
        yield Served(client, pages)


@contextmanager
def running(
    sites: Sequence[Pages],
    *,
    root: str = "",
    port: int = 0,
) -> Iterator[Client]:
    """Serve these collections in a thread."""
    with listening(port) as made:
        port = made.getsockname()[1]
        server = make_server(make_app(sites, {"127.0.0.1", "localhost"}, root=root))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [made]})
        thread.start()
        try:
            yield Client(port)
        finally:
            server.should_exit = True
            thread.join(WAIT)
