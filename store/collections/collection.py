"""A collection in the store, with its items, annotators, judgements and leases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, delete, insert, select, update

from sortnet.errors import JudgementError, StoreError, StudyError
from sortnet.files import Record
from sortnet.preference import Judgement, Question
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.study import (
    ABOUT_ONE,
    LINKS,
    Decision,
    Study,
    check_decision,
    last_decisions,
    study_of,
)
from store.collections.collection_rows import (
    checked_new,
    find_collection,
    is_name,
    make_collection,
    with_criteria,
)
from store.collections.item_rows import ItemRows
from store.collections.judgement_rows import JudgementRows
from store.collections.leases import Lease, LeaseRows, may_be_secret, new_token
from store.database.engine import Database
from store.database.schema import (
    AnnotatorRow,
    CollectionRow,
    DecisionRow,
    JudgementRow,
    LeaseRow,
    columns_of,
)

if TYPE_CHECKING:
    import pandas as pd

_DECISIONS = (
    select(*columns_of(Decision, DecisionRow))
    .join(AnnotatorRow, AnnotatorRow.number == DecisionRow.annotator, isouter=True)
    .where(DecisionRow.collection == bindparam("of"), DecisionRow.number > bindparam("after"))
    .order_by(DecisionRow.number)
)
_END_LEASES = ("exclude", "pause", "revoke", "retire")  # kinds of decisions that take back leases


class Stored(NamedTuple):
    """A stored answer.

    Attributes:
        judgement: the answer, with its number.
        new: whether this call stored the answer. It is False if the question was answered before.
    """

    judgement: Judgement
    new: bool


class Collection(ItemRows, LeaseRows, JudgementRows):
    """A named set of items in a store, with the annotators' judgements about the items.

    A criterion of a collection is a collection too, named `NAME:CRITERION`. It has judgements,
    annotators and decisions of its own, and asks about the items of the collection NAME.

    The base classes have the operations on one table, this class has the operations on several, and
    on the decisions about the collection, which are numbered from 1.

    Attributes:
        name: the name of the collection.
        number: the key of the collection in the tables.
        items_of: the key of the collection that has the items. It differs from `number` only in a
            criterion.
        seed: random seed of the sessions.
        settings: settings of the sessions, such as `strategy`, `holdout` and `repeats`.
        created: time in UTC.
    """

    def __init__(
        self, database: Database, name: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        with database.transaction() as connection:
            row = find_collection(connection, database.name, name)
            self.settings: Record = row.settings
            if row.items_of is not None:  # a criterion inherits the settings of its collection
                query = select(CollectionRow.settings).where(CollectionRow.number == row.items_of)
                self.settings = {**connection.execute(query).scalar_one(), **row.settings}
        super().__init__(database, row.number, row.name, items_of=row.items_of, clock=clock)
        self.seed: int = row.seed
        self.created: datetime = row.created.replace(tzinfo=UTC)

    def __repr__(self) -> str:
        return f"Collection({self.name}, {self.database.name})"

    @property
    def criterion(self) -> str | None:
        """The name of this criterion within its collection; None if this is no criterion."""
        if self.items_of == self.number:
            return None
        _, _, name_of_criterion = self.name.rpartition(":")
        return name_of_criterion

    def asked(self) -> list[Collection]:
        """Return the collections whose questions annotators answer.

        These are the criteria in the order of creation. A collection without criteria returns
        itself.
        """
        with self.database.one_state():  # no criterion is removed in between
            names = self.criteria()
            if not names:
                return [self]
            return [Collection(self.database, name, clock=self.clock) for name in names]

    def add_criterion(self, name: str) -> Collection:
        """Add a criterion: one more question by which the same items are compared.

        Raises:
            StoreError: on a name that is taken or has a colon. Also if this collection is a
                criterion itself, or has judgements about a question of its own.
        """
        full_name = f"{self.name}:{checked_new(name, 'criterion')}"
        if self.criterion is not None:
            raise StoreError(f"{self.name!r} is a criterion, which has no criteria")
        with self.locked() as connection:
            if full_name in self.criteria():
                raise StoreError(f"collection {self.name!r} has the criterion {name!r} already")
            if self.n_judgements:
                raise StoreError(
                    f"collection {self.name!r} has judgements about its own question already; "
                    "criteria need one without: sortnet items add the file under another name"
                )
            source = self._collection_row().source
            make_collection(
                connection, full_name, seed=self.seed, source=source, items_of=self.number
            )
        return Collection(self.database, full_name, clock=self.clock)

    def remove(self) -> None:
        """Remove the collection with all its rows and criteria.

        If this is a criterion, the items stay, because they belong to its collection.
        """
        is_removed = CollectionRow.number.in_(with_criteria(self.number))
        # The foreign keys of all other tables remove the rows that belong to the collection.
        self.write(delete(CollectionRow).where(is_removed))

    def decisions(self, after: int = 0) -> list[Decision]:
        """List all decisions with a number above `after`, in the order of their numbers."""
        return [Decision(*row) for row in self.read(_DECISIONS, after=after)]

    def study(self) -> Study:
        """Return the state after all decisions, such as excluded annotators and retired items."""
        return study_of(self.decisions())

    def decide(self, *decisions: Decision) -> list[Decision]:
        """Append all decisions, or none after an error, and return them with their new numbers.

        For example, `Decision("exclude", "eve", reason="coin tosses")` leaves eve's judgements in
        the store and in exports, but sessions, rankings and training do not count the judgements.
        The opposite decision includes eve again. Open questions to an excluded or paused annotator,
        or about a retired item, are taken back. A renewed link replaces the old link. Gold pairs
        that are stored already are left out.

        In a collection with criteria, a decision about annotators, items, goals or instructions is
        made for each criterion, and a decision about links for the collection.

        Raises:
            StoreError: on an unknown annotator, or on a decision that must be about one criterion.
            StudyError: on an unknown item, or if a decision changes nothing.
        """
        criteria = self.asked()
        has_criteria = criteria != [self]
        is_about_links = {decision.kind for decision in decisions} <= LINKS
        if has_criteria and not is_about_links:
            return self._decide_for_each(criteria, decisions)
        for name in _annotators_of(decisions):
            self.annotator(name, create=False)  # raises an error if the annotator is unknown
        with self.locked():
            keys = self._annotator_keys(_annotators_of(decisions))
            return self._insert_decisions(decisions, keys)

    def _decide_for_each(
        self, criteria: Sequence[Collection], decisions: Sequence[Decision]
    ) -> list[Decision]:
        """Append decisions to each criterion, and return the stored decisions with their numbers.

        A criterion may refuse the decisions, for instance if it has made them before.

        Raises:
            StoreError: on an annotator whom neither the collection nor a criterion knows, or on a
                decision that must be about one criterion.
            StudyError: if all criteria refuse the decisions.
        """
        # Questions and gold pairs differ between criteria.
        if any(decision.kind in ABOUT_ONE for decision in decisions):
            self.check_one_question()  # raises the error
        names = _annotators_of(decisions)
        known_names: set[str] = set()
        for collection in (self, *criteria):
            known_names.update(annotator.name for annotator in collection.annotators())
        for unknown_name in names - known_names:
            self.annotator(unknown_name, create=False)  # raises the error
        numbered: list[Decision] = []
        faults: list[StudyError] = []
        for criterion in criteria:
            for name in names:
                criterion.annotator(name)  # creates the annotator in this criterion
            try:
                numbered += criterion.decide(*decisions)
            except StudyError as fault:
                faults.append(fault)
        if len(faults) == len(criteria):
            raise faults[0]
        return numbered

    def _insert_decisions(
        self, decisions: Sequence[Decision], annotators: Mapping[str, int]
    ) -> list[Decision]:
        """Append decisions with new numbers, carry them out, and return the stored decisions.

        A gold pair that is stored already with the same answer is left out.

        Args:
            decisions: the decisions, which may have no numbers yet.
            annotators: {name: key} of the annotators in the decisions.

        Raises:
            StudyError: if a decision changes nothing, or contradicts a gold pair.
        """
        earlier = self.decisions()
        last = last_decisions(earlier)
        is_about_items = any(decision.item is not None for decision in decisions)
        # Reading the ids of all items takes time, so they are read only for decisions about items.
        ids = list(self._item_groups()) if is_about_items else []
        stored: list[Decision] = []
        rows: list[Record] = []
        for decision in decisions:
            before = last.get(decision.key)
            is_known_gold = decision.kind == "gold" and before is not None and before.value
            if is_known_gold and before is not None and before.item == decision.item:
                continue
            check_decision(last, decision, _subject(decision, ids))
            n_retired = sum(name == "retired" and row.value for (name, _), row in last.items())
            if decision.kind == "retire" and len(ids) - n_retired <= 2:
                raise StudyError("two items must stay to compare: restore another one first")
            number = len(earlier) + len(stored) + 1
            stored.append(replace(decision, number=number, at=self.clock()))
            last[decision.key] = decision
            key = annotators.get(decision.annotator or "")
            self._carry_out(decision, key)
            rows.append({**vars(stored[-1]), "collection": self.number, "annotator": key})
        self.insert(insert(DecisionRow), rows)
        return stored

    def _carry_out(self, decision: Decision, annotator: int | None) -> None:
        """Close the leases that a decision ends, or renew the token of an annotator's link.

        Leases end if an annotator is excluded, paused or loses the link, or if an item is retired.

        Args:
            decision: the decision.
            annotator: the key of the decision's annotator. If None, the decision is about an item,
                or about all annotators.
        """
        if decision.kind == "renew":
            change = update(AnnotatorRow).where(AnnotatorRow.number == annotator)
            self.write(change.values(token=new_token()))
        if decision.kind not in _END_LEASES:
            return
        if decision.item is not None:
            self._close_leases_about(decision.item)
        elif annotator is not None:
            self._close_leases(LeaseRow.annotator == annotator)
        else:
            self._close_leases()  # the leases of all annotators

    def counted_judgements(self) -> Judgements:
        """Read all judgements and undos, except the judgements of excluded annotators."""
        with self.transaction():
            return self.judgements().without(self.study().excluded)

    def judgements_frame(self) -> pd.DataFrame:
        """Make a frame with one row per judgement, in the order of their numbers.

        The columns `undone` and `excluded` tell whether the judgement was undone later, and whether
        the annotator is excluded. Undos are rows too, with the items of the undone judgement.
        """
        from store.frames import judgements_frame

        with self.transaction():
            judgements = self.judgements()
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
            annotator: name of the annotator.
            questions: questions to lease.
            seconds: time after which the leases expire.
            renew: ids of the annotator's live leases to renew. A lease is not renewed if another
                process may still ask its question. Renewed leases come first in the result.
            after: the number of the last judgement known to the caller. A question is left out if
                the annotator has answered one of its pairs since. If None, this is not checked.
            batch: name of the batch with which the questions are written to a file.
        """
        # A lease that is lost in a power cut is taken again, so this transaction does not wait for
        # the disk. The leases of a batch must last, because they identify its answers.
        with self.locked(durable=batch is not None):
            key = self._annotator_keys([annotator])[annotator]
            if self.study().state(annotator) in ("excluded", "paused"):
                return []
            self._close_leases(LeaseRow.expires <= self.clock())
            live = self.leases()
            reserved_pairs = {pair for lease in live for pair in lease.question.pairs}
            if questions and after is not None:
                for judgement in self.judgements(after):
                    if judgement.annotator == annotator:
                        reserved_pairs.update(judgement.pairs)
            expires = self.clock() + seconds
            to_renew = [
                lease for lease in live if lease.id in renew and lease.annotator == annotator
            ]
            renewed = self._renew_leases(to_renew, expires)
            new = self._insert_leases(
                (annotator, key), questions, reserved_pairs, expires=expires, batch=batch
            )
            return renewed + new

    def release(self, annotator: str, leases: Sequence[str] | None = None) -> None:
        """Release leases of an annotator, so that their questions can be leased again.

        Args:
            annotator: name of the annotator.
            leases: ids of the leases. If None, all leases of the annotator are released.
        """
        with self.locked():
            conditions = [LeaseRow.annotator == self._annotator_key(annotator)]
            if leases is not None:
                conditions.append(LeaseRow.id.in_(leases))
            self._close_leases(*conditions)

    def answer(self, lease: str, judgement: Judgement) -> Stored:
        """Store an answer to a leased question, unless the question is answered already.

        Args:
            lease: id of the lease, which has the question.
            judgement: the answer and its annotator. The question is taken from the lease.

        Raises:
            LeaseError: on a lease that is unknown, expired, released or another annotator's.
            JudgementError: on an undo, or an answer that lacks the worst item if it is asked for.
        """
        if judgement.undoes is not None:
            raise JudgementError("an undo is no answer to a question")
        annotator = judgement.annotator
        with self.locked():
            earlier: Judgement | None = None
            if may_be_secret(lease) and is_name(annotator):
                earlier = self._judgement(
                    JudgementRow.lease == lease, AnnotatorRow.name == annotator
                )
            if earlier is not None:
                return Stored(earlier, new=False)
            live_lease = self._live_lease_of(lease, annotator)
            answer = replace(judgement, **vars(live_lease.question), at=self.clock())
            # The study is read only for an answer that may lack the worst item, which is rare. The
            # requests of a batch say themselves what they ask for.
            if answer.lacks_worst and live_lease.batch is None:
                self.study().check_answer(answer)
            self._close_leases(LeaseRow.id == lease)
            keys = self._annotator_keys([annotator])
            (stored,) = self._insert_judgements([answer], keys, lease=lease)
            return Stored(stored, new=True)

    def undo(self, annotator: str, number: int) -> Judgement:
        """Undo a judgement of an annotator, and return the undo, which is stored as a judgement.

        Raises:
            JudgementError: if the judgement does not exist, is another annotator's, is an undo, or
                is undone.
        """
        with self.locked():
            judgement = self._judgement(JudgementRow.number == number)
            if judgement is None:
                raise JudgementError(f"an undo of judgement {number}, which is not there")
            undo = replace(judgement.undo(), annotator=annotator, at=self.clock())
            (stored,) = self._insert_judgements([undo], self._annotator_keys([annotator]))
            return stored

    def append(
        self, judgements: Sequence[Judgement], *, ids: Sequence[str] | None = None
    ) -> list[Judgement]:
        """Append all judgements, or none after an error, and return them with their new numbers.

        An undo names the judgement that it undoes by a number. This is the number of one of
        `judgements`, or else the number of a stored judgement.

        Args:
            judgements: the judgements.
            ids: an id for each judgement, by which a later import recognises it. Judgements whose
                id is stored already are left out. If None, new ids are made.

        Raises:
            StoreError: if the collection has criteria, because a judgement is about one criterion.
            JudgementError: on an unknown item, or an undo of an unknown judgement.
        """
        with self.locked():
            self.check_one_question()
            n_items = self.count_items()
            items = {item for judgement in judgements for item in judgement.items}
            unknown = items.difference(range(n_items))
            if unknown:
                raise JudgementError(
                    f"collection {self.name!r} has no item {max(unknown)}: "
                    f"there are {n_items}, numbered from 0"
                )
            keys = self._annotator_keys(judgement.annotator for judgement in judgements)
            return self._insert_judgements(judgements, keys, ids=ids)

    def setting(self, name: str, default: Any) -> Any:
        """Return a setting; if it is not set, store `default` first.

        The first process that asks stores its default, so that all other processes get this value.
        """
        with self.locked() as connection:
            row = find_collection(connection, self.database.name, self.name)
            settings = {name: default, **row.settings}
            if name not in row.settings:
                change = update(CollectionRow).where(CollectionRow.number == self.number)
                connection.execute(change.values(settings=settings))
        self.settings |= settings
        return settings[name]

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Be the only process that serves the collection, within a `with` block.

        Raises:
            StoreError: if another process serves the collection, or the collection was removed.
        """
        with self.locked():
            pass  # raises an error if the collection was removed
        claims = self.database.claims
        if not claims.take(self._claim):
            raise StoreError(f"collection {self.name!r} is served by another process already")
        try:
            yield
        finally:
            claims.drop(self._claim)

    def is_still_mine(self) -> bool:
        """Whether the collection still exists, and this process still serves it.

        A claim that ended because a database server was restarted is renewed, unless another
        process serves the collection now.
        """
        number = self.read_value(
            select(CollectionRow.number).where(CollectionRow.number == self.number)
        )
        return number is not None and self.database.claims.keep(self._claim)

    def is_served(self) -> bool:
        """Whether a live process serves the collection."""
        return self.database.claims.is_held(self._claim)

    @property
    def _claim(self) -> str:
        """The name that the process which serves the collection holds."""
        return f"server-{self.number}"


def _annotators_of(decisions: Sequence[Decision]) -> set[str]:
    """Return the names of the annotators that decisions are about."""
    return {decision.annotator for decision in decisions if decision.annotator is not None}


def _subject(decision: Decision, ids: Sequence[str]) -> str:
    """Name the annotator, item or pair that a decision is about, for messages.

    Args:
        decision: the decision.
        ids: the ids of all items; may be empty if the decision is about no item.

    Raises:
        StudyError: on the number of an unknown item.
    """
    if decision.item is None:
        if decision.annotator is None:
            return "the collection"
        return f"annotator {decision.annotator[:60]!r}"
    numbers = [number for number in (decision.item, decision.other) if number is not None]
    for number in numbers:
        if not 0 <= number < len(ids):
            raise StudyError(f"the collection has no item {number}: there are {len(ids)}")
    names = " and ".join(repr(str(ids[number])[:60]) for number in numbers)
    return names if len(numbers) > 1 else f"item {names}"
