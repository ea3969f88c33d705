"""Pages of a collection with their links, and a request that came by one of the links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cli.web.admin_state import AdminState
from cli.web.pages import Pages, People


@dataclass(frozen=True)
class Site:
    """Pages of a collection.

    Attributes:
        pages: operations behind the pages.
        people: the links of the annotators and of the admin.
    """

    pages: Pages
    people: People

    @cached_property
    def states(self) -> dict[str | None, AdminState]:
        """{criterion: state of its admin page}; without criteria the key is None."""
        return {
            service.collection.criterion: AdminState(service, self.people)
            for service in self.pages.services
        }

    def state_of(self, criterion: str | None) -> AdminState:
        """Return the state of a criterion; None stands for the first criterion."""
        if criterion is None:
            return next(iter(self.states.values()))
        if criterion not in self.states:
            raise HTTPException(422, f"there is no criterion {criterion[:60]!r}")
        return self.states[criterion]


@dataclass(frozen=True)
class LinkRequest:
    """A request that came by a secret link.

    Attributes:
        site: the pages that the link belongs to.
        name: the name of the annotator whom the link belongs to; empty for the admin's link.
        http: the request, with its path and its query parameters.
        body: the JSON of the request's body; empty for a GET request.
    """

    site: Site
    name: str
    http: Request
    body: dict[str, Any]

    @property
    def admin_state(self) -> AdminState:
        """The state of the criterion that the query parameters name."""
        return self.site.state_of(self.http.query_params.get("criterion"))


Handler: TypeAlias = Callable[[LinkRequest], Response]
