"""Answer the requests of the labelling pages (next, answer, undo), and keep the links to them."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from cli.console import say
from cli.web.admin_state import AdminState
from cli.web.replies import sentence
from sortnet.files import Record, plain
from sortnet.items import Items
from sortnet.messages import printable
from sortnet.preference import Judgement
from store import Collection
from store.collections.leases import Lease
from store.report.html_page import rendered
from store.service.labelling import LabellingService
from store.service.sentences import answers_left, range_in_words, why

AT_HAND = 3  # questions leased to a page: the question that is shown, and the next two
ADMIN = "admin_token"  # the setting of a collection that holds the admin's token
MOST_CHARACTERS = 50_000  # most characters of a text on a page; a link opens the full text
NOTHING = (
    "There is nothing to ask now: all pairs were asked, or are reserved by other annotators. "
    "This page checks again by itself."
)


class Pages:
    """The labelling pages of a collection; thread-safe.

    One criterion is asked about until its goal is reached, then the next criterion.

    Args:
        collection: the collection.
        options: arguments of the `LabellingService` of each criterion.

    Attributes:
        collection: the collection.
        services: one service for each criterion, or a single service.
        admin_token: the secret part of the admin's link.
        states: {criterion: state of its admin page}; without criteria the key is None.
    """

    def __init__(self, collection: Collection, **options: Any) -> None:
        """Read the judgements about each criterion; create the admin's token if there is none."""
        self.collection = collection
        self.services = [LabellingService(asked, **options) for asked in collection.asked()]
        self.admin_token: str = collection.setting(ADMIN, secrets.token_urlsafe(24))
        self.states = {
            service.collection.criterion: AdminState(service, collection)
            for service in self.services
        }
        self._undoing = threading.Lock()
        self._present_faults: dict[str, str] = {}  # {task: its fault}
        self._noting = threading.Lock()

    def sync(self) -> None:
        """Read the judgements and decisions that other processes have stored."""
        for service in self.services:
            service.sync()

    def note_fault(self, task: str, fault: str, ended: str = "") -> None:
        """Print a fault of the server on its terminal, unless the same fault was printed last.

        Args:
            task: the task that has the fault.
            fault: the fault; empty: the task succeeds.
            ended: the text that is printed if the task had a fault, and succeeds now.
        """
        fault = " ".join(fault.split())
        with self._noting:
            is_same = self._present_faults.get(task, "") == fault
            self._present_faults[task] = fault
        if not is_same:
            text = f"sortnet: collection {self.collection.name!r}: {fault or ended}"
            # The output may go to a file on a full disk: requests must be answered all the same.
            with suppress(OSError):
                say(printable(text))

    @property
    def items(self) -> Items:
        return self.services[0].items

    def next(self, annotator: str, markdown: bool = False) -> Record:
        """Lease the next questions to an annotator; return them with the annotator's progress.

        Args:
            markdown: whether the texts of items are also rendered as HTML.

        Returns:
            The JSON of a reply: the questions as `pairs`, and facts that the page shows.
        """
        questions: list[Record] = []
        # The criteria that have not reached their goal come first; otherwise their order stays.
        for service in sorted(
            self.services, key=lambda each: each.is_fitted and each.remaining.stop
        ):
            leases = service.next(annotator, AT_HAND)
            if leases:
                questions = [self._question_facts(service, lease, markdown) for lease in leases]
                break
        last = self._last(annotator)
        return {
            "pairs": questions,
            "question": self.question,
            "instructions": self.instructions["key"],
            "answered": sum(service.answered(annotator) for service in self.services),
            **self._distance_from_goal("" if questions else self.services[0].why_closed(annotator)),
            # The number and the criterion of the last answer, for an undo.
            "last": None if last is None else last[1].number,
            "last_of": None if last is None else last[0].collection.criterion,
            "lease_seconds": self.services[0].lease_seconds,
        }

    def _distance_from_goal(self, why_closed: str) -> Record:
        """Return how many questions are left, whether the goal is reached, and a reason to stop.

        Args:
            why_closed: the reason why the annotator is asked nothing; empty if there is none.

        Returns:
            The number of questions `left`, or None; their `range` in words; `stop`, whether the
            goal is reached; and `why`, the reason that the page shows if it has no questions.
        """
        # `is_fitted` is read first: in the other order, a first fit that ends in between would make
        # the distance from before the fit look valid.
        is_fitted = all(service.is_fitted for service in self.services)
        remaining = [service.remaining for service in self.services]
        is_goal_reached = is_fitted and all(criterion.stop for criterion in remaining)
        reason = NOTHING
        if why_closed:
            reason = sentence(why_closed)
        elif is_goal_reached:
            reason = sentence(why(remaining[-1]))
        n_left: int | None = None
        range_left = ""
        if is_fitted:
            unfinished = [criterion for criterion in remaining if not criterion.stop]
            n_left = _total([criterion.questions for criterion in unfinished])
            if len(unfinished) == 1:
                range_left = answers_left(unfinished[0])
            elif unfinished:
                fewest = _total([criterion.fewest for criterion in unfinished])
                most = _total([criterion.most for criterion in unfinished])
                range_left = f"{range_in_words(fewest, most)} left" if fewest and most else ""
            if unfinished:
                # If the goal seems reached, and more answers must confirm it, no number is known.
                n_left = n_left or None
        return {
            "left": n_left,
            "range": range_left,
            "stop": is_goal_reached and not why_closed,
            "why": reason,
        }

    def _last(self, annotator: str) -> tuple[LabellingService, Judgement] | None:
        """Return an annotator's last answer for any criterion, with its service.

        None if the annotator has no answer that can be undone.
        """
        last_answers = [(service, service.session.last(annotator)) for service in self.services]
        answers = [(service, answer) for service, answer in last_answers if answer is not None]
        # An answer without a time counts as the oldest.
        return max(answers, key=lambda answer: answer[1].at or 0, default=None)

    def state_of(self, criterion: str | None) -> AdminState:
        """Return the state of a criterion's admin page; None stands for the first criterion."""
        if criterion is None:
            return next(iter(self.states.values()))
        if criterion not in self.states:
            raise HTTPException(422, f"there is no criterion {criterion[:60]!r}")
        return self.states[criterion]

    @property
    def question(self) -> str:
        """The heading of a page that shows no items.

        The heading is the question. Several criteria have several questions, so then the heading is
        the name of the collection.
        """
        if len(self.services) > 1:
            return self.collection.name
        return self.services[0].study.question

    @property
    def instructions(self) -> dict[str, str]:
        """The instructions of all criteria: `html`, and a `key` that changes with the text.

        Both are empty if there are no instructions.
        """
        # Instructions that several criteria share are shown once.
        distinct_texts = dict.fromkeys(service.study.instructions for service in self.services)
        text = "\n\n".join(filter(None, distinct_texts))
        key = hashlib.sha256(text.encode()).hexdigest() if text else ""
        return {"key": key, "html": rendered(text)}

    def answer(
        self, criterion: str | None, lease: str, judgement: Judgement, markdown: bool = False
    ) -> Record:
        """Store an answer; return the annotator's progress and next questions.

        If the question was answered already, the first answer counts, and is returned as `counted`.

        Args:
            criterion: the criterion of the question; None in a collection without criteria.
            lease: id of the question's lease.

        Raises:
            LeaseError: if the annotator does not hold the lease, or the lease has expired.
        """
        stored = self.state_of(criterion).service.answer(lease, judgement).judgement
        reply = self.next(judgement.annotator, markdown)
        # If the page has sent the same answer twice, there is nothing to report.
        if replace(stored, number=0, at=None) != judgement:
            reply["counted"] = stored.word
        return reply

    def undo(
        self, annotator: str, criterion: str | None, number: int, markdown: bool = False
    ) -> Record:
        """Undo the judgement with the given number, if it is the annotator's last judgement.

        A page sends a request again if the reply is lost. With the number, this second request
        undoes no further answer.

        Returns:
            The annotator's progress and next questions, see `next`; `undone` tells whether the
            judgement was undone.
        """
        service = self.state_of(criterion).service
        with self._undoing:
            last = self._last(annotator)
            is_last = last is not None and last[0] is service and last[1].number == number
            is_undone = is_last and service.undo(annotator) is not None
        return {**self.next(annotator, markdown), "undone": is_undone}

    def sees(self, annotator: str, number: int) -> bool:
        """Tell whether an annotator was asked about an item, for any criterion."""
        return any(service.sees(annotator, number) for service in self.services)

    def _question_facts(self, service: LabellingService, lease: Lease, markdown: bool) -> Record:
        """Return the facts about a question that a page shows.

        Two items are `left` and `right`. More items are the list `items`, and `worst` tells whether
        the worst item is asked for, too.
        """
        question = lease.question
        items = [self.item(number, markdown) for number in question.items]
        facts = {
            "lease": lease.id,
            "criterion": service.collection.criterion,
            "question": service.study.question,
            "context": self.context(question.left, markdown),
        }
        if len(items) > 2:
            return {**facts, "items": items, "worst": service.study.worst}
        left, right = items
        return {**facts, "left": left, "right": right}

    def item(self, number: int, markdown: bool = False) -> Record:
        """Return the content of an item for a page; without any content, the id is the text."""
        id, text, image, audio, columns = self.items.content(number)
        if text is None and image is None and audio is None:
            text = id
        return {
            **_text_facts(text, f"/text/{number}", markdown),
            "image": None if image is None else f"/image/{number}",
            "audio": None if audio is None else f"/sound/{number}",
            "shown": columns,
        }

    def context(self, number: int, markdown: bool = False) -> Record | None:
        """Return the context of an item's group for a page; None if there is no context."""
        text = self.items.context(number)
        if text is None:
            return None
        return _text_facts(text, f"/context/{number}", markdown)


