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
from sortnet.preference.base import Pair
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
from store.collections.leases import Lease, may_be_lease_id
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
        new: whether this call stored the answer; False if the question was answered before.
        since: all judgements after the last number known to the caller.
    """

    judgement: Judgement
    new: bool
    since: Judgements


class Collection(DecisionRows, JudgementRows, ServerRows, BatchRows):
    """A collection as `Store.collection` returns it.

    A criterion of a collection is a collection too, named `NAME:CRITERION`: it has judgements,
    annotators and decisions of its own, and asks about the items of NAME.

    Operations on one table are in the classes that it inherits, operations on several tables here.

    Attributes:
        name: the name of the collection.
        number: the key of the collection in the tables.
        items_of: the key of the collection that has the items: another key only in a criterion.
        seed: random seed of the sessions.
        settings: settings of the sessions, such as `strategy`, `holdout` and `repeats`.
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
        """The name of this criterion within its collection; None if this is no criterion."""
        return None if self.items_of == self.number else self.name.rpartition(":")[2]

    def asked(self) -> list[Collection]:
        """The collections that annotators are asked about: the criteria, or this collection itself.

        Criteria are in the order of creation.
        """
        names = self.criteria()
        if not names:
            return [self]
        return [Collection(self.database, name, clock=self.clock) for name in names]

    def add_criterion(self, name: str) -> Collection:
        """Add a criterion: one more question by which the same items are compared.

        Raises:
            StoreError: on a name that is taken or has a colon; if this is a criterion itself, or
                has judgements about its own question.
        """
        with self.locked():
            self._insert_criterion(name)
        return Collection(self.database, f"{self.name}:{name}", clock=self.clock)

    def remove(self) -> None:
        """Remove the collection with all its rows and criteria.

        If this is a criterion, the items stay, since they belong to its collection.
        """
        with self.locked() as connection:
            is_removed = CollectionRow.number.in_(with_criteria(self.number))
            # Foreign keys remove the rows of all other tables.
            connection.execute(delete(CollectionRow).where(is_removed))

    def decide(self, *decisions: Decision) -> list[Decision]:
        """Append all decisions, or none after an error, and return them with their new numbers.

        `Decision("exclude", "eve", reason="coin tosses")` leaves eve's judgements in the store and
        in exports, but sessions, rankings and training do not count them; the opposite decision
        includes them again. Open questions to an excluded or paused annotator, or about a retired
        item, are taken back; a renewed link replaces the old link. Known gold pairs are left out.

        In a collection with criteria, a decision about annotators, items, goals or instructions is
        made for each criterion, and a decision about links for the collection.

        Raises:
            StoreError: on an unknown annotator; if one criterion must be meant.
            StudyError: on an unknown item, or if a decision changes nothing.
        """
        criteria = self.asked()
        is_about_links = {decision.kind for decision in decisions} <= LINKS
        if criteria != [self] and not is_about_links:
            return self._decide_for_each(criteria, decisions)
        names = {decision.annotator for decision in decisions if decision.annotator is not None}
        for name in names:
            self.annotator(name, create=False)
        with self.locked():
            keys = self._annotator_keys(names)
            now = self.clock()
            timed = [replace(decision, at=now) for decision in decisions]
            return self._insert_decisions(timed, keys)

    def _decide_for_each(
        self, criteria: Sequence[Collection], decisions: Sequence[Decision]
    ) -> list[Decision]:
        """Append decisions to each criterion.

        Raises:
            StudyError: only if the decisions fail for all criteria.
        """
        if {decision.kind for decision in decisions} & ABOUT_ONE:
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
        """All judgements, including undos, without the judgements of excluded annotators."""
        return self.judgements().without(self.study().excluded)

    def changes(self, after: int, decided: int = 0) -> Changes:
        """Read, at one time, judgements numbered above `after` and decisions above `decided`."""
        with self.transaction():
            return Changes(
                self._judgements(after),
                self._next_item(),
                self._live_leases(self.clock()),
                self.decisions(decided),
            )

    def judgements_frame(self) -> pd.DataFrame:
        """One row per judgement: annotator, both items, answer, whether it was undone later.

        Further columns tell whether the annotator is excluded, and the items' group if they have
        groups. Undos are rows too, with the items of the judgement that they undo. If there are
        judgements about more than two items, their rows have `items`, `best` and `worst` in place
        of left and right.
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
        """Lease questions to an annotator for some seconds, and return the leases.

        A question is left out if one of its pairs is in another live lease. Nothing is leased if
        the annotator is excluded or paused.

        Args:
            renew: ids of leases that are renewed, and come first, if they are live leases of the
                annotator that no other process may still ask about.
            after: the number of the last judgement known to the caller; a pair that the annotator
                has answered since is not leased.
            batch: the batch with which the questions are written to a file.
        """
        # A lease that is lost in a power cut is taken again, so this transaction does not wait for
        # the disk. The leases of a batch must last, because they identify its answers.
        with self.locked(durable=batch is not None):
            now = self.clock()
            key = self._annotator_keys([annotator])[annotator]
            if self._is_closed(key):
                return []
            if questions and after is not None:
                answered_pairs: set[Pair] = set()
                for judgement in self._judgements(after):
                    if judgement.annotator == annotator:
                        answered_pairs.update(judgement.pairs)
                questions = [q for q in questions if answered_pairs.isdisjoint(q.pairs)]
            return self._take_leases(
                annotator, key, questions, renew, now=now, expires=now + seconds, batch=batch
            )

    def release(self, annotator: str, leases: Sequence[str] | None = None) -> None:
        """Release the leases of an annotator with the ids `leases`; None: all of their leases."""
        with self.locked():
            conditions = [LeaseRow.annotator == self._annotator_key(annotator)]
            if leases is not None:
                conditions.append(LeaseRow.id.in_(leases))
            self._close_leases(*conditions)

    def answer(self, lease: str, judgement: Judgement, *, after: int | None = None) -> Stored:
        """Store an answer to a leased question; return the stored answer if there is one already.

        The question is taken from the lease. `after` is the number of the last judgement known to
        the caller, who gets all later judgements.

        Raises:
            LeaseError: on a lease that is unknown, expired, released or another annotator's.
            JudgementError: on an undo.
        """
        if judgement.undoes is not None:
            raise JudgementError("an undo is no answer to a question")
        annotator = judgement.annotator
        with self.locked():
            now = self.clock()
            stored = None
            if may_be_lease_id(lease) and is_name(annotator):
                stored = self._answer_under(lease, annotator)
            is_new = stored is None
            if stored is None:
                question = self._live_lease_of(lease, annotator, now).question
                answer = replace(judgement, **vars(question), at=now)
                keys = self._annotator_keys([annotator])
                self._close_answered(lease)
                (stored,) = self._insert_judgements([answer], keys, lease=lease)
            if after is None or stored.number == after + 1:
                since = Judgements.of([stored])
            else:
                since = self._judgements(after)
            return Stored(stored, is_new, since)

    def undo(self, annotator: str, number: int) -> Judgement:
        """Undo a judgement of an annotator, and return the undo, which is stored as a judgement.

        Raises:
            JudgementError: if the judgement does not exist, is another annotator's, is an undo, or
                is undone.
        """
        with self.locked():
            judgement = self._judgement_to_undo(number)
            undo = replace(judgement.undo(), annotator=annotator, at=self.clock())
            (stored,) = self._insert_judgements([undo], self._annotator_keys([annotator]))
            return stored

    def append(
        self, judgements: Sequence[Judgement], *, ids: Sequence[str] | None = None
    ) -> list[Judgement]:
        """Append all judgements, or none after an error, and return them with their new numbers.

        An undo refers to the number that the judgement has among `judgements`, else to a stored
        number. A later import recognises the judgements by `ids`; judgements with a known id are
        left out.

        Raises:
            JudgementError: on an unknown item, or an undo of an unknown judgement.
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

        The first process that asks stores its default: all other processes get the same value.
        """
        with self.locked() as connection:
            row = find_collection(connection, self.database.name, self.name)
            settings = {name: default, **row.settings}
            if name not in row.settings:
                change = update(CollectionRow).where(CollectionRow.number == self.number)
                connection.execute(change.values(settings=settings))
        self.settings |= settings
        return settings[name]
