"""The application and its routes: GET reads, POST changes, both need a token."""

from __future__ import annotations

import json
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
from cli.web.ranking_rows import SORTS, View
from cli.web.replies import drawn_page, refusal, tables_of
from sortnet.errors import JudgementError, LeaseError, SortNetError, StoreError
from sortnet.preference import ANSWERS, Answer, Judgement, Question
from sortnet.preference.base import LONGEST_COMMENT
from sortnet.preference.study import ABOUT_ONE, LONGEST, WORDS, Decision
from store.collections.collection_rows import LONGEST_NAME, is_name
from store.service.labelling import LabellingService

GIVEN = tuple(answer for answer in ANSWERS if answer != "undo")
WHOLE = ("quota", "overlap", "top")  # decisions with a whole number
LONGEST_MS = 24 * 3600 * 1000
NO_SUCH_LINK = (
    "This link is unknown. It may be incomplete, or belong to another collection: "
    "ask the person who sent it for a new one."
)
REVOKED = "This link was revoked: ask the person who sent it for a new one."
# Of the token's annotator, the request and its body.
Work: TypeAlias = Callable[[str, Request, dict[str, Any]], Response]


def make_app(
    sites: Sequence[tuple[Pages, People]],
    names: Names,
    origins: tuple[str, ...] = (),
    root: str = "",
    *,
    patience: float = PATIENCE,
) -> Guard:
    """The application of these collections' pages, for a server with these names: a `Guard`."""
    apps = [(people, _app_of(pages, people)) for pages, people in sites]

    async def by_token(scope: Scope, receive: Receive, send: Send) -> None:
        """The pages of the collection whose link it is; those of the first refuse what is none."""
        token = "".join(scope["path"][len(scope["root_path"]) :].split("/")[2:3])
        fits = (app for people, app in apps if people.know(token))
        await next(fits, apps[0][1])(scope, receive, send)

    return Guard(by_token, names, origins, root, patience=patience)


def _app_of(pages: Pages, people: People) -> Starlette:
    routes = [
        *_annotator_routes(pages, people),
        *_admin_routes(pages, people),
        Mount("/static", StaticFiles(packages=[("cli.web", "static")])),
    ]
    handlers: dict[Any, Any] = {HTTPException: _refused, Exception: _broken}
    handlers |= dict.fromkeys((SortNetError, LeaseError, JudgementError, StoreError), _fault)
    return Starlette(routes=routes, exception_handlers=handlers)


def _routes(
    base: str,
    who: Callable[[str], str | None],
    works: Mapping[tuple[str, str], Work],
    faults: FaultNotes,
) -> Iterator[Route]:
    """A route for each method and path below a token; `who` maps it to its annotator, or None."""
    rate = Rate()

    def behind_token(work: Work) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            token = request.path_params["token"]
            name = who(token)
            if name is None:
                raise HTTPException(404, NO_SUCH_LINK)
            if not rate.allows(token):
                raise HTTPException(429, "too many requests; slow down", {"Retry-After": "1"})
            body = await _body(request) if request.method == "POST" else {}
            return await run_in_threadpool(work, name, request, body)

        return answer

    for (method, path), work in works.items():
        # The next pairs may be leased already, so they say nothing about a store that was full.
        stores = method == "POST" and path != "/next"
        noted = _noted(faults, work, stores=stores) if method == "POST" else work
        yield Route(f"{base}/{{token:str}}{path}", behind_token(noted), methods=[method])


def _noted(faults: FaultNotes, work: Work, *, stores: bool) -> Work:
    """Tell on the server's terminal when the store takes nothing, and when it does again.

    `stores`: whether the work's success shows that the store takes something.
    """

    def noting(name: str, request: Request, body: dict[str, Any]) -> Response:
        try:
            reply = work(name, request, body)
        except StoreError as error:
            faults.begin("storing", f"no answer can be stored, pages keep theirs and wait: {error}")
            raise
        if stores and reply.status_code < 400:
            faults.end("storing", "answers are stored again")
        return reply

    return noting


