"""The desk: where questions are handed out and answers come in; a collection and its session."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sortnet.errors import StoreError
from sortnet.preference import Answer, Judgement, Question
from sortnet.preference.session import Session
from store.collections.collection import Collection
from store.collections.leases import Lease

ATTEMPTS = 5  # at new questions, where other processes lease the same pairs meanwhile
SESSION_SETTINGS = ("strategy", "holdout", "repeats")


class LabellingService:
    """A collection's session, kept up with the database; any number of threads may call.

    A session's state is what a replay of the stored judgements gives. So nothing here is lost
    with the process, and several processes, each with a desk of its own, serve one collection.

    Args:
        lease_seconds: for how long a question stays with whom it was put to.
        seed: of the session; None for the collection's.

    Raises:
        StoreError: on a collection of fewer than two items.

    Attributes:
        session: asks, ranks, says what remains; `session.refit()` in a thread of one's own.
        items: what is sorted.

    Cost: opening reads all judgements, some 10 us each and what the session makes of them; later
    calls read only what is new.
    """

    def __init__(
        self, collection: Collection, *, lease_seconds: float = 600, seed: int | None = None
    ) -> None:
        self.collection = collection
        self.lease_seconds = lease_seconds
        self._seed = collection.seed if seed is None else seed
        self._lock = threading.RLock()
        self._own: dict[str, set[str]] = {}  # {annotator: leases}, handed out here or adopted
        self._open()

    def next(self, annotator: str, k: int = 1) -> list[Lease]:
        """The next k questions to an annotator, fewer where there are no more.

        Those that were put to them and not answered come first, so that a page that is loaded
        again shows the same: all of them the first time that this desk is asked for an annotator,
        from then on those that it handed out. So two desks do not put one question twice.
        """
        with self._lock:
            self.sync()
            leases = self._held(annotator)[:k]
            for _ in range(ATTEMPTS):
                if len(leases) >= k:
                    break
                live = self.collection.live_pairs()
                busy = {pair for pair in live if pair[1] < self.session.n_items}
                questions = self.session.ask(annotator, k - len(leases), busy=busy)
                if not questions:
                    break
                leases += self.lease(annotator, questions)
            return leases

    def lease(self, annotator: str, questions: Sequence[Question]) -> list[Lease]:
        """Put questions of one's own choice to an annotator; those whose pair is free."""
        with self._lock:
            leases = self.collection.lease(annotator, questions, self.lease_seconds)
            self._own.setdefault(annotator, set()).update(lease.id for lease in leases)
            return leases

    def release(self, annotator: str) -> None:
        """Take back the questions that an annotator has from this desk."""
        with self._lock:
            self.collection.release(annotator, sorted(self._own.get(annotator, ())))

    def answer(
        self, lease: str, annotator: str, answer: Answer, milliseconds: int | None = None
    ) -> Judgement:
        """Take the answer to a question; the same again gives back what was answered first.

        Raises:
            LeaseError: on a lease that is unknown, expired, taken back or another's.
            JudgementError: on an unknown answer, or a time that cannot be.
        """
        return self.settle(lease, annotator, answer, milliseconds)[0]

    def settle(
        self, lease: str, annotator: str, answer: Answer, milliseconds: int | None = None
    ) -> tuple[Judgement, bool]:
        """As `answer`, and whether it was stored now: False where it had been answered before."""
        with self._lock:
            settled = self.collection.settle(lease, annotator, answer, milliseconds)
            self.sync()
            return settled

    def undo(self, annotator: str) -> Judgement | None:
        """Take back an annotator's last answer, and their open questions: the undone comes next.

        None where there is nothing to take back.
        """
        with self._lock:
            self.sync()
            last = self.session.last(annotator)
            if last is None:
                return None
            self._held(annotator)
            self.release(annotator)
            undo = self.collection.undo(annotator, last.number)
            self.sync()
            return undo

    def sync(self) -> int:
        """Take in what other processes wrote; how many judgements there were."""
        with self._lock:
            before = self._told
            new = self.collection.judgements(after=before)
            # The items afterwards: none that the judgements speak of can be missing then.
            if self.collection.n_items() > self.session.n_items:
                self._open()
            else:
                self._tell(new)
            return self._told - before

    def _open(self) -> None:
        """Begin anew: read the items, replay the judgements."""
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
            **{name: settings[name] for name in SESSION_SETTINGS if name in settings},
        )
        self._told = 0
        self._tell(judgements)

    def _tell(self, judgements: list[Judgement]) -> None:
        for judgement in judgements:
            self.session.tell(judgement)
            self._told = judgement.number

    def _held(self, annotator: str) -> list[Lease]:
        """An annotator's live leases of this desk, with time to answer them."""
        leases = self._live(annotator)
        soon = self.collection.clock() + self.lease_seconds / 2
        if any(lease.expires < soon for lease in leases):
            ids = [lease.id for lease in leases]
            self.collection.renew(annotator, ids, self.lease_seconds)
            leases = self._live(annotator)
        self._own[annotator] = {lease.id for lease in leases}
        return [lease for lease in leases if lease.pair[1] < self.session.n_items]

    def _live(self, annotator: str) -> list[Lease]:
        own = self._own.get(annotator)
        leases = self.collection.leases(annotator)
        return [lease for lease in leases if own is None or lease.id in own]
