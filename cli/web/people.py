"""Who may come in: a secret link for each annotator, and one for who watches."""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store import Collection

ADMIN = "admin_token"  # its name among the collection's settings


class People:
    """The links of a collection, kept in the store so that they outlive the server."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self.admin: str = collection.setting(ADMIN, secrets.token_urlsafe(24))
        self.read()

    def read(self) -> None:
        """Look who was added elsewhere."""
        self._names = {who.token: who.name for who in self._collection.annotators()}

    @property
    def tokens(self) -> dict[str, str]:
        """{name: token} of everybody."""
        return {name: token for token, name in self._names.items()}

    def name_of(self, token: str) -> str | None:
        """Whose link it is, if it is one."""
        return self._names.get(token)

    def is_admin(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.admin.encode())

    def add(self, name: str) -> str:
        """The token of an annotator, who is made where there is none of that name."""
        with self._lock:
            token = self._collection.annotator(name).token
            self.read()
        return token