def _annotator_routes(pages: Pages, people: People) -> Iterator[Route]:
    def who(token: str) -> str | None:
        name = people.name_of(token)
        if name in people.revoked:
            raise HTTPException(403, REVOKED)
        return name

    def page(name: str, request: Request, body: dict[str, Any]) -> Response:
        question = pages.question
        facts = {"collection": pages.collection.name, "annotator": name, "question": question}
        return drawn_page("page.html", **facts)

    def instructions(name: str, request: Request, body: dict[str, Any]) -> Response:
        return JSONResponse(pages.instructions)

    def next_pairs(name: str, request: Request, body: dict[str, Any]) -> Response:
        return JSONResponse(pages.next(name, _flag(body, "markdown")))

    def answer(name: str, request: Request, body: dict[str, Any]) -> Response:
        lease, criterion = _text(body, "lease", 100), _criterion(body)
        given = _text(body, "answer", 20)
        if given not in GIVEN:
            raise HTTPException(422, f"unknown answer {given!r}; known are {', '.join(GIVEN)}")
        facts, markdown = _facts(body), _flag(body, "markdown")
        places = _places(body, given)
        try:
            asked = pages.criteria.service_of(criterion).question(name, lease)
            judgement = _judgement(asked, name, given, places, facts)
            return JSONResponse(pages.answer(criterion, lease, judgement, markdown))
        except LeaseError as error:
            return JSONResponse({"error": _sentence(error), **pages.next(name, markdown)}, 410)

    def undo(name: str, request: Request, body: dict[str, Any]) -> Response:
        last = _checked(body, "last", _whole, "not the number of a judgement")
        markdown = _flag(body, "markdown")
        return JSONResponse(pages.undo(name, _criterion(body), last or 0, markdown))

    works: dict[tuple[str, str], Work] = {
        ("GET", ""): page,
        ("POST", "/next"): _unless_revoked(pages, next_pairs),
        ("POST", "/answer"): _unless_revoked(pages, answer),
        ("POST", "/undo"): _unless_revoked(pages, undo),
        ("GET", "/instructions"): instructions,
        ("GET", "/{kind:str}/{number:int}"): partial(_content, pages),
    }
    return _routes("/a", who, works, pages.faults)


def _unless_revoked(pages: Pages, work: Work) -> Work:
    """Refuse a link that was revoked elsewhere, which is known when the work is done."""

    def checked(name: str, request: Request, body: dict[str, Any]) -> Response:
        reply = work(name, request, body)
        if name in pages.services[0].study.revoked:
            raise HTTPException(403, REVOKED)
        return reply

    return checked


def _admin_routes(pages: Pages, people: People) -> Iterator[Route]:
    states = {each.collection.criterion: AdminState(each, people) for each in pages.services}

    def viewed(request: Request) -> AdminState:
        return _of(states, request.query_params.get("criterion"))

    def page(_: str, request: Request, body: dict[str, Any]) -> Response:
        facts = {"collection": pages.collection.name, "base": request.url.path}
        criteria = [name for name in states if name]
        return drawn_page("admin.html", **facts, criteria=criteria, people_heads=PEOPLE_HEADS)

    def state(_: str, request: Request, body: dict[str, Any]) -> Response:
        return JSONResponse(viewed(request).state(_view(request)))

    def tables(_: str, request: Request, body: dict[str, Any]) -> Response:
        known, base = request.query_params.get("known"), request.url.path.removesuffix("/tables")
        return JSONResponse(tables_of(base, known, viewed(request).shown(_view(request))))

    def add(_: str, request: Request, body: dict[str, Any]) -> Response:
        name = _text(body, "name", LONGEST_NAME)
        if not is_name(name):
            raise HTTPException(422, f"{name[:60]!r} has characters that cannot be read or typed")
        return JSONResponse({"name": name, "path": f"/a/{people.add(name)}"}, 201)

    def decide(_: str, request: Request, body: dict[str, Any]) -> Response:
        criterion, decision = _criterion(body), _decision(body, people)
        of_all = criterion is None and decision.kind not in ABOUT_ONE
        one = pages.collection if of_all else _of(states, criterion).service.collection
        made = one.decide(decision)
        for service in pages.services:
            service.sync()
        people.read()
        return JSONResponse({"number": made[0].number if made else None}, 201)

    def export(_: str, request: Request, body: dict[str, Any]) -> Response:
        return _export(viewed(request).service, request.path_params["file"])

    works: dict[tuple[str, str], Work] = {
        ("GET", ""): page,
        ("GET", "/state"): state,
        ("GET", "/tables"): tables,
        ("POST", "/annotators"): add,
        ("POST", "/decisions"): decide,
        ("GET", "/{kind:str}/{number:int}"): partial(_media, pages),
        ("GET", "/{file:str}"): export,
    }

    return _routes("/admin", people.admin_of, works, pages.faults)


