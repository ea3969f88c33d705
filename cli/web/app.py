"""Make the web application and its routes: GET reads, POST changes; both need a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from cli.web.admin_handlers import AdminHandlers
from cli.web.annotator_handlers import AnnotatorHandlers
from cli.web.guard import PATIENCE, Guard, Names, Receive, Scope, Send
from cli.web.pages import Pages, People
from cli.web.replies import refusal, sentence
from sortnet.errors import LeaseError, SortNetError, StoreError


def make_app(
    sites: Sequence[tuple[Pages, People]],
    names: Names,
    origins: tuple[str, ...] = (),
    root: str = "",
    *,
    patience: float = PATIENCE,
) -> Guard:
    """Make the web application for the pages of collections, behind a guard.

    Args:
        sites: the pages and the links of each collection.
        names: the host names by which browsers may address the server.
        origins: further allowed values of the Origin header, such as the address of a proxy.
        root: path of the pages' public address.
        patience: seconds within which a request must arrive.
    """
    apps = [(people, _app_of(pages, people)) for pages, people in sites]

    async def by_token(scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application that knows the link, or to the first application."""
        path = scope["path"].removeprefix(scope["root_path"])  # such as /a/TOKEN/next
        parts = path.split("/")
        token = parts[2] if len(parts) > 2 else ""
        _, chosen_app = apps[0]
        for people, app in apps:
            if people.knows(token):
                chosen_app = app
                break
        await chosen_app(scope, receive, send)

    return Guard(by_token, names, origins, root, patience=patience)


def _app_of(pages: Pages, people: People) -> Starlette:
    """Make the web application of one collection."""
    routes = [
        *AnnotatorHandlers(pages, people).routes(),
        *AdminHandlers(pages, people).routes(),
        Mount("/static", StaticFiles(packages=[("cli.web", "static")])),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _refusal_response,
        SortNetError: _error_response,
        Exception: _bug_response,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


async def _refusal_response(request: Request, error: HTTPException) -> Response:
    """Answer with the reason why a request was refused."""
    why = error.detail
    if why == "Not Found":  # Starlette's message for a path without a route
        why = "There is no page at this address."
    return refusal(request, error.status_code, why, error.headers)


async def _error_response(request: Request, error: SortNetError) -> Response:
    """Answer with the message of an error, and with the status code of its type."""
    code = 422
    if isinstance(error, StoreError):
        code = 503  # the pages send the request again later
    elif isinstance(error, LeaseError):
        code = 410
    return refusal(request, code, sentence(error))


async def _bug_response(request: Request, error: Exception) -> Response:
    """Answer after an unexpected exception, which uvicorn logs with its traceback."""
    return refusal(request, 500, "This is an error of the server; it was logged there.")
