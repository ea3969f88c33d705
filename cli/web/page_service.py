"""What the pages are made of: the desk, who may come in, and how far it is."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sortnet.items import Items
from sortnet.preference import Answer
from store.database.engine import plain

if TYPE_CHECKING:
    from sortnet.preference.intervals import Ranking, Remaining
    from sortnet.preference.session import Session
    from store import Collection, Lease
    from store.service.labelling import LabellingService

AT_HAND = 3  # pairs on loan to a page: the one shown and the next two
MOST_CHARACTERS = 50_000  # of a text on a page; the rest is behind a link
NOTHING = (
    "There is nothing to ask you just now: every pair has been asked, or is with somebody else. "
    "This page looks again by itself."
)


class PageService:
    """A desk and its people. Every method may be called from several threads at once."""

    def __init__(
        self, collection: Collection, desk: LabellingService, *, lease_seconds: float
    ) -> None:
        self.collection, self.desk, self.lease_seconds = collection, desk, lease_seconds
        self.ranking: Ranking | None = None
        self.remaining: Remaining | None = None
        self._ranked: tuple[Session, int] | None = None
        self._undoing = threading.Lock()
        self.catch_up()

    @property
    def items(self) -> Items:
        return self.desk.items

    def catch_up(self) -> None:
        """Take in what other processes wrote."""
        self.desk.sync()

    def refit(self) -> None:
        """Retrain, and draw up the ranking anew; answers go on meanwhile."""
        session = self.desk.session
        events = session.events
        session.refit()
        self.ranking, self.remaining = session.ranking(fresh=False), session.remaining(fresh=False)
        self._ranked = session, events

    @property
    def stale(self) -> bool:
        """Whether the ranking is older than the answers."""
        session = self.desk.session
        return self._ranked != (session, session.events)

    def next(self, annotator: str) -> dict[str, Any]:
        """How it stands for a person, and their next pairs, whose leases begin anew."""
        leases = self.desk.next(annotator, AT_HAND)
        return self._state(annotator, leases)

    def answer(
        self, annotator: str, lease: str, answer: Answer, milliseconds: int | None
    ) -> dict[str, Any]:
        """Take an answer; how it stands then.

        Raises:
            LeaseError: if the question is not theirs to answer, or no longer.
        """
        self.desk.answer(lease, annotator, answer, milliseconds)
        return self.next(annotator)

    def undo(self, annotator: str, last: int) -> dict[str, Any]:
        """Take back judgement number `last`, if that is what their last one is.

        Who repeats a request because the reply was lost takes back one answer, not two.
        """
        with self._undoing:
            before = self.desk.session.last(annotator)
            undone = None
            if before is not None and before.number == last:
                undone = self.desk.undo(annotator)
        if undone is None:
            return self.next(annotator) | {"undone": False}
        return self.next(annotator) | {"undone": True}

    def _state(self, annotator: str, leases: Sequence[Lease]) -> dict[str, Any]:
        remaining, last = self.remaining, self.desk.session.last(annotator)
        stop = remaining is not None and remaining.stop
        why = f"{remaining.why}." if remaining is not None and stop else NOTHING
        return {
            "pairs": [self._pair(lease) for lease in leases],
            "answered": self.desk.session.answered(annotator),
            "left": plain(remaining.questions) if remaining is not None else None,
            "stop": stop,
            "why": why,
            "last": last.number if last is not None else None,
            "lease_seconds": self.lease_seconds,
        }

    def _pair(self, lease: Lease) -> dict[str, Any]:
        sides = {"left": lease.left, "right": lease.right}
        return {"lease": lease.id} | {side: self.item(n) for side, n in sides.items()}

    def item(self, number: int) -> dict[str, Any]:
        """What a page shows of an item; its id only where there is nothing else."""
        items = self.items
        text, image, audio = items.texts[number], items.images[number], items.audio[number]
        if text is None and image is None and audio is None:
            text = items.ids[number]
        long = text is not None and len(text) > MOST_CHARACTERS
        return {
            "text": text[:MOST_CHARACTERS] + " …" if text is not None and long else text,
            "image": None if image is None else f"/image/{number}",
            "audio": None if audio is None else f"/sound/{number}",
            "more": f"/text/{number}" if long else None,
        }
