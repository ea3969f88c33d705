"""Call a server of language models over HTTP, with limits on the time and the answer's length."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import zlib
from collections.abc import Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, NamedTuple

from sortnet.judges.verdicts import Fault, Unreachable

LONGEST = 1 << 20  # bytes of the longest decoded answer that is read
_CONNECTIONS = 64  # open connections at the same time


class HttpAnswer(NamedTuple):
    """Status, headers and decoded body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """Connections to one address, which stay open between calls; any thread may call.

    The calls run in an event loop in a separate thread. In an event loop, the deadline of a call
    covers all of its steps: finding the host, connecting, and reading headers and body.

    Args:
        url: address to which every call is sent.
        headers: headers of every call.
        seconds: time for a call, from its start to the end of its answer.
    """

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float) -> None:
        """Make the transport and the thread of the event loop, which `__enter__` starts."""
        import httpx

        self._url = url
        self._seconds = seconds
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "gzip",
            **headers,
        }
        # A transport is used because a client of httpx would also follow cookies and redirects.
        self._transport = httpx.AsyncHTTPTransport(
            limits=httpx.Limits(max_connections=_CONNECTIONS), trust_env=False
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Connections:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._transport.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def post(self, body: Mapping[str, Any]) -> HttpAnswer:
        """Send a JSON body and return the answer.

        Raises:
            Unreachable: if the answer is late or no HTTP, or the connection fails.
            Fault: if the answer is too long or encoded twice. The message of the fault may have a
                whole text of the server, which may contain secrets.
        """
        # A text may have half of a surrogate pair, which UTF-8 cannot encode.
        content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        call = asyncio.run_coroutine_threadsafe(self._post(content), self._loop)
        return call.result()

    async def _post(self, content: bytes) -> HttpAnswer:
        """Send the bytes of a body and return the answer; runs in the event loop."""
        import httpx

        try:
            request = httpx.Request("POST", self._url, headers=self._headers, content=content)
            async with asyncio.timeout(self._seconds):
                reply = await self._transport.handle_async_request(request)
                async with aclosing(reply):
                    body = DecodedBody(reply.headers.get("content-encoding", ""))
                    async for part in reply.aiter_raw():
                        body.add(part)
                return HttpAnswer(reply.status_code, reply.headers, body.whole())
        except TimeoutError:
            raise Unreachable(f"no answer after {self._seconds:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise Unreachable(f"{self._url}: {_reason(error)}") from None


class DecodedBody:
    """Body of an answer, which is decoded part by part.

    Nested encodings are refused, since each encoding can multiply the length by a thousand.

    Args:
        encoding: value of the header `Content-Encoding`: gzip, identity or empty.

    Raises:
        Fault: on another encoding, or as soon as the decoded body is too long.
    """

    def __init__(self, encoding: str) -> None:
        """Check the encoding, and make a decoder if the encoding is gzip."""
        names = [name.strip().lower() for name in encoding.split(",")]
        encodings = [name for name in names if name not in ("", "identity")]
        if encodings not in ([], ["gzip"], ["x-gzip"]):
            raise Fault(f"an answer that is encoded as {encoding}, where gzip or nothing may be")
        # 16 + MAX_WBITS makes zlib read the format gzip.
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS) if encodings else None
        self._decoded = bytearray()

    def add(self, part: bytes) -> None:
        """Decode the next part; raise Fault if the body is damaged or too long."""
        if self._inflate is not None:
            # One byte more than allowed is decoded, so that a body that is too long is noticed.
            n_bytes_left = LONGEST + 1 - len(self._decoded)
            try:
                part = self._inflate.decompress(part, n_bytes_left)
            except zlib.error as error:
                raise Fault(f"an answer that is damaged gzip: {error}") from None
        self._decoded += part
        if len(self._decoded) > LONGEST:
            raise Fault(f"an answer of more than {LONGEST:,} bytes")

    def whole(self) -> bytes:
        """Return the decoded body after its last part; raise Fault if the end is missing."""
        if self._inflate is not None and not self._inflate.eof:
            raise Fault("an answer whose gzip has no end")
        return bytes(self._decoded)


def _reason(error: BaseException) -> str:
    """Describe the first cause of an error, which is the most specific.

    The text is "Connection refused", for example, rather than "All attempts failed".
    """
    cause = error
    earlier = _earlier_error(cause)
    while earlier is not None:
        cause = earlier
        earlier = _earlier_error(cause)
    if isinstance(cause, ConnectionError) and cause.errno is not None:
        return os.strerror(cause.errno)
    return str(cause) or str(error) or type(error).__name__


def _earlier_error(error: BaseException) -> BaseException | None:
    """Return the error that led to an error; None if there was no earlier error."""
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    return error.__cause__ or error.__context__
