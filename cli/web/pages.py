"""Thread-safe operations behind the pages: next, answer, undo, item; who may use them."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cli.web.fault_notes import FaultNotes
from sortnet.files import plain
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.stopping import Remaining, range_in_words
from store import Collection
from store.report.markdown import rendered
from store.service.criteria import Asked, Criteria
from store.service.labelling import LabellingService

AT_HAND = 3  # questions leased to a page: the one shown and the next two
MOST_CHARACTERS = 50_000  # characters of a text on a page; a link opens the full text
NOTHING = (
    "There is nothing to ask now: all pairs were asked, or are reserved by other annotators. "
    "This page checks again by itself."
)
ADMIN = "admin_token"  # name of the setting of the collection


class Pages:
    """The pages of a collection, whose links and items they are; thread-safe."""

    def __init__(self, collection: Collection, criteria: Criteria) -> None:
        self.collection, self.criteria = collection, criteria
        self.services = criteria.services  # one for each criterion
        self.faults = FaultNotes(collection.name)
        self._undoing = threading.Lock()

    def close(self) -> None:
        """Record the last fits, if fits are recorded."""
        for each in self.services:
            each.close()

    @property
    def items(self) -> Items:
        return self.services[0].items

    def next(self, annotator: str, markdown: bool = False) -> dict[str, Any]:
        """An annotator's progress and next pairs, with renewed leases; texts also as HTML."""
        asked, last = self.criteria.next(annotator, AT_HAND), self.criteria.last(annotator)
        known = all(each.is_fitted for each in self.services)
        remaining = [each.remaining for each in self.services]
        left = [0 if each.stop else each.questions for each in remaining]
        stop = known and all(each.stop for each in remaining)
        # None too where the goal seems reached, but nobody knows how many answers will confirm it.
        shown = known and None not in left and (stop or any(left))
        closed = "" if asked else self.services[0].why_closed(annotator)
        why = f"{remaining[-1].why}." if stop else NOTHING
        return {
            "pairs": [self._shown(one, markdown) for one in asked],
            "question": self.question,
            "instructions": self.instructions["key"],
            "answered": self.criteria.answered(annotator),
            "left": plain(sum(n for n in left if n)) if shown else None,
            "range": _range_left(remaining) if shown else "",
            "stop": stop and not closed,
            "why": f"{closed[:1].upper()}{closed[1:]}." if closed else why,
            "last": None if last is None else last[1].number,
            "last_of": None if last is None else last[0].collection.criterion,
            "lease_seconds": self.services[0].lease_seconds,
        }

    @property
    def question(self) -> str:
        """The heading of a page without a pair; there is no question for several criteria."""
        one = len(self.services) == 1
        return self.services[0].study.question if one else self.collection.name

    @property
    def instructions(self) -> dict[str, str]:
        """Those of all criteria as HTML, and a key of their text; both empty if there are none."""
        given = dict.fromkeys(each.study.instructions for each in self.services)
        text = "\n\n".join(filter(None, given))
        return {"key": text and hashlib.sha256(text.encode()).hexdigest(), "html": rendered(text)}

    def answer(
        self, criterion: str | None, lease: str, judgement: Judgement, markdown: bool = False
    ) -> dict[str, Any]:
        """Store an answer; return the progress, with `counted` if another answer came first.

        A LeaseError if the annotator does not hold the lease, or it has expired.
        """
        stored = self.criteria.service_of(criterion).answer(lease, judgement).judgement
        progress = self.next(judgement.annotator, markdown)
        if replace(stored, number=0, at=None) != judgement:  # not a repeated request
            progress["counted"] = stored.answer
        return progress

    def undo(
        self, annotator: str, criterion: str | None, number: int, markdown: bool = False
    ) -> dict[str, Any]:
        """Undo the judgement of that number, if it is the annotator's last one.

        A request repeated because its reply was lost undoes one answer, not two.
        """
        service = self.criteria.service_of(criterion)
        with self._undoing:
            last = self.criteria.last(annotator)
            undone = last is not None and last[0] is service and last[1].number == number
            undone = undone and service.undo(annotator) is not None
        return self.next(annotator, markdown) | {"undone": undone}

    def sees(self, annotator: str, number: int) -> bool:
        """Whether an annotator was asked about an item, by any criterion."""
        return any(each.sees(annotator, number) for each in self.services)

    def _shown(self, asked: Asked, markdown: bool) -> dict[str, Any]:
        """A question for a page: `left` and `right` of two items, else `items` and `worst`.

        `worst`: whether the worst item is asked for, too.
        """
        service, question = asked.service, asked.lease.question
        items = [self.item(number, markdown) for number in question.items]
        facts = {
            "lease": asked.lease.id,
            "criterion": service.collection.criterion,
            "question": service.study.question,
            "context": self.context(question.left, markdown),
        }
        if question.further:
            return {**facts, "items": items, "worst": service.study.worst}
        left, right = items
        return {**facts, "left": left, "right": right}

    def item(self, number: int, markdown: bool = False) -> dict[str, Any]:
        """The content of an item for a page; its id only if it has nothing else."""
        id, text, image, audio, columns = self.items.content(number)
        if text is None and image is None and audio is None:
            text = id
        return {
            **_cut(text, f"/text/{number}", markdown),
            "image": None if image is None else f"/image/{number}",
            "audio": None if audio is None else f"/sound/{number}",
            "shown": columns,
        }

    def context(self, number: int, markdown: bool = False) -> dict[str, Any] | None:
        """The context of an item's group for a page, or None."""
        text = self.items.context(number)
        return None if text is None else _cut(text, f"/context/{number}", markdown)


