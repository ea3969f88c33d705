"""Thread-safe operations behind the pages: next, answer, undo, item; who may use them."""

from __future__ import annotations

import hashlib
import secrets
import threading
from typing import Any

from cli.web.markdown import rendered
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

    def next(self, annotator: str, markdown: bool = False) -> dict[str, Any]:
        """The progress of an annotator and their next pairs, with renewed leases.

        Args:
            markdown: whether texts come as HTML too.
        """
        leases = self.service.next(annotator, AT_HAND)
        session, remaining = self.service.session, self.service.remaining
        known, last = self.service.known, session.last(annotator)
        stop = known and remaining.stop
        closed = self.service.why_closed(annotator)
        why = f"{remaining.why}." if stop else NOTHING
        return {
            "pairs": [
                {"lease": lease.id, "context": self.context(lease.question.left, markdown)}
                | {"question": self.service.study.question}
                | {
                    side: self.item(getattr(lease.question, side), markdown)
                    for side in ("left", "right")
                }
                for lease in leases
            ],
            "question": self.service.study.question,
            "instructions": self.instructions["key"],
            "answered": session.answered(annotator),
            "left": plain(remaining.questions) if known else None,
            "stop": stop and not closed,
            "why": f"{closed[:1].upper()}{closed[1:]}." if closed else why,
            "last": last.number if last is not None else None,
            "lease_seconds": self.service.lease_seconds,
        }

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions as HTML, and a key of their text; both empty if there are none."""
        text = self.service.study.instructions
        return {"key": text and hashlib.sha256(text.encode()).hexdigest(), "html": rendered(text)}

    def answer(self, lease: str, judgement: Judgement, markdown: bool = False) -> dict[str, Any]:
        """Store an answer; return the progress, with `counted` if another answer came first.

        Raises:
            LeaseError: if the annotator does not hold the lease, or it has expired.
        """
        stored = self.service.answer(lease, judgement).judgement
        progress = self.next(judgement.annotator, markdown)
        if _given(stored) != _given(judgement):
            progress["counted"] = stored.answer
        return progress

    def undo(self, annotator: str, last: int, markdown: bool = False) -> dict[str, Any]:
        """Undo judgement number `last`, if it is the annotator's last one.

        A request repeated because its reply was lost undoes one answer, not two.
        """
        with self._undoing:
            before = self.service.session.last(annotator)
            undone = before is not None and before.number == last
            undone = undone and self.service.undo(annotator) is not None
        return self.next(annotator, markdown) | {"undone": undone}

    def item(self, number: int, markdown: bool = False) -> dict[str, Any]:
        """The content of an item for a page; its id only if it has nothing else."""
        items = self.items
        text, image, audio = items.texts[number], items.images[number], items.audio[number]
        columns: Any = getattr(items, "shown", None)
        if text is None and image is None and audio is None:
            text = items.ids[number]
        return {
            **_cut(text, f"/text/{number}", markdown),
            "image": None if image is None else f"/image/{number}",
            "audio": None if audio is None else f"/sound/{number}",
            "shown": dict((columns and columns[number]) or {}),
        }

    def context(self, number: int, markdown: bool = False) -> dict[str, Any] | None:
        """The context of an item's group for a page, or None."""
        contexts = self.items.contexts
        text = None if contexts is None else contexts[number]
        return None if text is None else _cut(text, f"/context/{number}", markdown)


def _cut(text: str | None, whole: str, markdown: bool) -> dict[str, str | None]:
    """As much of a text as a page shows, and the address of the whole if that is more."""
    more = text is not None and len(text) > MOST_CHARACTERS
    text = f"{text[:MOST_CHARACTERS]} …" if text is not None and more else text
    html = None if text is None or not markdown else rendered(text)
    return {"text": text, "more": whole if more else None, "html": html}


def _given(judgement: Judgement) -> tuple[Any, ...]:
    """What tells a repeated request from another answer to the same question."""
    return judgement.answer, judgement.milliseconds, judgement.comment, judgement.flagged


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
