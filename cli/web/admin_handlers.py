"""Answer the requests of the admin page, which the admin opens by a secret link."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cli.web.admin_state import PEOPLE_HEADS, AdminState
from cli.web.downloads import EXPORTS, file_response, kind_and_number
from cli.web.pages import Pages, People
from cli.web.replies import render_page, render_tables
from cli.web.request_values import criterion_in, decision_in, text_in, view_in
from cli.web.token_routes import Handler, LinkRequest, routes_behind_token
from sortnet.preference.study import ABOUT_ONE, Decision
from store.collections.collection import Collection
from store.collections.collection_rows import LONGEST_NAME, is_name


class AdminHandlers:
    """Handlers of the requests of one collection's admin page.

    Args:
        pages: the labelling pages of the collection.
        people: the links of the collection.
    """

    def __init__(self, pages: Pages, people: People) -> None:
        self._pages = pages
        self._people = people
        # {criterion: state of its page}; a collection without criteria has the key None.
        self._states = {
            service.collection.criterion: AdminState(service, people) for service in pages.services
        }

    def routes(self) -> Iterator[Route]:
        """Make the routes, whose paths begin with `/admin/TOKEN`."""
        handlers: dict[tuple[str, str], Handler] = {
            ("GET", ""): self._page,
            ("GET", "/state"): self._state,
            ("GET", "/tables"): self._tables,
            ("POST", "/annotators"): self._add_annotator,
            ("POST", "/decisions"): self._decide,
            ("GET", "/{kind:str}/{number:int}"): self._file_of_item,
            ("GET", "/{file:str}"): self._export,
        }
        return routes_behind_token("/admin", self._people.admin_of, handlers, self._pages.faults)

    def _page(self, request: LinkRequest) -> Response:
        """Reply with the admin page, which then requests its tables."""
        return render_page(
            "admin.html",
            collection=self._pages.collection.name,
            base=request.http.url.path,
            criteria=[criterion for criterion in self._states if criterion],
            people_heads=PEOPLE_HEADS,
        )

    def _state(self, request: LinkRequest) -> Response:
        """Reply with the facts of the page as JSON."""
        state = self._requested_state(request.http)
        return JSONResponse(state.state(view_in(request.http)))

    def _tables(self, request: LinkRequest) -> Response:
        """Reply with the tables of the page, unless the page shows these tables already."""
        base = request.http.url.path.removesuffix("/tables")
        state = self._requested_state(request.http)
        variables = state.template_variables(view_in(request.http))
        key_of_shown_tables = request.http.query_params.get("known")
        return JSONResponse(render_tables(base, key_of_shown_tables, variables))

    def _add_annotator(self, request: LinkRequest) -> Response:
        """Create an annotator, and reply with the path of the annotator's link."""
        name = text_in(request.body, "name", longest=LONGEST_NAME)
        if not is_name(name):
            raise HTTPException(422, f"{name[:60]!r} has characters that cannot be read or typed")
        return JSONResponse({"name": name, "path": f"/a/{self._people.add(name)}"}, 201)

    def _decide(self, request: LinkRequest) -> Response:
        """Store the admin's decision, and reply with its number.

        The number is None if nothing was stored, because the decision was stored before. A decision
        that is stored for several criteria has a number in each; the reply has the first number.
        """
        criterion = criterion_in(request.body)
        decision = decision_in(request.body, self._people.tokens)
        collection = self._collection_to_decide_for(criterion, decision)
        stored_decisions = collection.decide(decision)
        self._show_stored_decisions()
        number = stored_decisions[0].number if stored_decisions else None
        return JSONResponse({"number": number}, 201)

    def _collection_to_decide_for(self, criterion: str | None, decision: Decision) -> Collection:
        """Return the criterion that a decision is about, or the collection with all its criteria.

        Args:
            criterion: name of the criterion that the request names; None if it names none. Then the
                decision is about all criteria. But a kind of decision that must be about a single
                criterion is about the first criterion.
            decision: the decision.
        """
        must_be_about_one = decision.kind in ABOUT_ONE
        if criterion is None and not must_be_about_one:
            return self._pages.collection
        return self._state_of(criterion).service.collection

    def _show_stored_decisions(self) -> None:
        """Read the stored decisions and the links again, so that all pages follow them at once."""
        self._pages.sync()
        self._people.read()

    def _file_of_item(self, request: LinkRequest) -> Response:
        """Reply with the image or sound of an item."""
        kind, number = kind_and_number(request.http)
        return file_response(self._pages.items, kind, number)

    def _export(self, request: LinkRequest) -> Response:
        """Reply with a file of the ranking or of the judgements, as a download."""
        service = self._requested_state(request.http).service
        file = request.http.path_params["file"]
        if file not in EXPORTS:
            raise HTTPException(404, f"there is no {file}; there are {', '.join(EXPORTS)}")
        media_type, write = EXPORTS[file]
        headers = {"Content-Disposition": f'attachment; filename="{file}"'}
        return Response(write(service), media_type=media_type, headers=headers)

    def _requested_state(self, request: Request) -> AdminState:
        """Return the state of the criterion that the query parameters of a request name."""
        return self._state_of(request.query_params.get("criterion"))

    def _state_of(self, criterion: str | None) -> AdminState:
        """Return the state of a criterion; None stands for the first criterion."""
        if criterion is None:
            return next(iter(self._states.values()))
        if criterion not in self._states:
            raise HTTPException(422, f"there is no criterion {criterion[:60]!r}")
        return self._states[criterion]
