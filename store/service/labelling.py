"""The labelling service: hands out questions, takes answers in, and keeps the model fitted."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sortnet.errors import StoreError
from sortnet.preference import Judgement, Question
from sortnet.preference.intervals import GOAL, Ranking, Remaining
from sortnet.preference.session import Session
from store.collections.collection import Collection, Stored
from store.collections.leases import Lease

ATTEMPTS = 5  # at new questions, where other processes lease the same pairs meanwhile
SESSION_SETTINGS = ("strategy", "holdout", "repeats")
# Seconds for which a fit may keep the interpreter from a thread that answers. An answer asks for
# it about fifty times, at each step of the database.
_TURN = 0.0005
_REST = 2.0  # after a fit in a thread, in shares of what it took: answers come first
_AHEAD = 20  # answers, at the least, that a program may give before the model has learned


class LabellingService:
    """A collection's session, kept up with the database and fitted; any number of threads may call.

    A session's state is what a replay of the stored judgements gives. So nothing here is lost
    with the process, and several processes, each with a service of its own, serve one collection.

    Args:
        lease_seconds: for how long a question is an annotator's.
        seed: of the session; None for the collection's.
        goal: share of pairs that may still be expected in the wrong order at the end;
            None for the default.

    Raises:
        StoreError: on a collection of fewer than two items.

    Attributes:
        session: asks, ranks, says what remains.
        items: what is sorted.
        ranking, remaining: as of the last fit; before the first one, of the features alone.
        fault: what went wrong in the last fit, if anything did.

    Cost: opening reads all judgements, about 10 us each and what the session makes of them; later
    calls read only what is new.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        lease_seconds: float = 600,
        seed: int | None = None,
        goal: float | None = None,
    ) -> None:
        self.collection = collection
        self.lease_seconds = lease_seconds
        self._seed = collection.seed if seed is None else seed
        self._goal = GOAL if goal is None else goal
        self._lock = threading.RLock()
        # {annotator: {id: lease}}, handed out here or adopted
        self._own: dict[str, dict[str, Lease]] = {}
        self._fitted: tuple[Session, int] | None = None  # and how many events it had seen
        self._fitting: threading.Thread | None = None
        self._rest_until = 0.0
        self.fault = ""
        self._open()
        self.ranking: Ranking = self.session.ranking(fresh=False)
        self.remaining: Remaining = self.session.remaining(fresh=False)

    def next(self, annotator: str, k: int = 1) -> list[Lease]:
        """The next k questions to an annotator, fewer where there are no more.

        Those that were put to them and not answered come first, so that a page that is loaded
        again shows the same: all of them the first time that this service is asked for an
        annotator, from then on those that it handed out. So two services do not put one question
        twice.

        Cost: a transaction to look, and one to lease where there is something to lease or renew.
        """
        with self._lock:
            live = self._look()
            held = self._held(annotator, live)
            soon = self.collection.clock() + self.lease_seconds / 2
            late = [lease.id for lease in held] if any(x.expires < soon for x in held) else []
            for _ in range(ATTEMPTS):
                questions = self._ask(annotator, k - len(held), live)
                if not questions and not late:
                    break
                given = self._lease(annotator, questions, renew=late)
                wanted = len(late) + len(questions)
                held = given if late else held + given
                late = []
                if len(given) == wanted:
                    break
                live = self.collection.leases()
            return held[:k]

    def lease(self, annotator: str, questions: Sequence[Question]) -> list[Lease]:
        """Put questions of the caller's choice to an annotator; those whose pair is free."""
        with self._lock:
            return self._lease(annotator, questions)

    def release(self, annotator: str) -> None:
        """Take back the questions that an annotator has from this service."""
        with self._lock:
            self.collection.release(annotator, sorted(self._own.get(annotator, ())))

    def question(self, annotator: str, lease: str) -> Question:
        """What an annotator was asked under a lease.

        Raises:
            LeaseError: if there is no such lease.
        """
        with self._lock:
            own = self._own.get(annotator, {}).get(lease)
        return self.collection.question(lease) if own is None else own.question

    def answer(self, lease: str, judgement: Judgement) -> Stored:
        """Take the answer to a question; the same again gives back what was answered first.

        Raises:
            LeaseError: on a lease that is unknown, expired, taken back or another's.

        Cost: one transaction.
        """
        with self._lock:
            stored = self.collection.answer(lease, judgement, after=self._told)
            if any(new.pair[1] >= self.session.n_items for new in stored.since):
                self.sync()
            else:
                self._tell(stored.since)
            return stored

    def undo(self, annotator: str) -> Judgement | None:
        """Take back an annotator's last answer, and their open questions: the undone comes next.

        None where there is nothing to take back.
        """
        with self._lock:
            live = self._look()
            last = self.session.last(annotator)
            if last is None:
                return None
            self._held(annotator, live)
            self.release(annotator)
            undo = self.collection.undo(annotator, last.number)
            self.sync()
            return undo

    def sync(self) -> int:
        """Take in what other processes wrote; how many judgements there were."""
        with self._lock:
            before = self._told
            self._look()
            return self._told - before

    @property
    def known(self) -> bool:
        """Whether there was a fit yet."""
        return self._fitted is not None

    @property
    def stale(self) -> bool:
        """Whether the ranking is older than the answers."""
        return self._fitted != (self.session, self.session.events)

    def update(self) -> None:
        """Let the answers since the last fit count: now where that is quick, else in a thread."""
        if not self.stale:
            return
        if self.session.quick:
            self._try_fit()
            return
        with self._lock:
            running = self._fitting is not None and self._fitting.is_alive()
            if not running and time.monotonic() >= self._rest_until:
                # A daemon: the end does not wait for a fit that leaves nothing behind.
                self._fitting = threading.Thread(target=self._try_fit, daemon=True)
                self._fitting.start()

    def keep_up(self) -> None:
        """As `update`, for programs: one that answers faster than the model learns waits for it."""
        self.update()
        if self.session.behind > max(_AHEAD, self.session.events // 20):
            self.settle()

    def settle(self) -> None:
        """Wait until every answer counts in `ranking` and `remaining`."""
        if self._fitting is not None:
            self._fitting.join()
        if self.stale:
            self._fit()

    def _fit(self) -> None:
        session, events = self.session, self.session.events
        with _short_turns():
            session.refit()
            self.ranking = session.ranking(fresh=False)
            self.remaining = session.remaining(fresh=False)
        self._fitted = session, events

    def _try_fit(self) -> None:
        begun = time.monotonic()
        try:
            self._fit()
            self.fault = ""
        except Exception as error:  # whatever it is: the answers must go on coming in
            self.fault = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        self._rest_until = now + _REST * (now - begun)

    def _open(self) -> None:
        """Begin from scratch: read the items, replay the judgements."""
        # The judgements first: no item that they speak of can be missing then.
        judgements = self.collection.judgements()
        self.items = self.collection.items()
        if len(self.items) < 2:
            raise StoreError(
                f"collection {self.collection.name!r} has {len(self.items)} item(s); "
                "there must be two to compare"
            )
        settings = self.collection.settings
        self.session = Session(
            self.items.features,
            len(self.items),
            seed=self._seed,
            goal=self._goal,
            **{name: settings[name] for name in SESSION_SETTINGS if name in settings},
        )
        self._told = 0
        self._tell(judgements)

    def _look(self) -> list[Lease]:
        """Take in what is new; all live leases."""
        news = self.collection.news(after=self._told)
        if news.n_items > self.session.n_items:
            self._open()
        else:
            self._tell(news.judgements)
        return news.leases

    def _tell(self, judgements: Sequence[Judgement]) -> None:
        for judgement in judgements:
            self.session.tell(judgement)
            self._told = judgement.number

    def _ask(self, annotator: str, k: int, live: Sequence[Lease]) -> list[Question]:
        """New questions about pairs that nobody is being asked about."""
        if k <= 0:
            return []
        pairs = {lease.question.pair for lease in live}
        busy = {pair for pair in pairs if pair[1] < self.session.n_items}
        return self.session.ask(annotator, k, busy=busy)

    def _lease(
        self, annotator: str, questions: Sequence[Question], *, renew: Sequence[str] = ()
    ) -> list[Lease]:
        leases = self.collection.lease(annotator, questions, self.lease_seconds, renew=renew)
        self._own.setdefault(annotator, {}).update({lease.id: lease for lease in leases})
        return leases

    def _held(self, annotator: str, live: Sequence[Lease]) -> list[Lease]:
        """An annotator's leases of this service, of those that live."""
        own = self._own.get(annotator)
        theirs = [lease for lease in live if lease.annotator == annotator]
        held = {lease.id: lease for lease in theirs if own is None or lease.id in own}
        self._own[annotator] = held
        return [x for x in held.values() if x.question.pair[1] < self.session.n_items]


@contextmanager
def _short_turns() -> Iterator[None]:
    """Shorten the thread switch interval so that a running fit does not delay answers."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_TURN)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
