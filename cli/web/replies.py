"""Make responses: pages from templates, and refusals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response


def render_page(template: str, **facts: Any) -> HTMLResponse:
    """Make a page from a template; `facts` are the variables of the template."""
    return HTMLResponse(_templates().get_template(template).render(facts))


def render_tables(base: str, known: str | None, facts: dict[str, Any]) -> dict[str, Any]:
    """Render the tables of the admin page; return the HTML, the `study` facts, and a key of both.

    Args:
        base: the path of the page.
        known: the key of the tables that the page shows; if it is still the same, HTML and study
            are None.
        facts: the variables of the template.
    """
    html = _templates().get_template("tables.html").render(facts, base=base)
    study = facts["study"]
    key = hashlib.sha256(f"{study}{html}".encode()).hexdigest()
    if key == known:
        return {"key": key, "html": None, "study": None}
    return {"key": key, "html": html, "study": study}


def refusal(
    request: Request, code: int, why: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Render an error as HTML for navigation, as JSON for fetch()."""
    if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", ""):
        root = request.state.root
        heading = "No such page" if code == 404 else "That did not work"
        page = render_page("fault.html", heading=heading, text=why[:1].upper() + why[1:], root=root)
        page.status_code = code
        page.headers.update(headers or {})
        return page
    return JSONResponse({"error": why}, code, headers)


@cache
def _templates() -> Environment:
    loader = PackageLoader("cli.web")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
