"""Make the web application: GET reads, POST changes; both need a secret token in the path."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cli.web import admin_handlers, annotator_handlers
from cli.web.guard import Guard
from cli.web.pages import Handler, LinkRequest, Pages
from cli.web.replies import refusal, sentence
from cli.web.request_values import read_body
from sortnet.errors import LeaseError, SortNetError, StoreError

NO_SUCH_LINK = (
    "This link is unknown. It may be incomplete, or belong to another collection: "
    "ask the person who sent it for a new one."
)
REVOKED = "This link was revoked: ask the person who sent it for a new one."


def make_app(
    sites: Sequence[Pages],
    hosts: Collection[str],
    *,
    any_address: bool = False,
    origin: str | None = None,
    root: str = "",
) -> Guard:
    """Make the web application for the pages of collections, behind a guard.

    Args:
        sites: the pages of each collection.
        hosts: the host names by which browsers may address the server, in lower case.
        any_address: whether browsers may address the server by any IP address, too.
        origin: a further allowed value of the Origin header, the address of a proxy; or None.
        root: path of the pages' public address.
    """
    routes = [
        *(_route(sites, "/a", *handler) for handler in annotator_handlers.HANDLERS),
        *(_route(sites, "/admin", *handler) for handler in admin_handlers.HANDLERS),
        Mount("/static", StaticFiles(packages=[("cli.web", "static")])),
    ]
    handlers: dict[Any, Any] = dict.fromkeys((HTTPException, SortNetError, Exception), _refuse)
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app, hosts, any_address=any_address, origin=origin, root=root)


def _route(sites: Sequence[Pages], base: str, method: str, path: str, handler: Handler) -> Route:
    """Make the route of a handler, which follows a token: `/a/TOKEN` or `/admin/TOKEN`.

    Args:
        sites: the pages of each collection.
        base: `/a` for annotators, `/admin` for the admin.
        method: GET or POST.
        path: the path after the token.
        handler: answers the request, in a thread.
    """

    async def answer(request: Request) -> Response:
        body = await read_body(request) if method == "POST" else {}

        def answer_in_thread() -> Response:
            token = request.path_params["token"]
            site, name = _site_of(sites, token, is_admin=base == "/admin")
            return _run(handler, LinkRequest(site, name, request, body))

        return await run_in_threadpool(answer_in_thread)

    return Route(f"{base}/{{token:str}}{path}", answer, methods=[method])


def _site_of(sites: Sequence[Pages], token: str, *, is_admin: bool) -> tuple[Pages, str]:
    """Return the pages of a token, and the name of the annotator; empty for the admin.

    Args:
        sites: the pages of each collection.
        token: secret part of a link.
        is_admin: whether the token must be the admin's, or else an annotator's.
    """
    for site in sites:
        if is_admin:
            if secrets.compare_digest(token.encode(), site.admin_token.encode()):
                return site, ""
            continue
        # The links are read at each request, because another process may change them.
        with site.collection.transaction():
            name = site.collection.name_of_token(token)
            is_revoked = name is not None and name in site.collection.study().revoked
        if is_revoked:
            raise HTTPException(403, REVOKED)
        if name is not None:
            return site, name
    raise HTTPException(404, NO_SUCH_LINK)


def _run(handler: Handler, request: LinkRequest) -> Response:
    """Run a handler; tell on the terminal when the store cannot be written, and when it can."""
    pages = request.pages
    if request.http.method != "POST":
        return handler(request)
    try:
        reply = handler(request)
    except StoreError as error:
        pages.note_fault("storing", f"no answer can be stored, pages keep theirs: {error}")
        raise
    # `/next` may return questions that are leased already, without writing to the store. So its
    # success does not show that the store can be written.
    if reply.status_code < 400 and not request.http.url.path.endswith("/next"):
        pages.note_fault("storing", "", ended="answers are stored again")
    return reply


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer with the reason why a request was refused, or with the message of an error."""
    if isinstance(error, HTTPException):
        why = error.detail
        if why == "Not Found":  # Starlette's message for a path without a route
            why = "There is no page at this address."
        return refusal(request, error.status_code, why, error.headers)
    if isinstance(error, StoreError):
        return refusal(request, 503, sentence(error))  # the pages send the request again later
    if isinstance(error, SortNetError):
        return refusal(request, 410 if isinstance(error, LeaseError) else 422, sentence(error))
    # After an unexpected exception, which uvicorn logs with its traceback.
    return refusal(request, 500, "This is an error of the server; it was logged there.")