def _of(states: Mapping[str | None, AdminState], criterion: str | None) -> AdminState:
    """The state of a criterion, by default of the first."""
    found = next(iter(states)) if criterion is None else criterion
    if found not in states:
        raise HTTPException(422, f"there is no criterion {str(found)[:60]!r}")
    return states[found]


def _export(service: LabellingService, file: str) -> Response:
    if file not in EXPORTS:
        raise HTTPException(404, f"there is no {file}; there are {', '.join(EXPORTS)}")
    kind, write = EXPORTS[file]
    saved = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(write(service), media_type=kind, headers=saved)


def _content(pages: Pages, name: str, request: Request, body: dict[str, Any]) -> Response:
    """A file or the whole of a text, of an item that the annotator was asked about."""
    kind, number, items = *_asked_for(request), pages.items
    if not pages.sees(name, number):
        raise HTTPException(404, f"there is no such {kind[:20]}")
    texts = {"text": items.texts, "context": items.contexts}.get(kind)
    if texts is None or number >= len(items):
        return _media(pages, name, request, body)
    if texts[number] is None:
        raise HTTPException(404, f"there is no such {kind}")
    return PlainTextResponse(texts[number], headers=downloads.HEADERS)


def _media(pages: Pages, _: str, request: Request, body: dict[str, Any]) -> Response:
    found = downloads.find_file(pages.items, *_asked_for(request))
    if found is None:
        raise HTTPException(404, "there is no such file")
    path, content_type = found
    return FileResponse(path, media_type=content_type, headers=downloads.HEADERS)


def _asked_for(request: Request) -> tuple[str, int]:
    return request.path_params["kind"], request.path_params["number"]


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body())
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise HTTPException(400, "the request is not a JSON object")
    return body


