"""Routes behind a secret link: the token of the link is checked before a handler answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cli.web.fault_notes import FaultNotes
from cli.web.guard import Rate
from cli.web.request_values import read_body
from sortnet.errors import StoreError

NO_SUCH_LINK = (
    "This link is unknown. It may be incomplete, or belong to another collection: "
    "ask the person who sent it for a new one."
)


@dataclass(frozen=True)
class LinkRequest:
    """A request that came by a secret link.

    Attributes:
        name: the name of the annotator whom the link belongs to; `admin` for the admin's link.
        http: the request, with its path and its query parameters.
        body: the JSON of the request's body; empty for a GET request.
    """

    name: str
    http: Request
    body: dict[str, Any]


Handler: TypeAlias = Callable[[LinkRequest], Response]


def routes_behind_token(
    base: str,
    name_of: Callable[[str], str | None],
    handlers: Mapping[tuple[str, str], Handler],
    faults: FaultNotes,
) -> Iterator[Route]:
    """Make a route for each method and each path that follows a token.

    Args:
        base: the path before the token, such as `/a`.
        name_of: returns the name of a token's annotator, or None if the token is unknown.
        handlers: {(method, path after the token): handler}.
        faults: prints when the store fails, and when it works again.
    """
    rate = Rate()
    for (method, path), handler in handlers.items():
        if method == "POST":
            # `/next` may return questions that are leased already, without writing to the store. So
            # its success does not show that the store can be written.
            handler = _with_fault_notes(faults, handler, writes=path != "/next")
        endpoint = _endpoint(handler, name_of, rate)
        yield Route(f"{base}/{{token:str}}{path}", endpoint, methods=[method])


def _endpoint(
    handler: Handler, name_of: Callable[[str], str | None], rate: Rate
) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint that checks the token and the rate before a thread runs the handler.

    Args:
        handler: answers a request that is allowed.
        name_of: returns the name of a token's annotator, or None if the token is unknown.
        rate: limits the requests by each token.
    """

    async def answer(request: Request) -> Response:
        token = request.path_params["token"]
        name = name_of(token)
        if name is None:
            raise HTTPException(404, NO_SUCH_LINK)
        if not rate.allows(token):
            raise HTTPException(429, "too many requests; slow down", {"Retry-After": "1"})
        body = await read_body(request) if request.method == "POST" else {}
        return await run_in_threadpool(handler, LinkRequest(name, request, body))

    return answer


def _with_fault_notes(faults: FaultNotes, handler: Handler, *, writes: bool) -> Handler:
    """Wrap a handler, so that it prints when the store cannot be written, and when it can again.

    Args:
        faults: prints a fault once, and its end.
        handler: the handler to wrap.
        writes: whether a success of the handler shows that the store can be written.
    """

    def handle(request: LinkRequest) -> Response:
        try:
            reply = handler(request)
        except StoreError as error:
            faults.begin("storing", f"no answer can be stored, pages keep theirs and wait: {error}")
            raise
        if writes and reply.status_code < 400:
            faults.end("storing", "answers are stored again")
        return reply

    return handle
