"""Make the web application and its routes: GET reads, POST changes; both need a token."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cli.web import downloads
from cli.web.admin_state import PEOPLE_HEADS, AdminState
from cli.web.downloads import EXPORTS
from cli.web.fault_notes import FaultNotes
from cli.web.guard import PATIENCE, Guard, Names, Rate, Receive, Scope, Send
from cli.web.pages import Pages, People
from cli.web.replies import refusal, render_page, render_tables
from cli.web.request_values import (
    answer_in,
    criterion_in,
    decision_in,
    facts_in,
    flag_in,
    places_in,
    read_body,
    text_in,
    view_in,
    whole_number_in,
)
from sortnet.errors import LeaseError, SortNetError, StoreError
from sortnet.preference import Answer, Judgement, Question
from sortnet.preference.study import ABOUT_ONE
from store.collections.collection_rows import LONGEST_NAME, is_name
from store.service.labelling import LabellingService

NO_SUCH_LINK = (
    "This link is unknown. It may be incomplete, or belong to another collection: "
    "ask the person who sent it for a new one."
)
REVOKED = "This link was revoked: ask the person who sent it for a new one."
# A function that answers a request. Its arguments are the name of the token's annotator, the
# request, and the JSON of the request's body.
Handler: TypeAlias = Callable[[str, Request, dict[str, Any]], Response]


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
        *_annotator_routes(pages, people),
        *_admin_routes(pages, people),
        Mount("/static", StaticFiles(packages=[("cli.web", "static")])),
    ]
    handlers: dict[Any, Any] = {
        HTTPException: _refusal_response,
        SortNetError: _error_response,
        Exception: _bug_response,
    }
    return Starlette(routes=routes, exception_handlers=handlers)


def _routes(
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

    def behind_token(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Make an endpoint that checks the token and the rate before a thread runs the handler."""

        async def answer(request: Request) -> Response:
            """Check the token and the rate of its requests, and run the handler in a thread."""
            token = request.path_params["token"]
            name = name_of(token)
            if name is None:
                raise HTTPException(404, NO_SUCH_LINK)
            if not rate.allows(token):
                raise HTTPException(429, "too many requests; slow down", {"Retry-After": "1"})
            body = await read_body(request) if request.method == "POST" else {}
            return await run_in_threadpool(handler, name, request, body)

        return answer

    for (method, path), handler in handlers.items():
        if method == "POST":
            # `/next` may return questions that are leased already, without writing to the store. So
            # its success does not show that the store can be written.
            handler = _with_fault_notes(faults, handler, writes=path != "/next")
        yield Route(f"{base}/{{token:str}}{path}", behind_token(handler), methods=[method])


def _with_fault_notes(faults: FaultNotes, handler: Handler, *, writes: bool) -> Handler:
    """Wrap a handler, so that it prints when the store cannot be written, and when it can again.

    Args:
        faults: prints a fault once, and its end.
        handler: the handler to wrap.
        writes: whether a success of the handler shows that the store can be written.
    """

    def handle(name: str, request: Request, body: dict[str, Any]) -> Response:
        """Call the handler, and print a note if the store has failed or works again."""
        try:
            reply = handler(name, request, body)
        except StoreError as error:
            faults.begin("storing", f"no answer can be stored, pages keep theirs and wait: {error}")
            raise
        if writes and reply.status_code < 400:
            faults.end("storing", "answers are stored again")
        return reply

    return handle