def _checked(body: dict[str, Any], name: str, fits: Callable[[Any], bool], what: str) -> Any:
    """A value of the body that fits, or None."""
    value = body.get(name)
    if value is not None and not fits(value):
        raise HTTPException(422, f"{name!r} is {what}")
    return value


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _text(body: dict[str, Any], name: str, longest: int) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        raise HTTPException(422, f"{name!r} is not a text of 1 to {longest} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        why = f"{name!r} has half of a character (a lone surrogate)"
        raise HTTPException(400, why) from None
    return value.strip()


def _criterion(body: dict[str, Any]) -> str | None:
    return None if body.get("criterion") is None else _text(body, "criterion", 200)


def _places(body: dict[str, Any], answer: str) -> tuple[int | None, int | None]:
    """The places of the best and the worst item, from 0; both None unless the answer is `best`."""
    best, worst = (
        _checked(body, name, _whole, "not the number of a place") for name in ("best", "worst")
    )
    if answer != "best" and (best, worst) != (None, None):
        raise HTTPException(422, f"the answer {answer!r} has no 'best' and no 'worst'")
    if answer == "best" and best is None:
        raise HTTPException(422, "the answer 'best' needs a place as 'best'")
    if best is not None and best == worst:
        raise HTTPException(422, f"place {best} cannot be the best and the worst")
    return best, worst


def _judgement(
    asked: Question,
    annotator: str,
    answer: str,
    places: tuple[int | None, int | None],
    facts: dict[str, Any],
) -> Judgement:
    """An answer as a judgement, with the places of the best and the worst item."""
    best, worst = places
    if best is None:
        return asked.answered(annotator, cast(Answer, answer), **facts)
    return asked.answered_by_place(annotator, best, worst, **facts)


def _decision(body: dict[str, Any], people: People) -> Decision:
    """A decision as the page sends it; what it is about is checked by the collection."""
    kind = _text(body, "kind", 20)
    facts: dict[str, Any] = {"kind": kind}
    for name, longest in (("annotator", LONGEST_NAME), ("reason", LONGEST.get(kind, 500))):
        if body.get(name) is not None and not (kind in WORDS and body[name] == ""):
            facts[name] = _text(body, name, longest)
    if facts.get("annotator") not in (None, *people.tokens):
        raise HTTPException(422, f"there is no annotator {facts['annotator'][:60]!r}")
    for name in ("item", "other"):
        facts[name] = _checked(body, name, _whole, "not a whole number from 0 on")
    if kind in WHOLE:
        facts["amount"] = _checked(body, "amount", _whole, "not a whole number from 0 on")
    else:
        facts["amount"] = _checked(body, "amount", _number, "not a number from 0 on")
    return Decision(**facts)


def _number(value: Any) -> bool:
    return _whole(value) or (type(value) is float and 0 <= value < 2**53)


def _view(request: Request) -> View:
    """The rows of the ranking that a page asks for: ?find=TEXT&sort=-score&page=2."""
    asked = request.query_params
    sort, page = asked.get("sort", "rank"), asked.get("page", "1")
    if sort.removeprefix("-") not in SORTS:
        raise HTTPException(422, f"the ranking is sorted by {', '.join(SORTS)}")
    if not page.isdecimal() or not 0 < len(page) < 8:
        raise HTTPException(422, "'page' is not a whole number from 1 on")
    find, down = asked.get("find", "")[:200], sort.startswith("-")
    return View(find, sort.removeprefix("-"), down, max(int(page), 1))


def _flag(body: dict[str, Any], name: str) -> bool:
    return bool(_checked(body, name, lambda value: type(value) is bool, "neither true nor false"))


def _facts(body: dict[str, Any]) -> dict[str, Any]:
    """What a judgement holds besides the answer; a comment without what no database keeps."""
    text = body.get("comment") or ""
    if not isinstance(text, str) or len(text) > LONGEST_COMMENT:
        raise HTTPException(422, f"'comment' is not a text of at most {LONGEST_COMMENT} characters")
    comment = text.replace("\0", "").encode(errors="replace").decode().strip() or None
    # An invalid time measured by a page must not lose the answer.
    took: Any = body.get("milliseconds")
    known = type(took) in (int, float) and 0 <= took <= LONGEST_MS
    flagged = _flag(body, "flagged") or None
    return {"milliseconds": int(took) if known else None, "comment": comment, "flagged": flagged}


def _sentence(error: Exception) -> str:
    words = " ".join(str(error).split())
    return words[:1].upper() + words[1:] + ("" if words.endswith(".") else ".")


async def _refused(request: Request, error: HTTPException) -> Response:
    why = "There is no page at this address." if error.detail == "Not Found" else error.detail
    return refusal(request, error.status_code, why, error.headers)


async def _fault(request: Request, error: SortNetError) -> Response:
    code = 503 if isinstance(error, StoreError) else 410 if isinstance(error, LeaseError) else 422
    return refusal(request, code, _sentence(error))


async def _broken(request: Request, error: Exception) -> Response:
    # uvicorn logs the traceback.
    return refusal(request, 500, "This is an error of the server; it was logged there.")
