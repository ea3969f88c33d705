"""Make responses: pages from templates, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response


def render_page(template: str, **facts: Any) -> HTMLResponse:
    """Render a page from a template; `facts` are the variables of the template."""
    return HTMLResponse(render(template, **facts))


def render(template: str, **facts: Any) -> str:
    """Render a template; `facts` are its variables."""
    return _templates().get_template(template).render(facts)


def refusal(
    request: Request, code: int, why: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Make the response to a refused request: HTML for navigation, JSON for fetch().

    Args:
        code: the status code.
        why: the reason of the refusal.
        headers: further headers of the response.
    """
    accepts_html = "text/html" in request.headers.get("accept", "")
    if request.method not in ("GET", "HEAD") or not accepts_html:
        return JSONResponse({"error": why}, code, headers)
    heading = "No such page" if code == 404 else "That did not work"
    text = why[:1].upper() + why[1:]
    page = render_page("fault.html", heading=heading, text=text, root=request.state.root)
    page.status_code = code
    page.headers.update(headers or {})
    return page


def sentence(error: Exception) -> str:
    """Write the message of an error as a sentence, with a capital letter and a full stop."""
    message = " ".join(str(error).split())
    if not message.endswith("."):
        message = f"{message}."
    return message[:1].upper() + message[1:]


@cache
def _templates() -> Environment:
    """Return the templates of the pages, which escape HTML and refuse undefined variables."""
    loader = PackageLoader("cli.web")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
