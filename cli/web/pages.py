"""Thread-safe operations behind the pages: next, answer, undo, item; and the links to the pages."""

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
    """The labelling pages of a collection; thread-safe."""

    def __init__(self, collection: Collection, criteria: Criteria) -> None:
        self.collection = collection
        self.criteria = criteria
        self.services = criteria.services  # a service for each criterion
        self.faults = FaultNotes(collection.name)
        self._undoing = threading.Lock()

    def close(self) -> None:
        """Record the last fits, if fits are recorded."""
        for service in self.services:
            service.close()

    def sync(self) -> None:
        """Read the judgements and decisions that other processes have stored."""
        for service in self.services:
            service.sync()

    @property
    def items(self) -> Items:
        return self.services[0].items

    def next(self, annotator: str, markdown: bool = False) -> dict[str, Any]:
        """The progress of an annotator and the next questions, whose leases are renewed.

        With `markdown` the texts of items are also rendered as HTML.
        """
        asked = self.criteria.next(annotator, AT_HAND)
        last = self.criteria.last(annotator)
        last_number: int | None = None
        last_criterion: str | None = None
        if last is not None:
            last_service, last_judgement = last
            last_number = last_judgement.number
            last_criterion = last_service.collection.criterion
        # `is_fitted` is read before `remaining`: a first fit that ends in between must not make a
        # forecast from before the fit look valid.
        is_fitted = all(service.is_fitted for service in self.services)
        remaining = [service.remaining for service in self.services]
        closed = "" if asked else self.services[0].why_closed(annotator)
        stop = is_fitted and all(criterion.stop for criterion in remaining)
        if closed:
            why = f"{closed[:1].upper()}{closed[1:]}."
        elif stop:
            why = f"{remaining[-1].why}."
        else:
            why = NOTHING
        n_left = _questions_left(remaining) if is_fitted else None
        return {
            "pairs": [self._question_asked(question, markdown) for question in asked],
            "question": self.question,
            "instructions": self.instructions["key"],
            "answered": self.criteria.answered(annotator),
            "left": n_left,
            "range": "" if n_left is None else _range_left(remaining),
            "stop": stop and not closed,
            "why": why,
            "last": last_number,
            "last_of": last_criterion,
            "lease_seconds": self.services[0].lease_seconds,
        }

    @property
    def question(self) -> str:
        """The heading of a page that shows no pair.

        It is the question or, because several criteria have several questions, the name of the
        collection.
        """
        if len(self.services) > 1:
            return self.collection.name
        return self.services[0].study.question

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions of all criteria as HTML, and a key that changes with their text.

        Both are empty if there are no instructions.
        """
        distinct = dict.fromkeys(service.study.instructions for service in self.services)
        text = "\n\n".join(filter(None, distinct))
        key = hashlib.sha256(text.encode()).hexdigest() if text else ""
        return {"key": key, "html": rendered(text)}

    def answer(
        self, criterion: str | None, lease: str, judgement: Judgement, markdown: bool = False
    ) -> dict[str, Any]:
        """Store an answer; return the annotator's progress and next questions.

        If the question was answered already, the first answer counts and is returned as `counted`.

        Raises:
            LeaseError: if the annotator does not hold the lease, or it has expired.
        """
        stored = self.criteria.service_of(criterion).answer(lease, judgement).judgement
        progress = self.next(judgement.annotator, markdown)
        if replace(stored, number=0, at=None) != judgement:  # not a repeated request
            progress["counted"] = stored.answer
        return progress

    def undo(
        self, annotator: str, criterion: str | None, number: int, markdown: bool = False
    ) -> dict[str, Any]:
        """Undo the judgement with the given number, if it is the annotator's last judgement.

        So a request that is repeated because its reply was lost undoes one answer, not two.
        """
        service = self.criteria.service_of(criterion)
        with self._undoing:
            undone = False
            last = self.criteria.last(annotator)
            if last is not None:
                last_service, last_judgement = last
                if last_service is service and last_judgement.number == number:
                    undone = service.undo(annotator) is not None
        return {**self.next(annotator, markdown), "undone": undone}

    def sees(self, annotator: str, number: int) -> bool:
        """Whether an annotator was asked about an item by any of the criteria."""
        return any(service.sees(annotator, number) for service in self.services)

    def _question_asked(self, asked: Asked, markdown: bool) -> dict[str, Any]:
        """The facts of a question that a page shows.

        Two items are `left` and `right`, more items are the list `items`; then `worst` says whether
        the worst item is asked for, too.
        """
        service = asked.service
        question = asked.lease.question
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
        """The content of an item for a page; its id if it has no text, image or sound."""
        id, text, image, audio, columns = self.items.content(number)
        if text is None and image is None and audio is None:
            text = id
        return {
            **_text_shown(text, f"/text/{number}", markdown),
            "image": None if image is None else f"/image/{number}",
            "audio": None if audio is None else f"/sound/{number}",
            "shown": columns,
        }

    def context(self, number: int, markdown: bool = False) -> dict[str, Any] | None:
        """The context of an item's group for a page; None if there is no context."""
        text = self.items.context(number)
        return None if text is None else _text_shown(text, f"/context/{number}", markdown)


