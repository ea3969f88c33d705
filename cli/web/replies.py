"""Pages and refusals as responses."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response


def drawn_page(template: str, **facts: Any) -> HTMLResponse:
    """A page made of a template."""
    return HTMLResponse(_templates().get_template(template).render(facts))


def tables_of(base: str, known: str | None, facts: dict[str, Any]) -> dict[str, Any]:
    """What the admin page shows as HTML, and `study`; both None if `known` is the key of that."""
    html = _templates().get_template("tables.html").render(facts, base=base)
    key = hashlib.sha256(f"{facts['study']}{html}".encode()).hexdigest()
    new = key != known
    return {"key": key, "html": html if new else None, "study": facts["study"] if new else None}


def refusal(
    request: Request, code: int, why: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Render an error as HTML for navigation, as JSON for fetch()."""
    if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", ""):
        root = request.state.root
        heading = "No such page" if code == 404 else "That did not work"
        made = drawn_page("fault.html", heading=heading, text=why[:1].upper() + why[1:], root=root)
        made.status_code = code
        made.headers.update(headers or {})
        return made
    return JSONResponse({"error": why}, code, headers)


@cache
def _templates() -> Environment:
    loader = PackageLoader("cli.web")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