def _text_facts(text: str | None, address: str, markdown: bool) -> dict[str, str | None]:
    """Return a text for a page; a long text is cut, and has a link to the full text.

    Args:
        text: the text; None if there is no text.
        address: the address of the full text, to which a text that was cut is linked.
        markdown: whether the text is also rendered as HTML.
    """
    full_text_address: str | None = None
    if text is not None and len(text) > MOST_CHARACTERS:
        text = f"{text[:MOST_CHARACTERS]} …"
        full_text_address = address
    html: str | None = None
    if text is not None and markdown:
        html = rendered(text)
    return {"text": text, "more": full_text_address, "html": html}


def _total(numbers: Sequence[int | None]) -> int | None:
    """Sum up numbers; None if one of them is not known."""
    if None in numbers:
        return None
    total: int = plain(sum(filter(None, numbers)))
    return total


@dataclass(frozen=True)
class LinkRequest:
    """A request that came by a secret link.

    Attributes:
        pages: the pages that the link belongs to.
        name: the name of the annotator whom the link belongs to; empty for the admin's link.
        http: the request, with its path and its query parameters.
        body: the JSON of the request's body; empty for a GET request.
    """

    pages: Pages
    name: str
    http: Request
    body: Record

    @property
    def admin_state(self) -> AdminState:
        """The state of the criterion that the query parameters name."""
        return self.pages.state_of(self.http.query_params.get("criterion"))


Handler: TypeAlias = Callable[[LinkRequest], Response]
