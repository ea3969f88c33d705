"""A collection in the store: its items, annotators, judgements and leases."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import delete, update

from sortnet.errors import JudgementError, StudyError
from sortnet.preference import Judgement, Question
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.study import ABOUT_ONE, LINKS, Decision
from store.collections.batches import BatchRows
from store.collections.collection_rows import (
    find_collection,
    is_name,
    settings_of,
    with_criteria,
)
from store.collections.decision_rows import DecisionRows
from store.collections.judgement_rows import JudgementRows
from store.collections.leases import Lease, plausible
from store.collections.server_claim import ServerRows
from store.database.engine import Database
from store.database.schema import CollectionRow, LeaseRow

if TYPE_CHECKING:
    import pandas as pd


class Changes(NamedTuple):
    """New judgements and decisions of a collection, its number of items, and all live leases."""

    judgements: Judgements
    n_items: int
    leases: list[Lease]
    decisions: list[Decision]


class Stored(NamedTuple):
    """A stored answer.

    Attributes:
        judgement: the answer, with its number.
        new: whether it was stored now; False if the question had been answered before.
        since: all judgements after the last number known to the caller.
    """

    judgement: Judgement
    new: bool
    since: Judgements


class Collection(DecisionRows, JudgementRows, ServerRows, BatchRows):
    """A collection as `Store.collection` returns it.

    A criterion of a collection is a collection too, named `NAME:CRITERION`: it has judgements,
    annotators and decisions of its own, and asks about the items of NAME.

    Operations on one table are those of the classes that it inherits; here are those on several.

    Attributes:
        name: its name.
        number: its key in the tables.
        items_of: the key of the collection that has its items: its own, unless it is a criterion.
        seed: of its sessions.
        settings: of its sessions, such as `strategy`, `holdout` and `repeats`.
        created: time in UTC.
    """

    def __init__(
        self, database: Database, name: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        with database.transaction() as connection:
            row = find_collection(connection, database.name, name)
            self.settings: dict[str, Any] = settings_of(connection, row)
        super().__init__(database, row.number, row.name, items_of=row.items_of, clock=clock)
        self.seed: int = row.seed
        self.created: datetime = row.created.replace(tzinfo=UTC)

    def __repr__(self) -> str:
        return f"Collection({self.name}, {self.database.name})"

    @property
    def criterion(self) -> str | None:
        """The name of the criterion within its collection; None if it is no criterion."""
        return None if self.items_of == self.number else self.name.rpartition(":")[2]

    def asked(self) -> list[Collection]:
        """What annotators are asked about: its criteria in order of creation, itself without."""
        names = self.criteria()
        return [Collection(self.database, name, clock=self.clock) for name in names] or [self]

    def add_criterion(self, name: str) -> Collection:
        """A new criterion, by which the items are compared in addition to those there are.

        A StoreError on a name that is taken or has a colon; if this is a criterion itself, or has
        judgements about its own question.
        """
        with self.locked():
            self._insert_criterion(name)
        return Collection(self.database, f"{self.name}:{name}", clock=self.clock)

    def remove(self) -> None:
        """Remove the collection with all its rows and criteria; a criterion leaves the items."""
        with self.locked() as connection:
            these = CollectionRow.number.in_(with_criteria(self.number))
            connection.execute(delete(CollectionRow).where(these))  # by the keys, all of theirs

    def decide(self, *decisions: Decision) -> list[Decision]:
        """Append decisions, all or none; they get new numbers.

        `Decision("exclude", "eve", reason="coin tosses")` leaves eve's judgements in the store and
        in exports, but sessions, rankings and training do not count them; the opposite decision
        undoes it. Questions that were put to an annotator who is out, or about a retired item, are
        taken back; a renewed link replaces the old one. Known gold pairs are left out.

        Annotators, items, goals and instructions of a collection with criteria are decided on for
        each criterion. Its links are its own.

        Raises:
            StoreError: on an unknown annotator; if one criterion must be meant.
            StudyError: on an unknown item, or if a decision changes nothing.
        """
        if (asked := self.asked()) != [self] and not {d.kind for d in decisions} <= LINKS:
            return self._decide_for(asked, decisions)
        for name in {d.annotator for d in decisions if d.annotator is not None}:
            self.annotator(name, create=False)
        with self.locked():
            keys = self._annotator_keys(d.annotator for d in decisions if d.annotator)
            at = self.clock()
            timed = [replace(decision, at=at) for decision in decisions]
            return self._insert_decisions(timed, keys)

    def _decide_for(
        self, criteria: Sequence[Collection], decisions: Sequence[Decision]
    ) -> list[Decision]:
        """Decide for each criterion; one of which it holds already is no obstacle for others."""
        if {d.kind for d in decisions} & ABOUT_ONE:
            self.check_one_question()
        names = {decision.annotator for decision in decisions if decision.annotator is not None}
        numbered: list[Decision] = []
        faults: list[StudyError] = []
        annotators = {
            annotator.name
            for collection in (self, *criteria)
            for annotator in collection.annotators()
        }
        for name in names - annotators:
            self.annotator(name, create=False)
        for criterion in criteria:
            for name in names:
                criterion.annotator(name)
            try:
                numbered += criterion.decide(*decisions)
            except StudyError as fault:
                faults.append(fault)
        if len(faults) == len(criteria):
            raise faults[0]
        return numbered

    def counted_judgements(self) -> Judgements:
        """All judgements, including undos, but those of excluded annotators."""
        return self.judgements().without(self.study().excluded)

    def changes(self, after: int, decided: int = 0) -> Changes:
        """What is new, in one snapshot: judgements and decisions with higher numbers."""
        with self.transaction():
            return Changes(
                self._judgements(after),
                self._next_item(),
                self._live_leases(self.clock()),
                self.decisions(decided),
            )

    def judgements_frame(self) -> pd.DataFrame:
        """One row per judgement: annotator, both items, answer, whether it was undone later.

        Also whether its annotator is excluded, and the items' group if they have groups. Undos
        are rows too, with the items of the judgement that they undo. Rows about more than two items
        have `items`, `best` and `worst`, columns that are there if there is such a row, and neither
        left nor right.
        """
        from store.frames import judgements_frame

        with self.transaction():
            judgements = self._judgements(0)
            items = self._item_groups()
            excluded = self.study().excluded
        return judgements_frame(judgements, items, excluded)

    def lease(
        self,
        annotator: str,
        questions: Sequence[Question],
        seconds: float,
        *,
        renew: Sequence[str] = (),
        after: int | None = None,
        batch: str | None = None,
    ) -> list[Lease]:
        """Lease to an annotator the questions with no pair under a live lease, for some seconds.

        Those of their live leases whose ids are in `renew` are renewed and come first, but for
        those that another process may still ask about. None are leased if the annotator is
        excluded or paused. `after` is the number of the last judgement known to the caller: a pair
        that the annotator has answered since is not leased. `batch` names the batch that the
        questions are written to a file with.
        """
        # Leases lost in a power cut are simply leased again: no need to wait for the disk. The
        # answers to a batch, however, are known by its leases.
        with self.locked(durable=batch is not None):
            now = self.clock()
            key = self._annotator_keys([annotator])[annotator]
            if self._is_closed(key):
                return []
            if questions and after is not None:
                since = self._judgements(after)
                pairs = {
                    pair
                    for answer in since
                    if answer.annotator == annotator
                    for pair in answer.pairs
                }
                questions = [q for q in questions if pairs.isdisjoint(q.pairs)]
            return self._take_leases(
                annotator, key, questions, renew, now=now, expires=now + seconds, batch=batch
            )

    def release(self, annotator: str, leases: Sequence[str] | None = None) -> None:
        """Release an annotator's leases: all, or those of `leases`."""
        with self.locked():
            these = [LeaseRow.annotator == self._annotator_key(annotator)]
            if leases is not None:
                these.append(LeaseRow.id.in_(leases))
            self._close_leases(*these)

    def answer(self, lease: str, judgement: Judgement, *, after: int | None = None) -> Stored:
        """Store an answer to a leased question; if it is repeated, return the first answer.

        The question is taken from the lease. `after` is the number of the last judgement known to
        the caller, to get those after it.

        Raises:
            LeaseError: on a lease that is unknown, expired, released or another's.
            JudgementError: on an undo.
        """
        if judgement.undoes is not None:
            raise JudgementError("an undo is no answer to a question")
        annotator = judgement.annotator
        with self.locked():
            now = self.clock()
            stored = None
            if plausible(lease) and is_name(annotator):
                stored = self._answer_under(lease, annotator)
            new = stored is None
            if stored is None:
                leased = self._live_lease_of(lease, annotator, now)
                answer = replace(judgement, **vars(leased.question), at=now)
                keys = self._annotator_keys([annotator])
                self._close_answered(lease)
                (stored,) = self._insert_judgements([answer], keys, lease=lease)
            if after is None or stored.number == after + 1:
                return Stored(stored, new, Judgements.of([stored]))
            return Stored(stored, new, self._judgements(after))

    def undo(self, annotator: str, number: int) -> Judgement:
        """Undo a judgement of that annotator; returns the undo, which is a judgement too.

        A JudgementError if it does not exist, or is another's, an undo, or undone.
        """
        with self.locked():
            judgement = self._judgement_to_undo(number)
            undo = replace(judgement.undo(), annotator=annotator, at=self.clock())
            return self._insert_judgements([undo], self._annotator_keys([annotator]))[0]

    def append(
        self, judgements: Sequence[Judgement], *, ids: Sequence[str] | None = None
    ) -> list[Judgement]:
        """Append judgements, all or none; they get new numbers.

        An undo refers to the number that the judgement has among them, else to a stored number. By
        `ids` a later import recognises them; known ones are left out. A JudgementError on an
        unknown item, or an undo of an unknown judgement.
        """
        with self.locked():
            n_items = self._next_item()
            self.check_one_question()
            for judgement in judgements:
                lowest, highest = min(judgement.items), max(judgement.items)
                if not 0 <= lowest <= highest < n_items:
                    raise JudgementError(
                        f"collection {self.name!r} has no item {highest}: "
                        f"there are {n_items}, numbered from 0"
                    )
            keys = self._annotator_keys(j.annotator for j in judgements)
            return self._insert_judgements(judgements, keys, ids=ids)

    def setting(self, name: str, default: Any) -> Any:
        """Get a setting, storing `default` if it is unset.

        The first process to ask sets it: all others get the same.
        """
        with self.locked() as connection:
            row = find_collection(connection, self.database.name, self.name)
            own = {name: default, **row.settings}
            if name not in row.settings:
                this = CollectionRow.number == self.number
                connection.execute(update(CollectionRow).where(this).values(settings=own))
        self.settings |= own
        return own[name]
