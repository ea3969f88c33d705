"""The secret links by which annotators and the admin of a collection open its pages."""

from __future__ import annotations

import secrets

from store import Collection

ADMIN = "admin_token"  # the setting of a collection that holds the admin's token


class People:
    """Annotators and admin of a collection, who open its pages by secret links.

    The secret part of a link is a token, which the store keeps. It tells who opens the page. The
    links are read at each request, because another process may change them.

    Attributes:
        admin: the token of the admin.
    """

    def __init__(self, collection: Collection) -> None:
        """Read the admin's token, which is created if there is none."""
        self._collection = collection
        self.admin: str = collection.setting(ADMIN, secrets.token_urlsafe(24))

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens of all annotators, {name: token}."""
        return {annotator.name: annotator.token for annotator in self._collection.annotators()}

    @property
    def revoked(self) -> set[str]:
        """The names of annotators whose link was revoked."""
        return set(self._collection.study().revoked)

    def name_of(self, token: str) -> str | None:
        """Return the name of the annotator with the given token; None if there is none."""
        return next((name for name, stored in self.tokens.items() if stored == token), None)

    def is_admin(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.admin.encode())

    def add(self, name: str) -> str:
        """Create an annotator if the name is new, and return the annotator's token."""
        return self._collection.annotator(name).token
