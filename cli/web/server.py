"""Serve the pages of collections until a signal ends the process."""

from __future__ import annotations

import errno
import gc
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import click
import uvicorn

from cli.console import put, say
from cli.signals import signals_handled
from cli.web.app import make_app
from cli.web.guard import Guard
from cli.web.pages import Pages
from sortnet.errors import SortNetError
from sortnet.messages import printable
from store import Collection, Store

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # addresses that only this machine can reach
EVERYWHERE = ("0.0.0.0", "::")  # addresses that stand for all addresses of this machine
# Seconds for which a fit may hold the interpreter while somebody answers. An answer is stored in
# about fifty database calls, and each call may wait for the interpreter.
_SWITCH_INTERVAL = 0.0005
READ_EVERY = 1.0  # seconds between two reads of the store
MOST_CONNECTIONS = 1000  # more connections are answered with 503, after which pages try again


class _Server(uvicorn.Server):
    """A server of uvicorn that ends in an orderly way after SIGHUP, too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop the server at a signal, which uvicorn would raise again when it has stopped."""

        def stop(number: int, frame: object) -> None:
            self.should_exit = True

        with signals_handled(stop, "SIGINT", "SIGTERM", "SIGHUP"):
            yield


def make_server(app: Guard) -> uvicorn.Server:
    """Make a server for the application; the server logs only its own errors."""
    config = uvicorn.Config(
        app,
        http="h11",
        log_config=None,
        log_level="error",
        access_log=False,  # the addresses contain secret tokens
        server_header=False,
        date_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=1,
    )
    return _Server(config)


@contextmanager
def keep_up_to_date(
    sites: Sequence[Pages], *, before_read: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Read judgements of other processes and keep the models fitted, until the `with` block ends.

    A background thread does this.

    Args:
        sites: the pages of each collection.
        before_read: called before each read of the store.
    """
    stopped = threading.Event()
    thread = threading.Thread(target=_read_and_fit, args=(sites, before_read, stopped), daemon=True)
    thread.start()
    # Judgements and libraries live as long as the server, so the garbage collector need not look at
    # these objects. A pass over them would stop all answers for some tenths of a second.
    gc.freeze()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        gc.unfreeze()
        stopped.set()
        thread.join(timeout=1)  # a longer fit is not awaited: it has no side effects


def _read_and_fit(
    sites: Sequence[Pages], before_read: Callable[[], None], stopped: threading.Event
) -> None:
    """Read judgements and fit the models until `stopped` is set.

    An error is printed once, and reading and fitting are tried again later.
    """
    seconds = 0.0  # time until the next read
    while not stopped.wait(seconds):
        seconds = READ_EVERY
        before_read()
        for pages in sites:
            try:
                for service in pages.services:
                    service.sync()
                    service.keep_fitted()
                faults = [service.fault for service in pages.services if service.fault]
            except Exception as error:  # no error may end the thread: answers must be fitted later
                faults = [f"{type(error).__name__}: {error}"]
                seconds = 5 * READ_EVERY
            fault = next(iter(faults), "")
            pages.note_fault("keeping up", fault, ended="answers are read and fitted again")


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
        is_bare_ipv6 = ":" in host and not host.startswith("[")
        return f"http://[{host}]:{port}" if is_bare_ipv6 else f"http://{host}:{port}"

    @property
    def hosts(self) -> set[str]:
        """The host names by which browsers may address the server."""
        is_everywhere = self.host in EVERYWHERE
        hosts = {self.host.lower(), urlsplit(self.url or "").hostname or self.host.lower()}
        if is_everywhere or self.host in LOOPBACK:
            hosts.update(LOOPBACK)
        if is_everywhere:
            hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        return hosts


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
        with signals as received, ExitStack() as stack:
            for collection in collections:
                stack.enter_context(collection.serving())
            sites = [Pages(collection, lease_seconds=options.lease) for collection in collections]
            for pages in sites:
                for annotator in options.annotators:
                    pages.collection.annotator(annotator)
            port = listening.getsockname()[1]
            _announce(sites, options, options.address(port))
            url = urlsplit(options.url or "")
            app = make_app(
                sites,
                options.hosts,
                any_address=options.host in EVERYWHERE,
                origin=f"{url.scheme}://{url.netloc}" if options.url else None,
                root=url.path,
            )
            server = make_server(app)
            lost: list[Collection] = []

            def end_if_signalled_or_lost() -> None:
                with suppress(SortNetError):  # the store is away for now, and nothing is known
                    lost.extend(each for each in collections if not each.is_still_mine())
                if received or lost:
                    server.should_exit = True

            with keep_up_to_date(sites, before_read=end_if_signalled_or_lost):
                server.run(sockets=[listening])
            if lost:
                fault = "was removed, or another process serves it now"
                raise SortNetError(f"collection {lost[0].name!r} {fault}")
            store.database.check_file()  # raises an error if the file with the answers was removed
    served = ", ".join(repr(collection.name) for collection in collections)
    say(f"no longer serving {served}; the links will work again at the next start")


def _announce(sites: Sequence[Pages], options: ServerOptions, address: str) -> None:
    """Print the links of people, with a warning if others can reach them; open the first if asked.

    Programs and language models are asked by `sortnet label`, and need no links.
    """
    annotators_of_sites = []
    for pages in sites:
        models = pages.collection.study().models
        people = [person for person in pages.collection.annotators() if person.name not in models]
        annotators_of_sites.append(people)
    for pages, annotators in zip(sites, annotators_of_sites, strict=True):
        prefix = f"{printable(pages.collection.name)}, " if len(sites) > 1 else ""
        revoked = pages.collection.study().revoked
        for annotator in annotators:
            name = f"{prefix}{printable(annotator.name)}"
            if annotator.name in revoked:
                say(f"{name}: link revoked; sortnet annotators revoke --undo makes a new one")
            else:
                put(f"{name}: {address}/a/{annotator.token}")
        put(f"{prefix}admin: {address}/admin/{pages.admin_token}")
    if not all(annotators_of_sites):
        say("no annotator has a link yet: create one on the admin page, or with --annotator NAME")
    if options.is_public:
        say("WARNING: others can reach this server. The links are its only protection: anyone who")
        say("has one can answer, and with the admin link see and add everything.")
    if options.is_public and address.startswith("http:"):
        say("WARNING: over plain http the links can be read on the way, and slow clients can block")
        say("the server. Put an https proxy in front of it (--url), or use a trusted network.")
    say("Ctrl-C stops the server")
    if options.browser and annotators_of_sites[0]:
        click.launch(f"{address}/a/{annotators_of_sites[0][0].token}")


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
        code = error.errno if isinstance(error, OSError) else None
        fault = f"cannot listen on port {port}: {os.strerror(code) if code else error}"
        if code == errno.EADDRINUSE:
            fault = f"port {port} is in use: choose another with --port, or 0 for any"
        elif code == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror | UnicodeError):
            fault = f"--host {host!r} is not an address of this machine"
        raise SortNetError(fault) from None
    with listening:
        yield listening
