"""Thread-safe operations behind the pages: next, answer, undo, item; who may use them."""

from __future__ import annotations

import secrets
import threading
from typing import Any

from sortnet.items import Items
from sortnet.preference import Judgement
from store import Collection
from store.database.engine import plain
from store.service.labelling import LabellingService

AT_HAND = 3  # pairs leased to a page: the one shown and the next two
MOST_CHARACTERS = 50_000  # characters of a text on a page; a link opens the full text
NOTHING = (
    "There is nothing to ask now: all pairs were asked, or are reserved by other annotators. "
    "This page checks again by itself."
)
ADMIN = "admin_token"  # name of the setting of the collection


class PageService:
    """The pages of a labelling service; thread-safe."""

    def __init__(self, service: LabellingService) -> None:
        self.service, self.collection = service, service.collection
        self._undoing = threading.Lock()

    @property
    def items(self) -> Items:
        return self.service.items

    def next(self, annotator: str) -> dict[str, Any]:
        """The progress of an annotator and their next pairs, with renewed leases."""
        leases = self.service.next(annotator, AT_HAND)
        session, remaining = self.service.session, self.service.remaining
        known, last = self.service.known, session.last(annotator)
        stop = known and remaining.stop
        closed = self.service.why_closed(annotator)
        why = f"{remaining.why}." if stop else NOTHING
        return {
            "pairs": [
                {"lease": lease.id, "context": self.context(lease.question.left)}
                | {side: self.item(getattr(lease.question, side)) for side in ("left", "right")}
                for lease in leases
            ],
            "answered": session.answered(annotator),
            "left": plain(remaining.questions) if known else None,
            "stop": stop and not closed,
            "why": f"{closed[:1].upper()}{closed[1:]}." if closed else why,
            "last": last.number if last is not None else None,
            "lease_seconds": self.service.lease_seconds,
        }

    def answer(self, lease: str, judgement: Judgement) -> dict[str, Any]:
        """Store an answer; return the progress.

        Raises:
            LeaseError: if the annotator does not hold the lease, or it has expired.
        """
        self.service.answer(lease, judgement)
        return self.next(judgement.annotator)

    def undo(self, annotator: str, last: int) -> dict[str, Any]:
        """Undo judgement number `last`, if it is the annotator's last one.

        A request repeated because its reply was lost undoes one answer, not two.
        """
        with self._undoing:
            before = self.service.session.last(annotator)
            undone = before is not None and before.number == last
            undone = undone and self.service.undo(annotator) is not None
        return self.next(annotator) | {"undone": undone}

    def item(self, number: int) -> dict[str, Any]:
        """The content of an item for a page; its id only if it has nothing else."""
        items = self.items
        text, image, audio = items.texts[number], items.images[number], items.audio[number]
        if text is None and image is None and audio is None:
            text = items.ids[number]
        return {
            **_cut(text, f"/text/{number}"),
            "image": None if image is None else f"/image/{number}",
            "audio": None if audio is None else f"/sound/{number}",
        }

    def context(self, number: int) -> dict[str, Any] | None:
        """The context of an item's group for a page, or None."""
        contexts = self.items.contexts
        text = None if contexts is None else contexts[number]
        return None if text is None else _cut(text, f"/context/{number}")


def _cut(text: str | None, whole: str) -> dict[str, str | None]:
    """As much of a text as a page shows, and the address of the whole if that is more."""
    if text is None or len(text) <= MOST_CHARACTERS:
        return {"text": text, "more": None}
    return {"text": text[:MOST_CHARACTERS] + " …", "more": whole}


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

    def know(self, token: str) -> bool:
        """Whether it is the token of an annotator, or the admin's."""
        return token in self._names or self.is_admin(token)

    def add(self, name: str) -> str:
        """The token of an annotator, who is created if the name is new."""
        with self._lock:
            token = self._collection.annotator(name).token
            self.read()
        return token
