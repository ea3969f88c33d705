"""`sortnet serve`: the labelling page, in a browser."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from cli.inputs.opened_store import open_collection
from cli.options import Whole, lease_option, store_option
from cli.output import printable, put, say
from cli.terminal.signals import ended_by_signals
from sortnet.errors import SortNetError

if TYPE_CHECKING:
    from cli.web.guard import Names
    from cli.web.page_service import People

LOOPBACK, EVERYWHERE = ("127.0.0.1", "localhost", "::1"), ("0.0.0.0", "::")


def _origin(ctx: click.Context, param: click.Parameter, url: str | None) -> str | None:
    """Validate the URL and reduce it to its origin, as browsers send it."""
    if url is None:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:  # brackets without an address
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise click.BadParameter(f"{url!r} is not an address such as https://label.example.org")
    return f"{parts.scheme}://{parts.netloc}".lower()


@click.command()
@click.argument("name")
@click.option(
    "--host",
    default="127.0.0.1",
    help="Address to listen on; 0.0.0.0: all addresses of this machine.",
)
@click.option(
    "--port", type=Whole(0, 65535), default=8000, help="Port to listen on; 0: any free port."
)
@click.option(
    "--annotator",
    "annotators",
    multiple=True,
    metavar="ANA",
    help="Annotator who gets a link; repeatable.",
)
@lease_option
@click.option(
    "--url",
    callback=_origin,
    help="Public address of a reverse proxy, such as https://label.example.org",
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
    name: str,
    host: str,
    port: int,
    annotators: Sequence[str],
    lease: float,
    url: str | None,
    together: bool,
    browser: bool,
    store: str | None,
) -> None:
    """Serve a page on which annotators compare pairs of items of the collection NAME.

    Prints a secret link for each annotator and one for the admin page, which shows the current
    ranking, the answer rate and the agreement, and creates new links. Links stay valid across
    restarts. Ctrl-C stops the server; pages keep unsent answers until the next start.

    \b
    Examples:
      sortnet serve essays --annotator ana --annotator ben
      sortnet serve essays --port 0 --open
      sortnet serve essays --host 0.0.0.0 --url https://label.example.org
    """
    try:
        for needed in ("starlette", "uvicorn"):
            import_module(needed)
    except ImportError as error:
        raise SortNetError(f"the page needs {error.name}: pip install 'sortnet[web]'") from None
    from cli.web.app import make_app
    from cli.web.page_service import People, page_service
    from cli.web.server import kept_up, make_server

    with (
        open_collection(store, name, write=True) as collection,
        _listening(host, port) as listening,
    ):
        if len(collection.items()) < 2:
            raise SortNetError(f"collection {name!r} has fewer than two items: nothing to compare")
        with (
            ended_by_signals() as came,
            collection.serving() as claim,
            closing(
                page_service(collection, together=together, lease_seconds=lease, record=True)
            ) as pages,
        ):
            people = People(collection)
            for who in annotators:
                people.add(who)
            port = listening.getsockname()[1]
            shown = socket.gethostname() if host in EVERYWHERE else host
            base = url or f"http://{_in_url(shown)}:{port}"
            app = make_app(pages, people, _names(host, port, url), (url,) if url else ())
            open_to_others = host not in LOOPBACK or bool(url)
            _say_links(base, people, people.revoked, others=open_to_others)
            if browser:
                click.launch(f"{base}/a/{next(iter(people.tokens.values()), '')}")
            server = make_server(app)

            def end_if_lost() -> None:
                server.should_exit |= claim.lost.is_set() or bool(came)

            with kept_up(pages, people, also=end_if_lost):
                server.run(sockets=[listening])
            if claim.lost.is_set():
                raise SortNetError(
                    f"collection {name!r} was removed, or another process serves it now"
                )
    say(f"no longer serving {name!r}; the links will work again at the next start")


def _say_links(base: str, people: People, revoked: Container[str], *, others: bool) -> None:
    for who, token in people.tokens.items():
        if who in revoked:
            say(f"{printable(who)}: link revoked; sortnet annotators renew makes a new one")
        else:
            put(f"{printable(who)}: {base}/a/{token}")
    put(f"admin: {base}/admin/{people.admin}")
    if not people.tokens:
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
    if url:
        named.add(urlsplit(url).netloc)
    return Names(frozenset(named), any_address=everywhere)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
