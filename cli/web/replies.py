"""Make responses: pages from templates, refusals, images and sounds of items, and exports."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response

from cli.printing.results import Result, text_of
from sortnet.errors import DataError
from sortnet.files import rows_of
from sortnet.items import Items
from sortnet.items.base import inside
from sortnet.items.images import clean_image
from sortnet.tables.roles import AUDIO, IMAGES
from store.collections.judgement_files import ExportForm, export_judgements
from store.service.collection_items import ranking_frame
from store.service.labelling import LabellingService

# {suffix: content type} for the sounds of items. Browsers never execute such files.
_TYPES = {
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".m4a": "audio/mp4",
}
_SIDE = 4096  # pixels: the largest width and height of an image, which the page can zoom
HEADERS = {
    # Even a file that is opened directly in the browser must not run scripts.
    "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
    "Cache-Control": "private, max-age=3600",
}


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
    page = render_page("fault.html", heading=heading, text=sentence(why), root=request.state.root)
    page.status_code = code
    page.headers.update(headers or {})
    return page


def sentence(text: object) -> str:
    """Write a text, or the message of an error, with a capital letter and a full stop."""
    message = " ".join(str(text).split())
    if not message.endswith("."):
        message = f"{message}."
    return message[:1].upper() + message[1:]


@cache
def _templates() -> Environment:
    """Return the templates of the pages, which escape HTML and refuse undefined variables."""
    loader = PackageLoader("cli.web")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined)


def file_response(items: Items, kind: str, number: int) -> Response:
    """Reply with the image or sound of an item; refuse the request if there is no such file.

    A file that is missing, has another type, or lies outside the items' folder once all links are
    followed, is refused, too. An image is cleaned, as for models: no annotator gets the place where
    a photo was taken.

    Args:
        items: all items.
        kind: `image` or `sound`; anything else is refused.
        number: number of the item.
    """
    # {kind: (the file of each item, the allowed suffixes)}
    kinds = {"image": (items.images, IMAGES), "sound": (items.audio, AUDIO)}
    if kind not in kinds or items.root is None or number >= len(items):
        raise HTTPException(404, "there is no such file")
    files, suffixes = kinds[kind]
    try:
        root = items.root.resolve(strict=True)
        file = files[number] or ""  # an empty name is refused
        path = root / inside(root, file, kind, suffixes)
        if kind == "sound":
            return FileResponse(path, media_type=_TYPES[path.suffix.lower()], headers=HEADERS)
        image, media_type = clean_image(path, "the image", side=_SIDE)
    except (DataError, OSError, RuntimeError):
        raise HTTPException(404, "there is no such file") from None
    return Response(image, media_type=media_type, headers=HEADERS)


def content_kind(request: Request) -> tuple[str, int]:
    """Return the kind of content and the number of the item that the path of a request names."""
    return request.path_params["kind"], request.path_params["number"]


def _ranking(service: LabellingService, form: str) -> str:
    """Write the current ranking as `csv` or `json`; before the first fit it has no rows."""
    frame = ranking_frame(service.ranking, service.items)
    if not service.is_fitted:
        frame = frame.head(0)
    return text_of(Result("ranking", rows_of(frame), csv=frame), form)


def _judgements(service: LabellingService, form: ExportForm) -> str:
    """Write all judgements of the service's collection, or of its criterion."""
    text = io.StringIO(newline="")
    export_judgements(service.collection, text, form)
    return text.getvalue()


# {name of the file: (content type, function that writes the content for a service)}
EXPORTS = {
    "ranking.csv": ("text/csv", partial(_ranking, form="csv")),
    "ranking.json": ("application/json", partial(_ranking, form="json")),
    "judgements.csv": ("text/csv", partial(_judgements, form="csv")),
    "judgements.jsonl": ("application/x-ndjson", partial(_judgements, form="jsonl")),
}
