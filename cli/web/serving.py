"""Serve the pages of collections until a signal ends the process."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import click

from cli.console import say
from cli.printing.labelling import Links, print_links
from cli.web.app import make_app
from cli.web.guard import Guard, Names
from cli.web.pages import Pages, People
from cli.web.server import keep_up_to_date, make_server
from sortnet.errors import SortNetError
from store import Collection, Store
from store.collections.server_claim import ServerClaim

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # addresses that only this machine can reach
EVERYWHERE = ("0.0.0.0", "::")  # addresses that stand for all addresses of this machine


@dataclass(frozen=True)
class ServerOptions:
    """Options of a server.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0: any free port.
        annotators: names of annotators who get a link; unknown annotators are created.
        lease: seconds for which a question is reserved for an annotator.
        url: public address of a proxy in front of the server; None: there is no proxy.
        browser: whether to open the first link in this machine's browser.
    """

    host: str
    port: int
    annotators: Sequence[str]
    lease: float
    url: str | None
    browser: bool

    @property
    def is_public(self) -> bool:
        """Whether other machines can reach the server."""
        return self.host not in LOOPBACK or bool(self.url)

    def address(self, port: int) -> str:
        """Return the address with which all links begin.

        Args:
            port: the port that the server listens on.
        """
        if self.url:
            return self.url
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        return f"http://{_in_url(host)}:{port}"

    def names(self, port: int) -> Names:
        """Return the host names by which browsers may address the server.

        Args:
            port: the port that the server listens on.
        """
        is_everywhere = self.host in EVERYWHERE
        hosts = {self.host}
        if is_everywhere or self.host in LOOPBACK:
            hosts = {*LOOPBACK, "[::1]"}
        if is_everywhere:
            hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        names = {f"{_in_url(host)}:{port}" for host in hosts}
        if port == 80:  # browsers leave out the default port of HTTP
            names |= hosts
        if self.url:
            names.add(urlsplit(self.url).netloc)
        return Names(frozenset(names), any_address=is_everywhere)


def serve_collections(
    store: Store,
    names: Sequence[str],
    options: ServerOptions,
    signals: AbstractContextManager[Sequence[int]],
) -> None:
    """Serve the pages of collections until a signal ends the server.

    Args:
        store: the store of the collections.
        names: the names of the collections.
        options: the options of the server.
        signals: collects the numbers of the signals that come while the pages are served.

    Raises:
        SortNetError: if the port cannot be used, a collection has nothing to compare or is
            served by another process, or a collection is removed meanwhile.
    """
    with _listening(options.host, options.port) as listening:
        collections = [store.collection(name) for name in dict.fromkeys(names)]
        _check_items(collections)
        with signals as received, ExitStack() as stack:
            claims = {
                collection.name: stack.enter_context(collection.serving())
                for collection in collections
            }
            sites = [_site(stack, collection, options) for collection in collections]
            port = listening.getsockname()[1]
            _announce(sites, options, options.address(port))
            server = make_server(_app(sites, options, port))

            def end_if_signalled_or_lost() -> None:
                is_lost = any(claim.lost.is_set() for claim in claims.values())
                if received or is_lost:
                    server.should_exit = True

            with keep_up_to_date(sites, before_read=end_if_signalled_or_lost):
                server.run(sockets=[listening])
            _refuse_lost(claims)
    served = ", ".join(repr(collection.name) for collection in collections)
    say(f"no longer serving {served}; the links will work again at the next start")


def _check_items(collections: Sequence[Collection]) -> None:
    """Raise SortNetError if a collection has fewer than two items."""
    for collection in collections:
        if len(collection.items()) < 2:
            fault = "has fewer than two items: nothing to compare"
            raise SortNetError(f"collection {collection.name!r} {fault}")


def _site(stack: ExitStack, collection: Collection, options: ServerOptions) -> tuple[Pages, People]:
    """Make the pages of a collection, and the links to the pages.

    The annotators in the options get links.

    Args:
        stack: closes the pages when the stack is closed.
    """
    pages = Pages(
        collection,
        lease_seconds=options.lease,
        record=True,
    )
    stack.enter_context(closing(pages))
    people = People(collection)
    for annotator in options.annotators:
        people.add(annotator)
    return pages, people


def _announce(sites: Sequence[tuple[Pages, People]], options: ServerOptions, address: str) -> None:
    """Print the links, and open the first link in a browser if `options.browser` is set."""
    links = [
        Links(pages.collection.name, people.tokens, people.revoked, people.admin)
        for pages, people in sites
    ]
    print_links(address, links, is_public=options.is_public)
    if options.browser:
        first_token = next(iter(links[0].tokens.values()), "")
        click.launch(f"{address}/a/{first_token}")


def _app(sites: Sequence[tuple[Pages, People]], options: ServerOptions, port: int) -> Guard:
    """Make the web application, which also answers at the public address of a proxy."""
    if not options.url:
        return make_app(sites, options.names(port))
    url = urlsplit(options.url)
    origin = f"{url.scheme}://{url.netloc}"
    return make_app(sites, options.names(port), origins=(origin,), root=url.path)


def _refuse_lost(claims: Mapping[str, ServerClaim]) -> None:
    """Raise SortNetError if this process may not serve a collection any more.

    Args:
        claims: {name of a collection: this process's claim to serve it}.
    """
    for name, claim in claims.items():
        if claim.lost.is_set():
            raise SortNetError(f"collection {name!r} was removed, or another process serves it now")


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    """Open a socket that listens on a host and a port, and close it after the `with` block.

    Raises:
        SortNetError: if the host or the port cannot be used.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        dual_stack = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        listening = socket.create_server(
            address, family=family, backlog=1024, dualstack_ipv6=dual_stack
        )
    except (OSError, UnicodeError) as error:
        raise SortNetError(_listening_fault(error, host, port)) from None
    with listening:
        yield listening


def _listening_fault(error: OSError | UnicodeError, host: str, port: int) -> str:
    """Return the reason why the server cannot listen on a host and a port."""
    code = error.errno if isinstance(error, OSError) else None
    if code == errno.EADDRINUSE:
        return f"port {port} is in use: choose another with --port, or 0 for any"
    if code == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror | UnicodeError):
        return f"--host {host!r} is not an address of this machine"
    reason = os.strerror(code) if code else error
    return f"cannot listen on port {port}: {reason}"


def _in_url(host: str) -> str:
    """Write a host for a URL: an IPv6 address is put in brackets."""
    is_bare_ipv6 = ":" in host and not host.startswith("[")
    return f"[{host}]" if is_bare_ipv6 else host
