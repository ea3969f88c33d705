"""Call a server of language models over HTTP, with limits on the time and the answer's length."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from sortnet.judges.verdicts import Fault, Unreachable

if TYPE_CHECKING:
    import httpx

LONGEST = 1 << 20  # bytes of the longest answer that is read
_CONNECTIONS = 64  # open connections at the same time


class HttpAnswer(NamedTuple):
    """Status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Connections to one address, which stay open between calls; any thread may call.

    Args:
        url: address to which every call is sent.
        headers: headers of every call.
        seconds: time for a call. Each step has this time, and so has the whole body.
    """

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        """Make the transport."""
        import httpx

        self._url = url
        self._seconds = seconds
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",  # a decoded answer could be a thousand times longer
            **headers,
        }
        # A transport is used because a client of httpx would also follow cookies and redirects.
        limits = httpx.Limits(max_connections=_CONNECTIONS)
        self._transport = httpx.HTTPTransport(limits=limits, trust_env=False)

    def __enter__(self) -> Connections:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._transport.close()

    def post(self, body: Mapping[str, Any]) -> HttpAnswer:
        """Send a JSON body and return the answer.

        Raises:
            Unreachable: if the answer is late or no HTTP, or the connection fails.
            Fault: if the answer is too long or encoded. The message of the fault may have a
                whole text of the server, which may contain secrets.
        """
        import httpx

        # A text may have half of a surrogate pair, which UTF-8 cannot encode.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        timeout = httpx.Timeout(self._seconds).as_dict()
        try:
            request = httpx.Request(
                "POST",
                self._url,
                headers=self._headers,
                content=content,
                extensions={"timeout": timeout},
            )
            with closing(self._transport.handle_request(request)) as reply:
                return HttpAnswer(reply.status_code, reply.headers, self._body(reply))
        except httpx.TimeoutException:
            raise Unreachable(f"no answer after {self._seconds:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise Unreachable(f"{self._url}: {_reason(error)}") from None

    def _body(self, reply: httpx.Response) -> bytes:
        """Read the body of an answer, up to the limits of its time and its length."""
        encoding = reply.headers.get("content-encoding", "identity")
        if encoding.strip().lower() != "identity":
            raise Fault(f"an answer that is encoded as {encoding}, unasked")
        end = time.monotonic() + self._seconds
        body = b""
        for part in reply.iter_raw():
            body += part
            if len(body) > LONGEST:
                raise Fault(f"an answer of more than {LONGEST:,} bytes")
            if time.monotonic() > end:
                raise Unreachable(f"no answer after {self._seconds:g} seconds")
        return body


def _reason(error: BaseException) -> str:
    """Describe the first cause of an error, which is the most specific.

    The text is "Connection refused", for example, rather than "All attempts failed".
    """
    while earlier := error.__cause__ or error.__context__:
        error = earlier
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    if isinstance(error, ConnectionRefusedError):
        return "Connection refused (is the server running?)"
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
