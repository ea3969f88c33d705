"""Check every request, and add headers to every response; `token_routes` checks the links."""

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

LONGEST_PATH = 2048  # characters of a request's path; the pages' own paths have about 60
MOST_BYTES = 2**18  # bytes of a request's body: enough for instructions of 50,000 characters
# Most bytes of a refused request's body that are read and thrown away. If the server closes the
# connection before the client has sent everything, the connection is reset, and the client never
# sees the refusal.
MOST_DISCARDED = 2**26
PATIENCE = 20.0  # seconds within which a request must arrive
PAGES = ("/a/", "/admin/", "/static/")  # the paths of all pages begin with one of these
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "media-src 'self'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'"
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
    """Allowed values of the Host header, which protect the server against DNS rebinding.

    Attributes:
        hosts: lower-case host names with ports.
        any_address: whether every IP address is allowed, too. A server that listens on all
            addresses needs this; it is safe, because an attacker can rebind names, but not
            addresses.

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
        """Return the reason why a host is refused, and what to do about it."""
        hosts = ", ".join(sorted(self.hosts))
        return (
            f"this server answers for {hosts}, not for {host[:60]!r}; "
            "behind a proxy, start it with --url and the proxy's address"
        )


def _is_address(host: str) -> bool:
    """Tell whether a host is an IP address, with or without a port."""
    address = host
    if ":" in host:  # a port follows; an IPv6 address before a port is in brackets
        address = host.rpartition(":")[0].strip("[]")
    try:
        ip_address(address)
    except ValueError:
        return False
    return True


@dataclass
class Rate:
    """Limits the rate of requests of each name.

    A name may send `at_once` requests at once, and after these `per_second` requests a second.
    Requests that it does not send are saved for later, `at_once` at most (a token bucket).

    Attributes:
        per_second: requests that are allowed each second.
        at_once: requests that are allowed at once.
        clock: returns the time in seconds.

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
        allowance, counted_at = self._allowances.get(name, (self.at_once, now))
        # The allowance grows with time, up to the number of requests that are allowed at once.
        allowance = min(self.at_once, allowance + (now - counted_at) * self.per_second)
        is_allowed = allowance >= 1
        if is_allowed:
            allowance -= 1
        self._allowances[name] = (allowance, now)
        return is_allowed


class Guard:
    """Refuses foreign hosts and origins, forms, and large or slow bodies; adds response headers.

    Args:
        app: answers the requests that are not refused.
        names: allowed values of the Host header.
        origins: further allowed values of the Origin header.
        root: the path of the pages' public address, such as `/label`. A proxy may strip this path
            from the path of a request.
        patience: seconds within which the body of a request must arrive.
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
        """Answer a request, as an ASGI application."""
        is_answered = False

        async def send_with_headers(message: Message) -> None:
            """Add the headers to the first message of a response, and send each message on."""
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._answer(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            # The server stops. The error is not raised again, because it would be logged.
            if not is_answered:
                response = self._refusal(scope, 503, "the server has ended")
                await response(scope, receive, send_with_headers)

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
            response = self._refusal(scope, 408, why)
            await response(scope, receive, send)
            return
        if body is None:
            why = f"the request is larger than {MOST_BYTES} bytes"
            await self._refuse_upload(upload, self._refusal(scope, 413, why), scope, send)
            return
        await self.app(self._rooted(scope), _replay(body, receive), send)

    def _refusal(self, scope: Scope, code: int, why: str) -> Response:
        """Make the response that refuses a request, and closes the connection."""
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
        """Return the scope with a path that begins with the root, as ASGI requires.

        Some proxies strip the root from the path of a request, others do not.
        """
        root = self.root
        path = scope["path"]
        has_root = path.startswith(root) and path[len(root) :].startswith(PAGES)
        if not has_root:
            path = root + path
        return {**scope, "path": path, "root_path": root, "state": {"root": root}}

    def _fault(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Check the head of a request.

        Returns:
            The status code and the reason of a refusal; None if the request is allowed.
        """
        host = headers.get("host", "")
        if not self.names.allows(host):
            return 421, self.names.refusal(host)
        if len(scope["path"]) > LONGEST_PATH:
            return 414, f"the address is longer than {LONGEST_PATH} characters"
        method = scope["method"]
        if method in ("GET", "HEAD"):
            return None
        # A POST request changes something, so it must come from the server's own pages. It must be
        # JSON, because a page of another site may send a form.
        if self._is_from_another_page(host, headers):
            return 403, "the request comes from another page"
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and media_type != "application/json":
            return 415, "the request is not application/json"
        return None

    def _is_from_another_page(self, host: str, headers: Headers) -> bool:
        """Tell whether a browser says that a request comes from a page of another server.

        Args:
            host: the name by which the request addresses this server.
            headers: the headers of the request. A program that is no browser sends neither
                `Origin` nor `Sec-Fetch-Site`.
        """
        allowed_origins = {f"http://{host.lower()}", *self.origins}
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in allowed_origins:
            return True
        return headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")


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
        """Read the rest of the body, up to a limit, and throw it away."""
        n_bytes = 0
        while not self._complete and n_bytes < MOST_DISCARDED:
            n_bytes += len(await self._next_part())

    async def _next_part(self) -> bytes:
        """Receive the next part of the body, and note whether it is the last part."""
        message = await self.receive()
        self._complete = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


def _replay(body: bytes, receive: Receive) -> Receive:
    """Make a function that returns the body, which was read already, and then new messages.

    The application needs such a function, because it reads the body itself.
    """
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        if unread:
            return unread.pop()
        return await receive()

    return receive_again