def _text_shown(text: str | None, address: str, markdown: bool) -> dict[str, str | None]:
    """The part of a text that a page shows; if the text is cut, `more` is its address in full."""
    is_cut = text is not None and len(text) > MOST_CHARACTERS
    if text is not None and is_cut:
        text = f"{text[:MOST_CHARACTERS]} …"
    html = None if text is None or not markdown else rendered(text)
    return {"text": text, "more": address if is_cut else None, "html": html}


def _questions_left(remaining: Sequence[Remaining]) -> int | None:
    """The number of questions until all criteria reach their goals; None if it is not known.

    The number is also unknown if each goal seems reached, but more answers must confirm it.
    """
    questions = [criterion.questions for criterion in remaining if not criterion.stop]
    numbers = [number for number in questions if number is not None]
    if len(numbers) < len(questions) or (questions and not any(numbers)):
        return None
    total: int = plain(sum(numbers))
    return total


def _range_left(remaining: Sequence[Remaining]) -> str:
    """The range of the questions that all criteria together have left, in words."""
    criteria = [criterion for criterion in remaining if not criterion.stop]
    fewest = [criterion.fewest for criterion in criteria if criterion.fewest is not None]
    if not criteria or len(fewest) < len(criteria):
        return ""
    most = [criterion.most for criterion in criteria if criterion.most is not None]
    at_most = sum(most) if len(most) == len(criteria) else None
    return range_in_words(sum(fewest), at_most)


def pages_of(collection: Collection, *, together: bool = False, **options: Any) -> Pages:
    """Make the pages of a collection.

    Args:
        collection: the collection.
        together: whether each pair is asked by all criteria before the next pair.
        options: arguments of the service of each criterion.
    """
    services = [LabellingService(criterion, **options) for criterion in collection.asked()]
    return Pages(collection, Criteria(services, together=together))


class People:
    """The secret links of the annotators and of the admin of a collection; the store keeps them."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self.admin: str = collection.setting(ADMIN, secrets.token_urlsafe(24))
        self.read()

    def read(self) -> None:
        """Read annotators and links again, which another process may have changed."""
        annotators = self._collection.annotators()
        self._names = {annotator.token: annotator.name for annotator in annotators}
        self.revoked = set(self._collection.study().revoked)

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens of all annotators, by name."""
        return {name: token for token, name in self._names.items()}

    def name_of(self, token: str) -> str | None:
        """The name of the annotator with the given token; None if the token is unknown."""
        return self._names.get(token)

    def is_admin(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.admin.encode())

    def admin_of(self, token: str) -> str | None:
        """The name `admin` if the token belongs to the admin, else None."""
        return "admin" if self.is_admin(token) else None

    def knows(self, token: str) -> bool:
        """Whether the token belongs to an annotator or to the admin."""
        return token in self._names or self.is_admin(token)

    def add(self, name: str) -> str:
        """Create an annotator if the name is new; return the annotator's token."""
        with self._lock:
            token = self._collection.annotator(name).token
            self.read()
        return token
