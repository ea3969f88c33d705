"""The labelling service: leases questions, stores answers, and keeps the model fitted."""

from __future__ import annotations

import operator
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.data import default_cache_dir
from sortnet.errors import StoreError
from sortnet.items import Items
from sortnet.preference import Judgement, Question
from sortnet.preference.annotator_reports import AnnotatorReport
from sortnet.preference.fit_process import Call
from sortnet.preference.goal import Goal
from sortnet.preference.intervals import Ranking
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.session import Session
from sortnet.preference.stopping import Remaining
from sortnet.preference.study import Study, study_of
from store.collections.collection import Collection, Stored
from store.collections.leases import Lease
from store.database.process import Process
from store.service.convergence import Convergence

ATTEMPTS = 5  # at new questions, if other processes lease the same pairs meanwhile
SESSION_SETTINGS = ("strategy", "holdout", "repeats")
# Seconds for which other work may hold the interpreter while somebody answers. An answer needs it
# about fifty times, at each step of the database.
_SWITCH_INTERVAL = 0.0005
_PAUSE = 2.0  # after a fit in a thread, relative to its duration: answers come first
# Answers that a program may give before a fit; or 5 % of the answers or of the items, if more.
_MOST_UNFITTED = 20


def new_session(
    collection: Collection, items: Items, study: Study | None = None, **more: Any
) -> Session:
    """A session about the items with the collection's settings, and no judgements yet.

    A StoreError if the collection has criteria, each of which has a session.
    """
    collection.check_one_question()
    settings = collection.settings
    study = study or collection.study()
    known = {name: settings[name] for name in SESSION_SETTINGS if name in settings}
    return Session(
        items.features,
        len(items),
        groups=items.groups,
        among=collection.allowed_pairs(),
        keep=_folder_of_fits(),
        study=study,
        **{"seed": collection.seed, "set_size": study.set_size, **known, **more},
    )


def _folder_of_fits() -> Path | None:
    with suppress(RuntimeError):  # there may be no home folder
        return default_cache_dir() / "fits"
    return None


