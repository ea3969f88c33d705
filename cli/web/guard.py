"""Check every request, and add headers to every response; `app` checks the secret links."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from cli.web.replies import refusal

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LONGEST_PATH = 2048  # characters; the pages' own paths have about 60
MOST_BYTES = 2**18  # of a request's body: enough for instructions of 50,000 characters
# Bytes of the body of a refused request that are read and thrown away. If a connection is closed
# before the client has sent everything, it is reset, and the client never sees the refusal.
MOST_DISCARDED = 2**26
PATIENCE = 20.0  # seconds for a request to arrive
PAGES = ("/a/", "/admin/", "/static/")  # the paths of all pages begin with one of these
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the token is part of the address
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Names:
    """Allowed values of the Host header, against DNS rebinding: lower-case names with ports.

    With `any_address` every IP address is allowed too, for a server that listens on all addresses:
    an attacker can rebind names, but not addresses.

    >>> Names(frozenset({"localhost:8000"}), any_address=True).allows("192.0.2.7:8000")
    True
    >>> Names(frozenset({"localhost:8000"})).allows("evil.example:8000")
    False
    """

    hosts: frozenset[str]
    any_address: bool = False

    def allows(self, host: str) -> bool:
        return host.lower() in self.hosts or (self.any_address and _is_address(host))

    def refusal(self, host: str) -> str:
        """Say why a host is refused, and what to do about it."""
        hosts = ", ".join(sorted(self.hosts))
        return (
            f"this server answers for {hosts}, not for {host[:60]!r}; "
            "behind a proxy, start it with --url and the proxy's address"
        )


def _is_address(host: str) -> bool:
    """Whether a host is an IP address, with or without a port."""
    address = host.rpartition(":")[0].strip("[]") if ":" in host else host
    try:
        ip_address(address)
    except ValueError:
        return False
    return True


@dataclass
class Rate:
    """Rate limit per name: `per_second` requests after a burst of `at_once`.

    >>> clock = iter([0.0, 0.0, 0.0, 0.6, 99.0, 99.0, 99.0]).__next__
    >>> rate = Rate(per_second=2, at_once=2, clock=clock)
    >>> [rate.allows("ana") for _ in range(7)]
    [True, True, False, True, True, True, False]
    """

    per_second: float = 20.0
    at_once: float = 100.0
    clock: Callable[[], float] = time.monotonic
    # {name: (number of requests that are allowed at once, time when it was counted)}
    _allowances: dict[str, tuple[float, float]] = field(default_factory=dict)

    def allows(self, name: str) -> bool:
        """Count a request of the given name; return whether the request is within the limit."""
        now = self.clock()
        allowance, since = self._allowances.get(name, (self.at_once, now))
        allowance = min(self.at_once, allowance + (now - since) * self.per_second)
        is_allowed = allowance >= 1
        self._allowances[name] = (allowance - 1 if is_allowed else allowance, now)
        return is_allowed


class Guard:
    """Refuse foreign hosts and origins, forms, and large or slow bodies; add headers to responses.

    Args:
        app: answers the requests that are not refused.
        names: allowed values of the Host header.
        origins: further allowed values of the Origin header.
        root: the path of the pages' public address, such as `/label`. A proxy may strip it from
            the path of a request.
        patience: the timeout of a request's body, in seconds.
    """

    def __init__(
        self,
        app: App,
        names: Names,
        origins: Iterable[str] = (),
        root: str = "",
        *,
        patience: float = PATIENCE,
    ) -> None:
        self.app = app
        self.names = names
        self.origins = frozenset(origins)
        self.root = root
        self.patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._answer(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # the server stops; raised further, it would be logged
            if not started:
                await self._refusal(scope, 503, "the server has ended")(
                    scope, receive, send_with_headers
                )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole request and pass it to the application, or refuse it."""
        upload = Upload(receive)
        fault = self._fault(scope, Headers(scope=scope))
        if fault is not None:
            await self._refuse_upload(upload, self._refusal(scope, *fault), scope, send)
            return
        try:
            async with asyncio.timeout(self.patience):
                body = await upload.read()
        except TimeoutError:
            why = f"the rest of the request did not come within {self.patience:g} s"
            await self._refusal(scope, 408, why)(scope, receive, send)
            return
        if body is None:
            why = f"the request is larger than {MOST_BYTES} bytes"
            await self._refuse_upload(upload, self._refusal(scope, 413, why), scope, send)
            return
        await self.app(self._rooted(scope), _replay(body, receive), send)

    def _refusal(self, scope: Scope, code: int, why: str) -> Response:
        # The rest of the refused request may still come, so the connection cannot be used again.
        return refusal(Request(self._rooted(scope)), code, why, {"Connection": "close"})

    async def _refuse_upload(
        self, upload: Upload, refusal: Response, scope: Scope, send: Send
    ) -> None:
        """Send a refusal, and keep the connection open while the client is still sending."""

        async def send_unfinished(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "more_body": True}
            await send(message)

        await refusal(scope, upload.receive, send_unfinished)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                await upload.discard()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _rooted(self, scope: Scope) -> Scope:
        """Return the scope with a path that begins with the root, as ASGI requires."""
        root = self.root
        path = scope["path"]
        has_root = path.startswith(root) and path[len(root) :].startswith(PAGES)
        if not has_root:
            path = root + path
        return {**scope, "path": path, "root_path": root, "state": {"root": root}}

    def _fault(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Check the head of the request; return the status and the text of a refusal, or None."""
        host = headers.get("host", "")
        if not self.names.allows(host):
            return 421, self.names.refusal(host)
        if len(scope["path"]) > LONGEST_PATH:
            return 414, f"the address is longer than {LONGEST_PATH} characters"
        method = scope["method"]
        if method in ("GET", "HEAD"):
            return None
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host.lower()}", *self.origins}:
            return 403, "the request comes from another page"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "the request comes from another page"
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and media_type != "application/json":
            return 415, "the request is not application/json"
        return None


class Upload:
    """The body of a request while it arrives; the body may be too large, or never end."""

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self._complete = False

    async def read(self) -> bytes | None:
        """Read the whole body; None if it is too large."""
        body = b""
        while not self._complete and len(body) <= MOST_BYTES:
            body += await self._next_part()
        return body if len(body) <= MOST_BYTES else None

    async def discard(self) -> None:
        """Read the rest of the body, at most `MOST_DISCARDED` bytes, and keep nothing."""
        n_bytes = 0
        while not self._complete and n_bytes < MOST_DISCARDED:
            n_bytes += len(await self._next_part())

    async def _next_part(self) -> bytes:
        message = await self.receive()
        self._complete = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


def _replay(body: bytes, receive: Receive) -> Receive:
    """Make a function that replays the body, which was read already, then receives new messages."""
    replayed: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return replayed.pop() if replayed else await receive()

    return receive_again
