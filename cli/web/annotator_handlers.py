"""Answer the requests of the labelling page, which an annotator opens by a secret link."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response

from cli.web.pages import LinkRequest
from cli.web.replies import HEADERS, content_kind, file_response, render_page, sentence
from cli.web.request_values import criterion_in, flag_in, judgement_in, number_in, text_in
from sortnet.errors import LeaseError


def show_page(request: LinkRequest) -> Response:
    """Reply with the labelling page, which then requests its questions."""
    pages = request.pages
    return render_page(
        "page.html",
        collection=pages.collection.name,
        annotator=request.name,
        question=pages.question,
    )


def show_instructions(request: LinkRequest) -> Response:
    return JSONResponse(request.pages.instructions)


def next_questions(request: LinkRequest) -> Response:
    return JSONResponse(request.pages.next(request.name, flag_in(request.body, "markdown")))


def store_answer(request: LinkRequest) -> Response:
    """Store an answer; if the lease is lost, reply with the reason and other questions."""
    pages = request.pages
    body = request.body
    lease = text_in(body, "lease", longest=100)
    criterion = criterion_in(body)
    markdown = flag_in(body, "markdown")
    try:
        question = pages.state_of(criterion).service.collection.question(lease)
        judgement = judgement_in(body, question, request.name)
        return JSONResponse(pages.answer(criterion, lease, judgement, markdown))
    except LeaseError as error:
        reply = {"error": sentence(error), **pages.next(request.name, markdown)}
        return JSONResponse(reply, 410)


def undo_answer(request: LinkRequest) -> Response:
    """Undo the annotator's last answer, if it is the answer that the page names."""
    number = number_in(request.body, "last") or 0  # no judgement has the number 0
    markdown = flag_in(request.body, "markdown")
    criterion = criterion_in(request.body)
    return JSONResponse(request.pages.undo(request.name, criterion, number, markdown))


def show_content(request: LinkRequest) -> Response:
    """Reply with a file or the full text of an item that the annotator was asked about."""
    kind, number = content_kind(request.http)
    pages = request.pages
    items = pages.items
    if not pages.sees(request.name, number):
        raise HTTPException(404, f"there is no such {kind[:20]}")
    texts = {"text": items.texts, "context": items.contexts}.get(kind)
    # Images and sounds are files. `file_response` also refuses a request for an item that does not
    # exist.
    if texts is None or number >= len(items):
        return file_response(items, kind, number)
    text = texts[number]
    if text is None:
        raise HTTPException(404, f"there is no such {kind}")
    return PlainTextResponse(text, headers=HEADERS)


# (method, path after `/a/TOKEN`, handler)
HANDLERS = [
    ("GET", "", show_page),
    ("POST", "/next", next_questions),
    ("POST", "/answer", store_answer),
    ("POST", "/undo", undo_answer),
    ("GET", "/instructions", show_instructions),
    ("GET", "/{kind:str}/{number:int}", show_content),
]
