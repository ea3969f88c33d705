"""Answer the requests of the labelling page, which an annotator opens by a secret link."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from cli.web import downloads
from cli.web.downloads import file_response, kind_and_number
from cli.web.pages import Pages, People
from cli.web.replies import render_page, sentence
from cli.web.request_values import criterion_in, flag_in, sent_answer_in, whole_number_in
from cli.web.token_routes import Handler, LinkRequest, routes_behind_token
from sortnet.errors import LeaseError

REVOKED = "This link was revoked: ask the person who sent it for a new one."


class AnnotatorHandlers:
    """Handlers of the requests of one collection's labelling page.

    Args:
        pages: the labelling pages of the collection.
        people: the links of the collection.
    """

    def __init__(self, pages: Pages, people: People) -> None:
        self._pages = pages
        self._people = people

    def routes(self) -> Iterator[Route]:
        """Make the routes, whose paths begin with `/a/TOKEN`."""
        handlers: dict[tuple[str, str], Handler] = {
            ("GET", ""): self._page,
            ("POST", "/next"): self._unless_revoked(self._next_questions),
            ("POST", "/answer"): self._unless_revoked(self._answer),
            ("POST", "/undo"): self._unless_revoked(self._undo),
            ("GET", "/instructions"): self._instructions,
            ("GET", "/{kind:str}/{number:int}"): self._content,
        }
        return routes_behind_token("/a", self._name_of, handlers, self._pages.faults)

    def _name_of(self, token: str) -> str | None:
        """Return the name of the token's annotator; refuse a link that was revoked."""
        name = self._people.name_of(token)
        if name in self._people.revoked:
            raise HTTPException(403, REVOKED)
        return name

    def _unless_revoked(self, handler: Handler) -> Handler:
        """Wrap a handler, so that it refuses a link that was revoked.

        Another process may have revoked the link. Only the handler reads the decisions of other
        processes, so the link is checked after the handler was called.
        """

        def handle(request: LinkRequest) -> Response:
            reply = handler(request)
            if request.name in self._pages.services[0].study.revoked:
                raise HTTPException(403, REVOKED)
            return reply

        return handle

    def _page(self, request: LinkRequest) -> Response:
        """Reply with the labelling page, which then requests its questions."""
        return render_page(
            "page.html",
            collection=self._pages.collection.name,
            annotator=request.name,
            question=self._pages.question,
        )

    def _instructions(self, request: LinkRequest) -> Response:
        return JSONResponse(self._pages.instructions)

    def _next_questions(self, request: LinkRequest) -> Response:
        return JSONResponse(self._pages.next(request.name, flag_in(request.body, "markdown")))

    def _answer(self, request: LinkRequest) -> Response:
        """Store an answer; if the lease is lost, reply with the reason and other questions."""
        answer = sent_answer_in(request.body)
        try:
            service = self._pages.service_of(answer.criterion)
            question = service.question(request.name, answer.lease)
            judgement = answer.judgement(question, request.name)
            reply = self._pages.answer(answer.criterion, answer.lease, judgement, answer.markdown)
        except LeaseError as error:
            next_questions = self._pages.next(request.name, answer.markdown)
            return JSONResponse({"error": sentence(error), **next_questions}, 410)
        return JSONResponse(reply)

    def _undo(self, request: LinkRequest) -> Response:
        """Undo the annotator's last answer, if it is the answer that the page names."""
        number = whole_number_in(request.body, "last", "not the number of a judgement")
        markdown = flag_in(request.body, "markdown")
        criterion = criterion_in(request.body)
        if number is None:
            number = 0  # no judgement has this number, so nothing is undone
        return JSONResponse(self._pages.undo(request.name, criterion, number, markdown))

    def _content(self, request: LinkRequest) -> Response:
        """Reply with a file or the full text of an item that the annotator was asked about."""
        kind, number = kind_and_number(request.http)
        items = self._pages.items
        if not self._pages.sees(request.name, number):
            raise HTTPException(404, f"there is no such {kind[:20]}")
        texts = {"text": items.texts, "context": items.contexts}.get(kind)
        # Images and sounds are files. `file_response` also refuses a request for an item that does
        # not exist.
        if texts is None or number >= len(items):
            return file_response(items, kind, number)
        text = texts[number]
        if text is None:
            raise HTTPException(404, f"there is no such {kind}")
        return PlainTextResponse(text, headers=downloads.HEADERS)
