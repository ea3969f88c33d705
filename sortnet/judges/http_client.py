"""Call a server of language models over HTTP, with limits on the time and the answer's length."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Mapping
from contextlib import aclosing
from types import TracebackType
from typing import Any, NamedTuple

from sortnet.judges.verdicts import Fault, Unreachable

LONGEST = 1 << 20  # bytes of the longest answer that is read
_CONNECTIONS = 64  # open connections at the same time


class HttpAnswer(NamedTuple):
    """Status, headers and body of an answer."""

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
            "Accept-Encoding": "identity",  # a decoded answer could be a thousand times longer
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
            Fault: if the answer is too long or encoded. The message of the fault may have a
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
                    encoding = reply.headers.get("content-encoding", "identity")
                    if encoding.strip().lower() != "identity":
                        raise Fault(f"an answer that is encoded as {encoding}, unasked")
                    answer = b""
                    async for part in reply.aiter_raw():
                        answer += part
                        if len(answer) > LONGEST:
                            raise Fault(f"an answer of more than {LONGEST:,} bytes")
                return HttpAnswer(reply.status_code, reply.headers, answer)
        except TimeoutError:
            raise Unreachable(f"no answer after {self._seconds:g} seconds") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise Unreachable(f"{self._url}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    """Describe the first cause of an error, which is the most specific.

    The text is "Connection refused", for example, rather than "All attempts failed".
    """
    while earlier := error.__cause__ or error.__context__:
        error = earlier
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
    if isinstance(error, ConnectionError) and error.errno is not None:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