def _cut(text: str | None, whole: str, markdown: bool) -> dict[str, str | None]:
    """As much of a text as a page shows, and the address of the whole if that is more."""
    more = text is not None and len(text) > MOST_CHARACTERS
    text = f"{text[:MOST_CHARACTERS]} …" if text is not None and more else text
    html = None if text is None or not markdown else rendered(text)
    return {"text": text, "more": whole if more else None, "html": html}


def _range_left(remaining: Sequence[Remaining]) -> str:
    """The range of the questions that all criteria together have left, in words."""
    criteria = [criterion for criterion in remaining if not criterion.stop]
    fewest = [criterion.fewest for criterion in criteria if criterion.fewest is not None]
    if not criteria or len(fewest) < len(criteria):
        return ""
    most = [criterion.most for criterion in criteria if criterion.most is not None]
    at_most = sum(most) if len(most) == len(criteria) else None
    return range_in_words(sum(fewest), at_most)


def pages_of(collection: Collection, *, together: bool = False, **more: Any) -> Pages:
    """The pages of a collection with a service for each criterion; `more`: arguments of these."""
    services = [LabellingService(each, **more) for each in collection.asked()]
    return Pages(collection, Criteria(services, together=together))


class People:
    """The links of a collection, stored so that they survive a restart."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self.admin: str = collection.setting(ADMIN, secrets.token_urlsafe(24))
        self.read()

    def read(self) -> None:
        """Read annotators and links that were changed elsewhere."""
        self._names = {who.token: who.name for who in self._collection.annotators()}
        self.revoked = set(self._collection.study().revoked)

    @property
    def tokens(self) -> dict[str, str]:
        """{name: token} of all annotators."""
        return {name: token for token, name in self._names.items()}

    def name_of(self, token: str) -> str | None:
        """The annotator with that token, or None."""
        return self._names.get(token)

    def is_admin(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.admin.encode())

    def admin_of(self, token: str) -> str | None:
        """`admin` if the token is the admin's, or None."""
        return "admin" if self.is_admin(token) else None

    def know(self, token: str) -> bool:
        """Whether it is the token of an annotator, or the admin's."""
        return token in self._names or self.is_admin(token)

    def add(self, name: str) -> str:
        """The token of an annotator, who is created if the name is new."""
        with self._lock:
            token = self._collection.annotator(name).token
            self.read()
        return token
