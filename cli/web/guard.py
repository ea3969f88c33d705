"""Check every request, and add headers to every response; `cli.web.app` checks the links."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from ipaddress import ip_address
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request

from cli.web.replies import refusal

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

LONGEST_PATH = 2048  # characters of a request's path; the pages' own paths have about 60
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


class Guard:
    """Refuses foreign hosts and origins, and forms; adds response headers.

    uvicorn and a proxy limit how long a request may take.

    Args:
        app: answers the requests that are not refused.
        hosts: allowed names in the Host header, in lower case, which protect the server against DNS
            rebinding. The port does not matter: an attacker can rebind names only.
        any_address: whether every IP address is allowed, too. A server that listens on all
            addresses may allow them, because an attacker can rebind names only.
        origin: a further allowed value of the Origin header, the address of a proxy; or None.
        root: the path of the pages' public address, such as `/label`. A proxy may strip this path
            from the path of a request.
    """

    def __init__(
        self, app: App, hosts: Collection[str], *, any_address: bool, origin: str | None, root: str
    ) -> None:
        self.app = app
        self.hosts = hosts
        self.any_address = any_address
        self.origin = origin
        self.root = root

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

        scope = self._rooted(scope)
        fault = self._fault(scope, Headers(scope=scope))
        app = self.app if fault is None else refusal(Request(scope), *fault)
        try:
            await app(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            # The server stops. The error is not raised again, because it would be logged.
            if not is_answered:
                response = refusal(Request(scope), 503, "the server has ended")
                await response(scope, receive, send_with_headers)

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

    def _allows(self, host: str) -> bool:
        """Whether browsers may address the server by the value of a Host header."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self.hosts or (self.any_address and bool(ip_address(name)))
        except ValueError:
            return False

    def _fault(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        """Return the status code and the reason of a refusal; None if the request is allowed."""
        host = headers.get("host", "")
        if not self._allows(host):
            return 421, (
                f"this server answers for {', '.join(sorted(self.hosts))}, not for {host[:60]!r}; "
                "behind a proxy, start it with --url and the proxy's address"
            )
        if len(scope["path"]) > LONGEST_PATH:
            return 414, f"the address is longer than {LONGEST_PATH} characters"
        if scope["method"] in ("GET", "HEAD"):
            return None
        # A POST request changes something, so it must come from the server's own pages. It must be
        # JSON, because a page of another site may send a form. A program that is no browser sends
        # neither `Origin` nor `Sec-Fetch-Site`.
        own_origin = f"http://{host.lower()}"
        origin = headers.get("origin", own_origin).lower()
        site = headers.get("sec-fetch-site", "same-origin")
        if origin not in (own_origin, self.origin) or site not in ("same-origin", "none"):
            return 403, "the request comes from another page"
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != "application/json":
            return 415, "the request is not application/json"
        return None
