"""Answer the requests of the admin page, which the admin opens by a secret link."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from cli.web.admin_state import PEOPLE_HEADS
from cli.web.pages import LinkRequest
from cli.web.replies import EXPORTS, content_kind, file_response, render, render_page
from cli.web.request_values import criterion_in, decision_in, text_in, view_in
from sortnet.preference.study import ABOUT_ONE
from store.collections.collection_rows import LONGEST_NAME, is_name


def show_page(request: LinkRequest) -> Response:
    """Reply with the admin page, which then requests its tables."""
    return render_page(
        "admin.html",
        collection=request.pages.collection.name,
        base=request.http.url.path,
        criteria=[criterion for criterion in request.pages.states if criterion],
        people_heads=PEOPLE_HEADS,
    )


def show_state(request: LinkRequest) -> Response:
    """Reply with the facts of the page as JSON."""
    return JSONResponse(request.admin_state.state(view_in(request.http)))


def show_tables(request: LinkRequest) -> Response:
    """Reply with the tables of the page as HTML, and with the `study` that its forms show."""
    base = request.http.url.path.removesuffix("/tables")
    variables = request.admin_state.template_variables(view_in(request.http))
    html = render("tables.html", base=base, **variables)
    return JSONResponse({"html": html, "study": variables["study"]})


def add_annotator(request: LinkRequest) -> Response:
    """Create an annotator, and reply with the path of the annotator's link."""
    name = text_in(request.body, "name", longest=LONGEST_NAME)
    if not is_name(name):
        raise HTTPException(422, f"{name[:60]!r} has characters that cannot be read or typed")
    path = f"/a/{request.pages.collection.annotator(name).token}"
    return JSONResponse({"name": name, "path": path}, 201)


def store_decision(request: LinkRequest) -> Response:
    """Store the admin's decision, and reply with its number.

    A request that names no criterion is about all criteria. But a kind of decision that must be
    about a single criterion is about the first criterion then.

    The number is None if nothing was stored, because the decision was stored before. A decision
    that is stored for several criteria has a number in each; the reply has the first number.
    """
    pages = request.pages
    criterion = criterion_in(request.body)
    collection = pages.collection
    names = [annotator.name for annotator in collection.annotators()]
    decision = decision_in(request.body, names)
    if criterion is not None or decision.kind in ABOUT_ONE:
        collection = pages.state_of(criterion).service.collection
    stored_decisions = collection.decide(decision)
    pages.sync()  # so that all pages follow the decision at once
    number = stored_decisions[0].number if stored_decisions else None
    return JSONResponse({"number": number}, 201)


def show_file(request: LinkRequest) -> Response:
    """Reply with the image or sound of an item."""
    return file_response(request.pages.items, *content_kind(request.http))


def export(request: LinkRequest) -> Response:
    """Reply with a file of the ranking or of the judgements, as a download."""
    service = request.admin_state.service
    file = request.http.path_params["file"]
    if file not in EXPORTS:
        raise HTTPException(404, f"there is no {file}; there are {', '.join(EXPORTS)}")
    media_type, write = EXPORTS[file]
    headers = {"Content-Disposition": f'attachment; filename="{file}"'}
    return Response(write(service), media_type=media_type, headers=headers)


# (method, path after `/admin/TOKEN`, handler)
HANDLERS = [
    ("GET", "", show_page),
    ("GET", "/state", show_state),
    ("GET", "/tables", show_tables),
    ("POST", "/annotators", add_annotator),
    ("POST", "/decisions", store_decision),
    ("GET", "/{kind:str}/{number:int}", show_file),
    ("GET", "/{file:str}", export),
]
