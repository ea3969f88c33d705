"""The labelling service: leases questions, stores answers, and keeps the model fitted."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sortnet.errors import StoreError
from sortnet.files import Record
from sortnet.items import Items
from sortnet.preference import Judgement, Question
from sortnet.preference.annotator_reports import AnnotatorReport
from sortnet.preference.intervals import Ranking
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.session import Session
from sortnet.preference.stopping import Goal, Remaining
from sortnet.preference.study import Study, study_of
from store.collections.collection import Collection, Stored
from store.collections.leases import Lease

ATTEMPTS = 5  # times to choose questions, because other processes may lease the same pairs first
SESSION_SETTINGS = ("strategy", "holdout", "repeats")
# After a fit in a thread, no further fit starts for this multiple of the fit's duration, so that
# few answers meet a fit, beside which they take longer.
_PAUSE_FACTOR = 10.0
_LONGEST_WAIT = 2.0  # seconds that an annotator waits for a fit to few items


def new_session(
    collection: Collection, items: Items, study: Study | None = None, **overrides: Any
) -> Session:
    """Make a session about the items with the collection's settings, without judgements.

    Args:
        study: the present state of the study; None: it is read from the collection.
        overrides: arguments of `Session` that replace the collection's settings.

    Raises:
        StoreError: if the collection has criteria, because each criterion has its own session.
    """
    collection.check_one_question()
    if study is None:
        study = collection.study()
    settings: Record = {"seed": collection.seed, "set_size": study.set_size}
    for name in SESSION_SETTINGS:
        if name in collection.settings:
            settings[name] = collection.settings[name]
    settings.update(overrides)
    return Session(
        items.features,
        len(items),
        groups=items.groups,
        among=collection.allowed_pairs(),
        study=study,
        **settings,
    )


class LabellingService:
    """A collection's session, synchronised with the database and kept fitted; thread-safe.

    The service replays the stored judgements to get the state of a session. So nothing is lost when
    a process ends, and several processes, each with its own service, may serve one collection.

    Args:
        collection: the collection whose items are sorted.
        lease_seconds: duration of a lease.
        goal: the goal at which the asking stops; None: the goal of the study.

    Raises:
        StoreError: if the collection has fewer than two items.

    Attributes:
        session: the session with the judgements that were read.
        study: the present state of the study.
        items: the items to sort.
        ranking: the ranking by the last fit; before the first fit, by the features alone.
        remaining: the distance from the goal by the last fit.
        fault: the error of the last fit; empty if there was none.
        last_number: the number of the last judgement that was read.
        fits_beside: whether no question waits for a fit, so that several workers have something to
            do. If not, a question about few items waits for the fit that is due.

    Cost: opening reads all judgements and replays them, about 6 us each; later calls read only
    new ones.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        lease_seconds: float = 600,
        goal: Goal | None = None,
    ) -> None:
        """Replay the stored judgements, and rank the items by features alone until the first fit.

        The arguments are described at the class.
        """
        self.collection = collection
        self.lease_seconds = lease_seconds
        self._goal = goal
        self._lock = threading.RLock()
        # The session that was fitted last, and its number of events at that time.
        self._last_fit: tuple[Session, int] | None = None
        self._fitting: threading.Thread | None = None
        self._fit_lock = threading.Lock()
        self._pause_until = 0.0
        self.fault = ""
        self.fits_beside = False
        self._start_session()
        self.ranking: Ranking = self.session.ranking(fresh=False)
        self.remaining: Remaining = self.session.remaining(fresh=False)

    def close(self) -> None:
        """Raise a StoreError if the SQLite file with the answers was removed or replaced."""
        self.collection.database.check_file()

    def next(self, annotator: str, k: int = 1) -> list[Lease]:
        """Lease the next k questions to an annotator, fewer if there are no more.

        The annotator's unanswered questions come first, so that a reloaded page shows the same
        questions. Among them are questions that an ended process has leased. Several processes
        never ask the same question at the same time, and no service asks a question that was
        answered since the service last read the database. With k = 0, leases that expire soon are
        renewed, and nothing is returned.

        Cost: one transaction to read, and one more to lease or renew questions.
        """
        with self._lock:
            live_leases = self._read_changes()
            if self.why_closed(annotator):
                return []
            n_questions = self.n_within_quota(annotator, k, live_leases)
            leases = self._renew_and_lease(annotator, n_questions, live_leases)
            return leases[:n_questions]

    def release(self, annotator: str) -> None:
        """Release an annotator's questions, but those that another process asks."""
        with self._lock:
            own_leases = self._own_leases(annotator, self.collection.leases(annotator))
            self.collection.release(annotator, [lease.id for lease in own_leases])

    def sees(self, annotator: str, item: int) -> bool:
        """Tell whether an annotator may see an item: it is in an open or an answered question.

        Cost: a pass over the judgements; a transaction if the item is in no judgement.
        """
        judgements = self.judgements()
        is_about_item = (judgements.items == item).any(axis=1)
        if (is_about_item & judgements.by(annotator)).any():
            return True
        live_leases = self.collection.leases(annotator)
        return any(item in lease.question.items for lease in live_leases)

    def answer(self, lease: str, judgement: Judgement) -> Stored:
        """Store the answer to a leased question, in one transaction.

        Args:
            lease: id of the lease.

        Returns:
            The stored answer; if the question was answered before, its first answer.

        Raises:
            LeaseError: if the lease is unknown, expired, released, or belongs to another annotator.
        """
        with self._lock:
            stored = self.collection.answer(lease, judgement)
            answer = stored.judgement
            is_next = stored.new and answer.number == self.last_number + 1
            if is_next and max(answer.items) < self.session.n_items:
                self._replay(Judgements([answer]))
            else:
                self.sync()  # other judgements or items came in between
            return stored

    def undo(self, annotator: str) -> Judgement | None:
        """Undo an annotator's last answer, and release the annotator's open questions.

        The question of the undone answer is asked next.

        Returns:
            The stored undo; None if there is nothing to undo, or the annotator is excluded or
            paused.
        """
        with self._lock:
            self._read_changes()
            last = self.session.last(annotator)
            # Called with 0 answers and no time, `why_closed` ignores quotas and the deadline.
            if last is None or self.study.why_closed(annotator, 0):
                return None
            self.release(annotator)
            undo = self.collection.undo(annotator, last.number)
            self.sync()
            return undo

    def why_closed(self, annotator: str) -> str:
        """Return the reason why the study asks an annotator nothing; empty if there is none."""
        now = self.collection.clock()
        return self.study.why_closed(annotator, self.session.answered(annotator), now)

    def why_nothing_left(self, annotator: str) -> str:
        """Return the reason why there is no question for an annotator, in words."""
        why_closed = self.why_closed(annotator)
        if why_closed:
            return why_closed
        leases = self.collection.leases()
        batches = {lease.batch for lease in leases if lease.batch is not None}
        if batches:
            names = ", ".join(sorted(batches))
            return f"nothing to ask now: the remaining pairs are in batch {names}, or reserved"
        if leases:
            return "nothing to ask now: the remaining pairs are reserved by other annotators"
        return "all pairs were asked"

    def answered(self, annotator: str) -> int:
        """Count an annotator's answers, even if the annotator is excluded from the session."""
        judgements = self.judgements()
        return int(np.count_nonzero(judgements.is_answer & judgements.by(annotator)))

    def judgements(self) -> Judgements:
        """Return all judgements in their order, with the judgements of excluded annotators."""
        with self._lock:
            return self._judgements.where(slice(None))

    def reports(self, names: Sequence[str]) -> list[AnnotatorReport]:
        """Report on the named annotators, by the last fit."""
        # The study of the service knows who is paused; the session keeps an older study.
        return self.session.reports(names, self.judgements(), self.study)

    def sync(self) -> int:
        """Read the changes of other processes, and return the number of new judgements."""
        with self._lock:
            number_before = self.last_number
            self._read_changes()
            return self.last_number - number_before

    @property
    def questions_expected(self) -> int | None:
        """The number of questions that are left; None if it is not known.

        Before any answer it is the number of questions that ask about every item once.
        """
        if self.remaining.stop:
            return 0
        if self.session.n_votes:
            return self.remaining.questions
        return self.n_questions_once

    @property
    def n_questions_once(self) -> int:
        """The number of questions that ask about every item once."""
        n_asked_about = len(self.items) - len(self.study.retired)
        return math.ceil(n_asked_about / self.session.set_size)

    @property
    def is_fitted(self) -> bool:
        """Whether the model has been fitted."""
        return self._last_fit is not None

    @property
    def _n_unfitted(self) -> int:
        """The number of events that the last fit lacks; 1 at least without a fit of the session."""
        if self._last_fit is None or self._last_fit[0] is not self.session:
            return max(self.session.events, 1)
        return self.session.events - self._last_fit[1]

    def keep_fitted(self, *, wait: bool = False) -> None:
        """Start a thread that fits the model to the new answers, unless a thread is fitting.

        For some time after a fit no further fit starts, so that answers have the processor.

        Args:
            wait: whether to wait a moment for the fit, if it is to few items. So somebody who
                answers in a terminal sees the distance from the goal with the answer just given.
        """
        if not self._n_unfitted:
            return
        is_awaited = wait and self.session.quick
        with self._lock:
            is_running = self._fitting is not None and self._fitting.is_alive()
            is_pausing = not is_awaited and time.monotonic() < self._pause_until
            if not is_running and not is_pausing:
                # The thread is a daemon: a process that ends need not wait for an unfinished fit.
                self._fitting = threading.Thread(target=self._try_fit, daemon=True)
                self._fitting.start()
        if is_awaited and self._fitting is not None:
            self._fitting.join(_LONGEST_WAIT)

    def fit_if_due(self) -> None:
        """Fit the model, or let a thread do so, if a fit is due by the number of new answers."""
        session = self.session
        if not session.is_due(session.events - self._n_unfitted):
            return
        if self.fits_beside:
            self.keep_fitted()
        else:
            self._fit()

    def settle(self) -> None:
        """Fit the model until `ranking` and `remaining` include every answer."""
        if self._fitting is not None:
            self._fitting.join()
        if self._n_unfitted:
            self._fit()

    def _fit(self) -> None:
        """Fit the model to all answers so far, and renew the results."""
        # Two threads may fit: without the lock, the older result could replace the newer result.
        with self._fit_lock:
            session = self.session
            n_events = session.events
            session.refit()
            self.ranking = session.ranking(fresh=False)
            self.remaining = session.remaining(fresh=False)
            self._last_fit = session, n_events

    def _try_fit(self) -> None:
        """Fit the model, and store an error as `fault` instead of raising it.

        The next fit in a thread starts after a pause, ten times as long as this fit.
        """
        started = time.monotonic()
        try:
            self._fit()
            self.fault = ""
        except Exception as error:  # no error may stop the storing of answers
            self.fault = f"{type(error).__name__}: {error}"
        ended = time.monotonic()
        self._pause_until = ended + _PAUSE_FACTOR * (ended - started)

    def _start_session(self) -> None:
        """Start a new session: read the study and the items, and replay the judgements."""
        with self.collection.transaction():
            self._decisions = self.collection.decisions()
            self.study = study_of(self._decisions)
            self.items = self.collection.items()
            if len(self.items) < 2:
                raise StoreError(
                    f"collection {self.collection.name!r} has {len(self.items)} item(s); "
                    "there must be two to compare"
                )
            goal = self._goal or self.study.wanted()
            self.session = new_session(self.collection, self.items, self.study, goal=goal)
            self.last_number = 0
            self._judgements = Judgements()
            self._replay(self.collection.judgements())

    def _read_changes(self) -> list[Lease]:
        """Read new judgements, decisions and items, and return all live leases.

        New items need a new session. So do decisions after which the session would ask or rank in
        another way.
        """
        with self.collection.transaction():
            study_before = self.study
            decisions = self.collection.decisions(len(self._decisions))
            if decisions:
                self._decisions += decisions
                self.study = study_of(self._decisions)
            has_new_items = self.collection.count_items() > self.session.n_items
            if has_new_items or not self.study.asks_alike(study_before):
                self._start_session()
            else:
                self._replay(self.collection.judgements(self.last_number))
            return self.collection.leases()

    def n_within_quota(self, annotator: str, k: int, live_leases: Sequence[Lease]) -> int:
        """Return how many of k questions the annotator's quota allows.

        Questions that other processes have leased to the annotator use up the quota, too.
        """
        n_left = self.study.left(annotator, self.session.answered(annotator))
        if n_left is None:
            return k
        n_leased = sum(lease.annotator == annotator for lease in live_leases)
        n_elsewhere = n_leased - len(self._own_leases(annotator, live_leases))
        return max(min(k, n_left - n_elsewhere), 0)

    def _replay(self, judgements: Judgements) -> None:
        """Add newly read judgements, and advance `last_number` to the last of them.

        The session ignores the judgements of excluded annotators. Reports, counts and `sees` need
        these judgements, too, so the service keeps all judgements beside the session.
        """
        if len(judgements):
            self.session.replay(judgements)
            self._judgements.extend(judgements)
            self.last_number = int(judgements.number[-1])

    def _renew_and_lease(
        self, annotator: str, n_questions: int, live_leases: Sequence[Lease]
    ) -> list[Lease]:
        """Renew an annotator's leases if they expire soon, and lease more questions if needed.

        Leases about pairs that the session does not allow are ignored. If other processes lease the
        chosen pairs first, others are chosen, at most five times.

        Args:
            n_questions: number of leases that the annotator needs; there may be more already.
            live_leases: the leases of all annotators.

        Returns:
            All leases of the annotator; fewer than `n_questions` if there are no more questions.
        """
        own = self._own_leases(annotator, live_leases)
        leases = [lease for lease in own if all(map(self.session.allows, lease.question.pairs))]
        soon = self.collection.clock() + self.lease_seconds / 2
        process = self.collection.database.claims.process
        to_renew: list[str] = []
        if any(lease.expires < soon or lease.process != process for lease in leases):
            to_renew = [lease.id for lease in leases]
            leases = []
        for _ in range(ATTEMPTS):
            n_missing = n_questions - len(leases) - len(to_renew)
            questions: list[Question] = []
            if n_missing > 0:
                busy = {pair for lease in live_leases for pair in lease.question.pairs}
                wait = self.session.quick and not self.fits_beside
                questions = self.session.ask(annotator, n_missing, busy=busy, wait=wait)
            n_wanted = len(to_renew) + len(questions)
            if n_wanted == 0:
                break
            renewed_and_new = self.lease(annotator, questions, renew=to_renew)
            leases = leases + renewed_and_new
            if len(renewed_and_new) == n_wanted:
                break
            # Another process has leased some of the chosen pairs: choose other pairs.
            live_leases = self._read_changes()
            to_renew = []
        return leases

    def lease(
        self, annotator: str, questions: Sequence[Question], *, renew: Sequence[str] = ()
    ) -> list[Lease]:
        """Lease questions, renew the leases whose ids are in `renew`, and return all these leases.

        A question with a leased pair is left out.
        """
        return self.collection.lease(
            annotator, questions, self.lease_seconds, renew=renew, after=self.last_number
        )

    def _own_leases(self, annotator: str, live_leases: Sequence[Lease]) -> list[Lease]:
        """List an annotator's leases of this process and of ended processes."""
        return [
            lease
            for lease in live_leases
            if lease.annotator == annotator and self.collection.may_take_over(lease)
        ]


def report_annotators(collection: Collection) -> list[AnnotatorReport]:
    """Report on all annotators of a collection.

    Cost: a fit to all judgements.
    """
    with collection.transaction():
        service = LabellingService(collection)
        names = [annotator.name for annotator in collection.annotators()]
    service.settle()
    return service.reports(names)


@contextmanager
def created_annotator(collection: Collection, name: str) -> Iterator[None]:
    """Create an annotator for a `with` block, unless the annotator exists.

    When the block ends, a created annotator who has given no answer is removed.
    """
    is_new = name not in {annotator.name for annotator in collection.annotators()}
    collection.annotator(name)
    try:
        yield
    finally:
        if is_new:
            collection.forget(name)  # `forget` keeps an annotator with answers
