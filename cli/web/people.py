"""Access to the pages: a secret link for each annotator, and one for the admin."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store import Collection

ADMIN = "admin_token"  # name of the setting of the collection


class People:
    """The links of a collection, stored so that they survive a restart."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self.admin: str = collection.setting(ADMIN, secrets.token_urlsafe(24))
        self.read()

    def read(self) -> None:
        """Read annotators that were added elsewhere."""
        self._names = {who.token: who.name for who in self._collection.annotators()}

    @property
    def tokens(self) -> dict[str, str]:
        """{name: token} of all annotators."""
        return {name: token for token, name in self._names.items()}

    def name_of(self, token: str) -> str | None:
        """The annotator with that token, or None."""
        return self._names.get(token)

    def is_admin(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.admin.encode())

    def add(self, name: str) -> str:
        """The token of an annotator, who is created if the name is new."""
        with self._lock:
            token = self._collection.annotator(name).token
            self.read()
        return token