def _annotator_routes(pages: Pages, people: People) -> Iterator[Route]:
    """Make the routes of the labelling page, which begin with `/a/TOKEN`."""

    def name_of(token: str) -> str | None:
        """Return the name of the token's annotator; refuse a link that was revoked."""
        name = people.name_of(token)
        if name in people.revoked:
            raise HTTPException(403, REVOKED)
        return name

    def page(name: str, request: Request, body: dict[str, Any]) -> Response:
        question = pages.question
        facts = {"collection": pages.collection.name, "annotator": name, "question": question}
        return render_page("page.html", **facts)

    def instructions(name: str, request: Request, body: dict[str, Any]) -> Response:
        return JSONResponse(pages.instructions)

    def next_pairs(name: str, request: Request, body: dict[str, Any]) -> Response:
        return JSONResponse(pages.next(name, flag_in(body, "markdown")))

    def answer(name: str, request: Request, body: dict[str, Any]) -> Response:
        """Store an answer; if the lease is lost, reply with the reason and other questions."""
        lease = text_in(body, "lease", longest=100)
        criterion = criterion_in(body)
        chosen = answer_in(body)
        facts = facts_in(body)
        markdown = flag_in(body, "markdown")
        places = places_in(body, chosen)
        try:
            question = pages.criteria.service_of(criterion).question(name, lease)
            judgement = _judgement(question, name, chosen, places, facts)
            return JSONResponse(pages.answer(criterion, lease, judgement, markdown))
        except LeaseError as error:
            return JSONResponse({"error": _sentence(error), **pages.next(name, markdown)}, 410)

    def undo(name: str, request: Request, body: dict[str, Any]) -> Response:
        last = whole_number_in(body, "last", "not the number of a judgement")
        markdown = flag_in(body, "markdown")
        return JSONResponse(pages.undo(name, criterion_in(body), last or 0, markdown))

    handlers: dict[tuple[str, str], Handler] = {
        ("GET", ""): page,
        ("POST", "/next"): _unless_revoked(pages, next_pairs),
        ("POST", "/answer"): _unless_revoked(pages, answer),
        ("POST", "/undo"): _unless_revoked(pages, undo),
        ("GET", "/instructions"): instructions,
        ("GET", "/{kind:str}/{number:int}"): partial(_content, pages),
    }
    return _routes("/a", name_of, handlers, pages.faults)


def _unless_revoked(pages: Pages, handler: Handler) -> Handler:
    """Wrap a handler, so that it refuses a link that was revoked.

    Another process may have revoked the link. Only the handler reads the decisions of other
    processes, so the link is checked after the handler was called.
    """

    def handle(name: str, request: Request, body: dict[str, Any]) -> Response:
        reply = handler(name, request, body)
        if name in pages.services[0].study.revoked:
            raise HTTPException(403, REVOKED)
        return reply

    return handle


def _admin_routes(pages: Pages, people: People) -> Iterator[Route]:
    """Make the routes of the admin page, which begin with `/admin/TOKEN`."""
    # {criterion: state of its page}; a collection without criteria has the key None.
    states = {
        service.collection.criterion: AdminState(service, people) for service in pages.services
    }

    def requested_state(request: Request) -> AdminState:
        return _state_of(states, request.query_params.get("criterion"))

    def page(_: str, request: Request, body: dict[str, Any]) -> Response:
        return render_page(
            "admin.html",
            collection=pages.collection.name,
            base=request.url.path,
            criteria=[name for name in states if name],
            people_heads=PEOPLE_HEADS,
        )

    def state(_: str, request: Request, body: dict[str, Any]) -> Response:
        return JSONResponse(requested_state(request).state(view_in(request)))

    def tables(_: str, request: Request, body: dict[str, Any]) -> Response:
        base = request.url.path.removesuffix("/tables")
        variables = requested_state(request).template_variables(view_in(request))
        return JSONResponse(render_tables(base, request.query_params.get("known"), variables))

    def add(_: str, request: Request, body: dict[str, Any]) -> Response:
        """Create an annotator, and reply with the path of the annotator's link."""
        name = text_in(body, "name", longest=LONGEST_NAME)
        if not is_name(name):
            raise HTTPException(422, f"{name[:60]!r} has characters that cannot be read or typed")
        return JSONResponse({"name": name, "path": f"/a/{people.add(name)}"}, 201)

    def decide(_: str, request: Request, body: dict[str, Any]) -> Response:
        """Store a decision about one criterion, or about all of them."""
        criterion = criterion_in(body)
        decision = decision_in(body, people.tokens)
        if criterion is None and decision.kind not in ABOUT_ONE:
            collection = pages.collection  # the decision is about all criteria
        else:
            collection = _state_of(states, criterion).service.collection
        decisions = collection.decide(decision)
        pages.sync()
        people.read()
        number = decisions[0].number if decisions else None  # None: it was stored before
        return JSONResponse({"number": number}, 201)

    def export(_: str, request: Request, body: dict[str, Any]) -> Response:
        return _export(requested_state(request).service, request.path_params["file"])

    handlers: dict[tuple[str, str], Handler] = {
        ("GET", ""): page,
        ("GET", "/state"): state,
        ("GET", "/tables"): tables,
        ("POST", "/annotators"): add,
        ("POST", "/decisions"): decide,
        ("GET", "/{kind:str}/{number:int}"): partial(_media, pages),
        ("GET", "/{file:str}"): export,
    }
    return _routes("/admin", people.admin_of, handlers, pages.faults)