class LabellingService:
    """A collection's session, synchronised with the database and kept fitted; thread-safe.

    The state of a session is a replay of the stored judgements. So nothing is lost with the
    process, and several processes, each with its own service, may serve one collection.

    Args:
        lease_seconds: duration of a lease.
        goal: when to stop; None: the study's.
        record: whether refits become iterations of a run until `close`, see `Convergence`.
        call: see `Session`.

    Raises:
        StoreError: on a collection of fewer than two items.

    Attributes:
        session, study, items: the session, the study's present state, and the items to sort.
        ranking, remaining: of the last fit; before the first one, by the features alone.
        fault: the error of the last fit, else empty.

    Cost: opening reads all judgements and replays them, about 6 us each; later calls read only
    new ones.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        lease_seconds: float = 600,
        goal: Goal | None = None,
        record: bool = False,
        call: Call = operator.call,
    ) -> None:
        self.collection = collection
        self.lease_seconds = lease_seconds
        self._goal, self._call = goal, call
        self._lock = threading.RLock()
        # {annotator: {id: lease}}, leased here or adopted
        self._own: dict[str, dict[str, Lease]] = {}
        self._fitted: tuple[Session, int] | None = None  # and its number of events at the fit
        self._fitting: threading.Thread | None = None
        self._forecasting: threading.Thread | None = None
        self._remaining_lock = threading.Lock()
        self._pause_until = 0.0
        self._is_net_old = False  # perhaps: the last fit was to train none
        self.fault = ""
        self._open()
        self.ranking: Ranking = self.session.ranking(fresh=False)
        self.remaining: Remaining = self.session.remaining(fresh=False)
        self._convergence = Convergence(collection, self._last_number) if record else None

    def close(self) -> None:
        """Record the last fit, if fits are recorded."""
        if self._convergence is not None:
            self._convergence.close()

    def next(self, annotator: str, k: int = 1) -> list[Lease]:
        """The next k questions to an annotator, fewer if there are no more.

        Their unanswered questions come first, so that a reloaded page shows the same: in the first
        call for an annotator all that this process or one that has ended leased, later those that
        this service leased. So two services do not ask one question twice: not while another
        process asks it, and not when it was answered since this service last looked.

        Cost: a transaction to read, and one to lease if there is something to lease or renew.
        """
        with self._lock:
            live = self._look()
            if self.why_closed(annotator):
                return []
            held = self._held(annotator, live)
            k = self._within_quota(annotator, k, live)
            soon = self.collection.clock() + self.lease_seconds / 2
            process = Process.here()
            is_due = any(lease.expires < soon or lease.process != process for lease in held)
            late = [lease.id for lease in held] if is_due else []
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
                live = self._look()
            return held[:k]

    def lease(self, annotator: str, questions: Sequence[Question]) -> list[Lease]:
        """Lease the given questions to an annotator, except those whose pair is not free."""
        with self._lock:
            return self._lease(annotator, questions)

    def held(self, annotator: str) -> list[Lease]:
        """Their unanswered questions, renewed if they expire soon."""
        with self._lock:
            self.next(annotator, 0)
            closed = self.why_closed(annotator)
            return [] if closed else list(self._own[annotator].values())

    def release(self, annotator: str) -> None:
        """Release the questions that an annotator has from this service."""
        with self._lock:
            self.collection.release(annotator, sorted(self._own.get(annotator, ())))

    def sees(self, annotator: str, item: int) -> bool:
        """Whether an item is in a live question of an annotator, or in one that they answered.

        Cost: a pass over the judgements; a transaction if it is in none.
        """
        with self._lock:
            for each in (self.session.judgements(), self._set_aside):
                of_item = (each.left == item) | (each.right == item)
                of_item |= (each.further == item).any(axis=1)
                if (of_item & each.by(annotator)).any():
                    return True
        live = self.collection.leases(annotator)
        return any(item in lease.question.items for lease in live)

    def question(self, annotator: str, lease: str) -> Question:
        """The question of an annotator's lease; a LeaseError if there is none."""
        with self._lock:
            own = self._own.get(annotator, {}).get(lease)
        return self.collection.question(lease) if own is None else own.question

    def answer(self, lease: str, judgement: Judgement) -> Stored:
        """Store the answer to a question, by a transaction; if repeated, return the first one.

        A LeaseError on a lease that is unknown, expired, released or another's.
        """
        with self._lock:
            stored = self.collection.answer(lease, judgement, after=self._last_number)
            if stored.since.highest_item >= self.session.n_items:
                self.sync()
            else:
                self._take_in(stored.since)
            return stored

    def undo(self, annotator: str) -> Judgement | None:
        """Undo an annotator's last answer and release their questions: the undone one comes next.

        None if there is nothing to undo, or they are excluded or paused.
        """
        with self._lock:
            live = self._look()
            last = self.session.last(annotator)
            if last is None or self.study.why_closed(annotator, 0):
                return None
            self._held(annotator, live)
            self.release(annotator)
            undo = self.collection.undo(annotator, last.number)
            self.sync()
            return undo

    def why_closed(self, annotator: str) -> str:
        """Why an annotator is asked nothing, in words; empty if they are."""
        now = self.collection.clock()
        return self.study.why_closed(annotator, self.session.answered(annotator), now)

    def why_nothing_left(self, annotator: str) -> str:
        """Why there is no question for an annotator, in words."""
        if closed := self.why_closed(annotator):
            return closed
        leases = self.collection.leases()
        if batches := sorted({lease.batch for lease in leases if lease.batch is not None}):
            names = ", ".join(batches)
            return f"nothing to ask now: the remaining pairs are in batch {names}, or reserved"
        if leases:
            return "nothing to ask now: the remaining pairs are reserved by other annotators"
        return "all pairs were asked"

    def answered(self, annotator: str) -> int:
        """The number of an annotator's answers as in `Session`, also of an excluded one."""
        with self._lock:
            excluded = self._set_aside
            n_set_aside = int(np.count_nonzero(excluded.is_answer & excluded.by(annotator)))
            return self.session.answered(annotator) + n_set_aside

    def judgements(self) -> Judgements:
        """All judgements in their order, with those of excluded annotators."""
        with self._lock:
            events = self.session.judgements()
            if not len(self._set_aside):
                return events
            both = Judgements()
            both.extend(events)
            both.extend(self._set_aside)
            return both.where(np.argsort(both.number))

    @property
    def moment(self) -> tuple[int, ...]:
        """Numbers that change with each judgement, decision and fit that was read or made."""
        fitted = -1 if self._fitted is None else self._fitted[1]
        return self._last_number, len(self._decisions), fitted

    def reports(self, names: Sequence[str]) -> list[AnnotatorReport]:
        """What is known of each annotator, by the last fit."""
        with self._lock:
            session, judgements = self.session, self.judgements()
            study = self.study  # newer than the session's if somebody was paused
        return session.reports(names, judgements, study)

    def models_of_before(self) -> list[str]:
        """Models that gave probabilities while nobody decided what these are, as before 0.5."""
        with self._lock:
            judgements, study = self.session.judgements(), self.study
        undecided = [name for name in study.models if name not in study.probabilities]
        return [name for name in undecided if not np.isnan(judgements.p[judgements.by(name)]).all()]

    def sync(self) -> int:
        """Read what other processes wrote; returns the number of new judgements."""
        with self._lock:
            before = self._last_number
            self._look()
            return self._last_number - before

    @property
    def known(self) -> bool:
        """Whether there has been a fit."""
        return self._fitted is not None

    @property
    def stale(self) -> bool:
        """Whether the ranking is older than the answers."""
        return self._fitted != (self.session, self.session.events)

    def update(self, *, keep_net: bool = False, pause: bool = True) -> None:
        """Fit the model to the new answers: now if that is quick, else in a thread.

        Args:
            keep_net: see `Session.refit`.
            pause: whether answers have the processor for some time after a fit in a thread.
        """
        if not self.stale:
            return
        if self.session.quick:
            self._try_fit()
            running = self._forecasting is not None and self._forecasting.is_alive()
            if not running and self.session.forecast_due:
                # It takes longer than a small fit, and nobody waits for it.
                self._forecasting = threading.Thread(target=self._try_forecast, daemon=True)
                self._forecasting.start()
            return
        with self._lock:
            running = self._fitting is not None and self._fitting.is_alive()
            may_start = not pause or time.monotonic() >= self._pause_until
            if may_start and not running:
                # A daemon: the process need not wait for a fit, which writes nothing.
                fit = partial(self._try_fit, keep_net=keep_net)
                self._fitting = threading.Thread(target=fit, daemon=True)
                self._fitting.start()

    def keep_up(self, *, side_by_side: bool = False) -> None:
        """`update`, but wait for the fit if a program answers faster than the model is fitted.

        Nets are trained when the answers have doubled, and by `settle`.

        Args:
            side_by_side: whether other threads answer meanwhile: then a fit that is due begins in
                a thread, too, and only at twice as many answers it is waited for.
        """
        session = self.session
        due = max(_MOST_UNFITTED, session.events // 20, session.n_items // 20)
        most = 2 * due if side_by_side else due
        self.update(keep_net=True, pause=not side_by_side or session.behind <= due)
        if session.behind > most:
            if self._fitting is not None:
                self._fitting.join()
            if session.behind > due:
                self._fit(keep_net=True)

    def settle(self) -> None:
        """Wait until `ranking` and `remaining` include every answer."""
        if self._fitting is not None:
            self._fitting.join()
        if self.stale or self._is_net_old:
            self._fit()
        if self.session.forecast_due:
            self._renew_forecast()

    def _try_forecast(self) -> None:
        """Renew the forecast, in a thread of its own.

        An error becomes the `fault`, as that of a fit.
        """
        try:
            with short_turns():
                self._renew_forecast()
        except Exception as error:  # any error: answers must still be stored
            self.fault = f"{type(error).__name__}: {error}"

    def _renew_forecast(self) -> None:
        session = self.session
        session.renew_forecast()
        self._renew_remaining(session)

    def _renew_remaining(self, session: Session) -> None:
        """Set `remaining` by the session's last fit; of two threads the later one has the newer."""
        with self._remaining_lock:
            if session is self.session:
                self.remaining = session.remaining(fresh=False)

    def _fit(self, *, keep_net: bool = False) -> None:
        with self._lock:
            session, events, number = self.session, self.session.events, self._last_number
        started = time.monotonic()
        with short_turns():
            session.refit(keep_net=keep_net)
            self.ranking = session.ranking(fresh=False)
            self._renew_remaining(session)
        self._fitted, self._is_net_old = (session, events), keep_net
        if self._convergence is not None:
            about = session.n_votes, self.remaining, session.goal
            self._convergence.add(number, *about, time.monotonic() - started)

    def _try_fit(self, *, keep_net: bool = False) -> None:
        """Fit, and renew the forecast if it may take its time."""
        started = time.monotonic()
        try:
            self._fit(keep_net=keep_net)
            if not self.session.quick and self.session.forecast_due:
                self._renew_forecast()
            self.fault = ""
        except Exception as error:  # any error: answers must still be stored
            self.fault = f"{type(error).__name__}: {error}"
        now = time.monotonic()
        self._pause_until = now + _PAUSE * (now - started)

    def _open(self) -> None:
        """Start from scratch: read the items, replay the judgements."""
        # Those that are there before the items: then no item that they refer to can be missing.
        blocks = self.collection.blocks()
        self._decisions = self.collection.decisions()
        self.study = study_of(self._decisions)
        self.items = self.collection.items()
        if len(self.items) < 2:
            raise StoreError(
                f"collection {self.collection.name!r} has {len(self.items)} item(s); "
                "there must be two to compare"
            )
        goal = self._goal or self.study.wanted()
        about = self.collection, self.items, self.study
        self.session = new_session(*about, goal=goal, call=self._call)
        self._last_number = 0
        self._set_aside = Judgements()
        for judgements in blocks:
            self._take_in(judgements)

    def _look(self) -> list[Lease]:
        """Read what is new; returns all live leases."""
        changes = self.collection.changes(self._last_number, len(self._decisions))
        before = self.study
        if changes.decisions:
            self._decisions += changes.decisions
            self.study = study_of(self._decisions)
        if changes.n_items > self.session.n_items or not self.study.asks_alike(before):
            self._open()
        else:
            self._take_in(changes.judgements)
        return changes.leases

    def _within_quota(self, annotator: str, k: int, live: Sequence[Lease]) -> int:
        """At most as many questions as their quota leaves, with those from other services."""
        left = self.study.left(annotator, self.session.answered(annotator))
        own = self._own[annotator]
        elsewhere = sum(x.annotator == annotator and x.id not in own for x in live)
        return k if left is None else max(min(k, left - elsewhere), 0)

    def _take_in(self, judgements: Judgements) -> None:
        if not len(judgements):
            return
        self.session.replay(judgements)
        names = [*self.study.excluded.keys() & judgements.annotators.keys()]
        if names:
            of_excluded = np.isin(judgements.annotator, [judgements.annotators[n] for n in names])
            self._set_aside.extend(judgements.where(of_excluded))
        self._last_number = int(judgements.number[-1])

    def _ask(self, annotator: str, k: int, live: Sequence[Lease]) -> list[Question]:
        """New questions about pairs without a live lease."""
        if k <= 0:
            return []
        pairs = {pair for lease in live for pair in lease.question.pairs}
        busy = {pair for pair in pairs if pair[1] < self.session.n_items}
        return self.session.ask(annotator, k, busy=busy, wait=False)

    def _lease(
        self, annotator: str, questions: Sequence[Question], *, renew: Sequence[str] = ()
    ) -> list[Lease]:
        leases = self.collection.lease(
            annotator, questions, self.lease_seconds, renew=renew, after=self._last_number
        )
        of_annotator = self._own.setdefault(annotator, {})
        for id in renew:  # perhaps another process has taken it over
            of_annotator.pop(id, None)
        of_annotator.update({lease.id: lease for lease in leases})
        return leases

    def _held(self, annotator: str, live: Sequence[Lease]) -> list[Lease]:
        """An annotator's live leases of this service; first those that it may take over."""
        own = self._own.get(annotator)
        theirs = [lease for lease in live if lease.annotator == annotator]
        if own is None:
            process = Process.here()
            mine = [lease for lease in theirs if lease.may_be_taken_over(process)]
        else:
            mine = [lease for lease in theirs if lease.id in own]
        held = {lease.id: lease for lease in mine}
        self._own[annotator] = held
        n, allows = self.session.n_items, self.session.allows
        return [
            lease
            for lease in held.values()
            if max(lease.question.items) < n and all(map(allows, lease.question.pairs))
        ]


@contextmanager
def short_turns() -> Iterator[None]:
    """Shorten the thread switch interval, so that other work does not delay answers.

    >>> with short_turns():
    ...     sys.getswitchinterval() < 0.001
    True
    """
    _SHORT_TURNS.enter()
    try:
        yield
    finally:
        _SHORT_TURNS.leave()


class _ShortTurns:
    """The switch interval of the process, which is short while any thread needs it to be."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._before = 0.0

    def enter(self) -> None:
        with self._lock:
            if not self._threads:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(_SWITCH_INTERVAL)
            self._threads += 1

    def leave(self) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                sys.setswitchinterval(self._before)


_SHORT_TURNS = _ShortTurns()
