"""`sortnet serve`: serve a page on which annotators label in a browser."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import click

from cli.options import Real, Whole, store_option
from cli.signals import ended_by_signals
from sortnet.errors import SortNetError
from store.service.existing_store import ITEMS_MAKER, open_existing

# A path may only have characters that neither a proxy nor a browser rewrites.
_PATH = re.compile(r"(/[\w.~-]+)*", re.ASCII)


def _checked_url(ctx: click.Context, param: click.Parameter, url: str | None) -> str | None:
    """Check the typed URL of the page, and return its origin and path as browsers send them."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # the host has brackets without an IPv6 address
        parts = urlsplit("")  # is refused below
    path = parts.path.rstrip("/")
    is_web_address = parts.scheme in ("http", "https") and parts.netloc
    has_plain_path = _PATH.fullmatch(path) and not parts.query and not parts.fragment
    if not is_web_address or not has_plain_path:
        raise click.BadParameter(
            f"{url[:60]!r} is not an address such as https://label.example.org or "
            "https://example.org/label"
        )
    return f"{parts.scheme}://{parts.netloc}".lower() + path


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0: all addresses.")
@click.option(
    "--port", type=Whole(0, 65535), default=8000, help="Port to listen on; 0: any free port."
)
@click.option(
    "--annotator", "annotators", multiple=True, metavar="ANA", help="Annotator to link; repeatable."
)
@click.option(
    "--lease",
    type=Real(1, 86400),
    default=600.0,
    help="Seconds for which a pair is reserved for the annotator it was shown to.",
)
@click.option(
    "--url",
    callback=_checked_url,
    help="Public address of a proxy, such as https://example.org/label",
)
@click.option(
    "--open", "browser", is_flag=True, help="Open the first link in this machine's browser."
)
@store_option
def serve(names: tuple[str, ...], store: str | None, **options: Any) -> None:
    """Serve a page on which annotators compare pairs of items of a collection NAME, or of several.

    Prints a secret link for each annotator, and for the admin page of each collection. The admin
    page shows the current ranking, how it converges and who disagrees; the question can be changed
    and links created there. Links stay valid across restarts. Ctrl-C stops the server; pages keep
    unsent answers until the next start.

    A proxy may pass on the path of --url or strip it.

    \b
    Examples:
      sortnet serve essays --annotator ana --annotator ben
      sortnet serve essays --port 0 --open
      sortnet serve essays answers --url https://example.org/label
    """
    _check_libraries()
    from cli.web.server import ServerOptions, serve_collections

    with open_existing(store, ITEMS_MAKER, write=True) as opened:
        serve_collections(opened, names, ServerOptions(**options), ended_by_signals())


def _check_libraries() -> None:
    """Raise SortNetError if a library that the page needs is not installed."""
    try:
        for library in ("starlette", "uvicorn"):
            import_module(library)
    except ImportError as error:
        raise SortNetError(f"the page needs {error.name}: pip install 'sortnet[web]'") from None