def _state_of(states: Mapping[str | None, AdminState], criterion: str | None) -> AdminState:
    """Return the state of a criterion; None stands for the first criterion."""
    if criterion is None:
        return next(iter(states.values()))
    if criterion not in states:
        raise HTTPException(422, f"there is no criterion {criterion[:60]!r}")
    return states[criterion]


def _export(service: LabellingService, file: str) -> Response:
    """Answer with a file of the ranking or of the judgements, as a download."""
    if file not in EXPORTS:
        raise HTTPException(404, f"there is no {file}; there are {', '.join(EXPORTS)}")
    media_type, write = EXPORTS[file]
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(write(service), media_type=media_type, headers=headers)


def _content(pages: Pages, name: str, request: Request, body: dict[str, Any]) -> Response:
    """Answer with a file or the full text of an item that the annotator was asked about."""
    kind, number = _kind_and_number(request)
    items = pages.items
    if not pages.sees(name, number):
        raise HTTPException(404, f"there is no such {kind[:20]}")
    texts = {"text": items.texts, "context": items.contexts}.get(kind)
    # Images and sounds are files. `_media` also refuses a request for an item that does not exist.
    if texts is None or number >= len(items):
        return _media(pages, name, request, body)
    if texts[number] is None:
        raise HTTPException(404, f"there is no such {kind}")
    return PlainTextResponse(texts[number], headers=downloads.HEADERS)


def _media(pages: Pages, _: str, request: Request, body: dict[str, Any]) -> Response:
    """Answer with the image or sound of an item; refuse the request if there is no such file."""
    kind, number = _kind_and_number(request)
    file = downloads.find_file(pages.items, kind, number)
    if file is None:
        raise HTTPException(404, "there is no such file")
    path, media_type = file
    return FileResponse(path, media_type=media_type, headers=downloads.HEADERS)


def _kind_and_number(request: Request) -> tuple[str, int]:
    """Return the kind of content and the number of the item that a path names."""
    return request.path_params["kind"], request.path_params["number"]


def _judgement(
    question: Question,
    annotator: str,
    answer: str,
    places: tuple[int | None, int | None],
    facts: dict[str, Any],
) -> Judgement:
    """Make a judgement of the answer that a page sends.

    Args:
        places: the places of the best and the worst item, from 0; each may be None.
        facts: the time, the comment and the flag.
    """
    best, worst = places
    if best is None:
        return question.answered(annotator, cast(Answer, answer), **facts)
    return question.answered_by_place(annotator, best, worst, **facts)


def _sentence(error: Exception) -> str:
    """Write the message of an error as a sentence, with a capital letter and a full stop."""
    message = " ".join(str(error).split())
    if not message.endswith("."):
        message = f"{message}."
    return message[:1].upper() + message[1:]


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
    return refusal(request, code, _sentence(error))


async def _bug_response(request: Request, error: Exception) -> Response:
    """Answer after an unexpected exception, which uvicorn logs with its traceback."""
    return refusal(request, 500, "This is an error of the server; it was logged there.")
