"""Print the links to the pages of collections, and warnings about who can use the links."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from cli.console import put, say
from sortnet.messages import printable

_REVOKED = "link revoked; sortnet annotators revoke --undo makes a new one"


class Links(NamedTuple):
    """The secret parts of the links to the pages of a collection.

    Attributes:
        collection: name of the collection.
        tokens: {annotator: secret part of the annotator's link}.
        revoked: annotators whose link is revoked.
        admin: secret part of the link to the admin page.
    """

    collection: str
    tokens: Mapping[str, str]
    revoked: Collection[str]
    admin: str


def print_links(address: str, links: Sequence[Links], *, is_public: bool) -> None:
    """Print a line for each link, and a warning on stderr if other machines can reach the server.

    Args:
        address: address of the server, with which all links start.
        links: the links of each collection.
        is_public: whether other machines can reach the server.
    """
    for links_of_collection in links:
        name = printable(links_of_collection.collection)
        prefix = f"{name}, " if len(links) > 1 else ""
        _print_links_of_collection(address, links_of_collection, prefix)
    if not all(links_of_collection.tokens for links_of_collection in links):
        say("no annotator has a link yet: create one on the admin page, or with --annotator NAME")
    if is_public:
        say("WARNING: others can reach this server. The links are its only protection: anyone who")
        say("has one can answer, and with the admin link see and add everything.")
    if is_public and address.startswith("http:"):
        say("WARNING: over plain http the links can be read on the way, and slow clients can block")
        say("the server. Put an https proxy in front of it (--url), or use a trusted network.")
    say("Ctrl-C stops the server")


def _print_links_of_collection(address: str, links: Links, prefix: str) -> None:
    """Print the link of each annotator and of the admin; each line begins with the prefix."""
    for annotator, token in links.tokens.items():
        if annotator in links.revoked:
            say(f"{prefix}{printable(annotator)}: {_REVOKED}")
        else:
            put(f"{prefix}{printable(annotator)}: {address}/a/{token}")
    put(f"{prefix}admin: {address}/admin/{links.admin}")
