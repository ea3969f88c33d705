"""`sortnet serve`: the labelling page, in a browser."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from cli.options import Whole, lease_option, store_option
from cli.output import put, say
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError
from sortnet.messages import printable
from store.service.existing_store import ITEMS_MAKER, open_existing

if TYPE_CHECKING:
    from cli.web.guard import Names
    from cli.web.pages import Pages, People
    from store import Collection

LOOPBACK, EVERYWHERE = ("127.0.0.1", "localhost", "::1"), ("0.0.0.0", "::")
_PATH = re.compile(r"(/[\w.~-]+)*", re.ASCII)  # nothing that a proxy or a browser would rewrite


def _public(ctx: click.Context, param: click.Parameter, url: str | None) -> str | None:
    """Validate the URL and reduce it to its origin, as browsers send it, and its path."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets without an address
        parts = urlsplit("")
    path = parts.path.rstrip("/")
    plain = _PATH.fullmatch(path) and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not parts.netloc or not plain:
        raise click.BadParameter(
            f"{url[:60]!r} is not an address such as https://label.example.org or "
            "https://example.org/label"
        )
    return f"{parts.scheme}://{parts.netloc}".lower() + path


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0: all of this machine."
)
@click.option(
    "--port", type=Whole(0, 65535), default=8000, help="Port to listen on; 0: any free port."
)
@click.option(
    "--annotator", "annotators", multiple=True, metavar="ANA", help="Who gets a link; repeatable."
)
@lease_option
@click.option(
    "--url", callback=_public, help="Public address of a proxy, such as https://example.org/label"
)
@click.option(
    "--together",
    is_flag=True,
    help="Ask each pair by all criteria before the next pair; default: one criterion after the "
    "other.",
)
@click.option(
    "--open", "browser", is_flag=True, help="Open the first link in this machine's browser."
)
@store_option
def serve(
    names: Sequence[str],
    host: str,
    port: int,
    annotators: Sequence[str],
    lease: float,
    url: str | None,
    together: bool,
    browser: bool,
    store: str | None,
) -> None:
    """Serve a page on which annotators compare pairs of items of a collection NAME, or of several.

    Prints a secret link for each annotator and one for the admin page, which shows the current
    ranking, how it converges and who disagrees, changes the question and creates new links; each
    collection has its own. Links stay valid across restarts. Ctrl-C stops the server; pages keep
    unsent answers until the next start.

    A proxy may pass the path of --url on or strip it.

    \b
    Examples:
      sortnet serve essays --annotator ana --annotator ben
      sortnet serve essays --port 0 --open
      sortnet serve essays letters --url https://example.org/label
    """
    try:
        for needed in ("starlette", "uvicorn"):
            import_module(needed)
    except ImportError as error:
        raise SortNetError(f"the page needs {error.name}: pip install 'sortnet[web]'") from None
    from cli.web.app import make_app
    from cli.web.server import kept_up, make_server

    with (
        open_existing(store, ITEMS_MAKER, write=True) as opened,
        _listening(host, port) as listening,
    ):
        collections = [opened.collection(name) for name in dict.fromkeys(names)]
        for collection in collections:
            if len(collection.items()) < 2:
                fault = "has fewer than two items: nothing to compare"
                raise SortNetError(f"collection {collection.name!r} {fault}")
        with ended_by_signals() as came, ExitStack() as stack:
            claims = [(each.name, stack.enter_context(each.serving())) for each in collections]
            asked = {"together": together, "lease_seconds": lease, "record": True}
            sites = [_site(stack, each, annotators, **asked) for each in collections]
            port = listening.getsockname()[1]
            shown = socket.gethostname() if host in EVERYWHERE else host
            base = url or f"http://{_in_url(shown)}:{port}"
            _say_links(base, sites, others=host not in LOOPBACK or bool(url))
            if browser:
                click.launch(f"{base}/a/{next(iter(sites[0][1].tokens.values()), '')}")
            parts = urlsplit(url or "")
            origins = (f"{parts.scheme}://{parts.netloc}",) if url else ()
            server = make_server(make_app(sites, _names(host, port, url), origins, parts.path))

            def end_if_lost() -> None:
                lost = any(claim.lost.is_set() for _, claim in claims)
                server.should_exit |= lost or bool(came)

            with kept_up(sites, also=end_if_lost):
                server.run(sockets=[listening])
            for name, claim in claims:
                if claim.lost.is_set():
                    raise SortNetError(
                        f"collection {name!r} was removed, or another process serves it now"
                    )
    said = ", ".join(repr(collection.name) for collection in collections)
    say(f"no longer serving {said}; the links will work again at the next start")


def _site(
    stack: ExitStack, collection: Collection, annotators: Sequence[str], **asked: Any
) -> tuple[Pages, People]:
    """The pages of a collection, closed with the stack, and its links, these annotators' too."""
    from cli.web.pages import People, pages_of
    from sortnet.preference.fit_process import FitProcess

    call = stack.enter_context(closing(FitProcess()))
    pages = stack.enter_context(closing(pages_of(collection, call=call, **asked)))
    people = People(collection)
    for who in annotators:
        people.add(who)
    return pages, people


def _say_links(base: str, sites: Sequence[tuple[Pages, People]], *, others: bool) -> None:
    for pages, people in sites:
        of = f"{printable(pages.collection.name)}, " if len(sites) > 1 else ""
        for who, token in people.tokens.items():
            if who in people.revoked:
                renew = "link revoked; sortnet annotators revoke makes a --undo new one"
                say(f"{of}{printable(who)}: {renew}")
            else:
                put(f"{of}{printable(who)}: {base}/a/{token}")
        put(f"{of}admin: {base}/admin/{people.admin}")
    if not all(people.tokens for _, people in sites):
        say("no annotator has a link yet: create one on the admin page, or with --annotator NAME")
    if others:
        say("WARNING: others can reach this server. The links are its only protection: anyone who")
        say("has one can answer, and with the admin link see and add everything.")
    if others and base.startswith("http:"):
        say("WARNING: over plain http the links can be read on the way. Put an https proxy in")
        say("front of the server (--url), or use a trusted network.")
    say("Ctrl-C stops the server")


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        made = socket.create_server(address, family=family, backlog=1024, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        code = error.errno if isinstance(error, OSError) else None
        if code == errno.EADDRINUSE:
            fault = f"port {port} is in use: choose another with --port, or 0 for any"
        elif code == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror | UnicodeError):
            fault = f"--host {host!r} is not an address of this machine"
        else:
            fault = f"cannot listen on port {port}: {os.strerror(code) if code else error}"
        raise SortNetError(fault) from None
    with made:
        yield made


def _names(host: str, port: int, url: str | None) -> Names:
    from cli.web.guard import Names

    everywhere = host in EVERYWHERE
    hosts = {*LOOPBACK, "[::1]"} if everywhere or host in LOOPBACK else {host}
    if everywhere:
        hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    named = {f"{_in_url(each)}:{port}" for each in hosts} | (hosts if port == 80 else set())
    named |= {urlsplit(url).netloc} if url else set()
    return Names(frozenset(named), any_address=everywhere)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
