"""A collection in the store: its items, annotators, judgements and leases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from sqlalchemy import Connection, delete, exists, select, update

from sortnet.core import I64
from sortnet.errors import JudgementError, StoreError, StudyError
from sortnet.items import Items
from sortnet.preference import Judgement, Question
from sortnet.preference.judgement_table import Judgements
from sortnet.preference.study import ABOUT_ONE, LINKS, Decision, Study, study_of
from store.collections import leases as lease_rows
from store.collections.collection_rows import (
    Annotator,
    checked_name,
    criteria_of,
    find_annotator,
    find_collection,
    is_name,
    item_groups,
    locked,
    make_annotator,
    make_criterion,
    next_item,
    read_annotators,
    read_items,
    read_pairs,
    refuse_several,
    settings_of,
    with_criteria,
)
from store.collections.decision_rows import insert_decisions, is_closed, read_decisions
from store.collections.judgement_rows import (
    BLOCK,
    find_answer,
    insert_judgements,
    judgement_to_undo,
    last_number,
    read_ids,
    read_later,
)
from store.collections.leases import Lease
from store.collections.server_claim import BEAT, ServerClaim, live_server
from store.database.engine import Database
from store.database.schema import (
    AnnotatorRow,
    CollectionRow,
    DecisionRow,
    JudgementRow,
    LeaseRow,
)

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


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


class Collection:
    """A collection as `Store.collection` returns it.

    A criterion of a collection is a collection too, named `NAME:CRITERION`: it has judgements,
    annotators and decisions of its own, and asks about the items of NAME.

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
        self.database, self.clock = database, clock
        with database.transaction() as connection:
            row = find_collection(connection, database.name, name)
            self.settings: dict[str, Any] = settings_of(connection, row)
        self.name: str = row.name
        self.number: int = row.number
        self.items_of: int = row.items_of or row.number
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
        names = self._read(criteria_of)
        return [Collection(self.database, name, clock=self.clock) for name in names] or [self]

    def check_one_question(self) -> None:
        """A StoreError if it has criteria, of which one must be meant."""
        with self.database.transaction() as connection:
            refuse_several(connection, self.number, self.name)

    def add_criterion(self, name: str) -> Collection:
        """A new criterion, by which the items are compared in addition to those there are.

        A StoreError on a name that is taken or has a colon; if this is a criterion itself, or has
        judgements about its own question.
        """
        with self._locked() as connection:
            make_criterion(connection, self.number, name)
        return Collection(self.database, f"{self.name}:{name}", clock=self.clock)

    def items(self) -> Items:
        """All items, in the order of their numbers."""
        with self.database.transaction() as connection:
            return read_items(connection, self.items_of)

    def allowed_pairs(self) -> I64 | None:
        """(m, 2) the only pairs that may be asked, the lower number first; None if all may."""
        with self.database.transaction() as connection:
            return read_pairs(connection, self.items_of)

    def remove(self) -> None:
        """Remove the collection with all its rows and criteria; a criterion leaves the items."""
        with self._locked() as connection:
            these = CollectionRow.number.in_(with_criteria(self.number))
            connection.execute(delete(CollectionRow).where(these))  # by the keys, all of theirs

    def annotator(self, name: str, *, create: bool = True) -> Annotator:
        """The annotator of that name, created if there is none; without `create` a StoreError."""
        checked_name("annotator", name)
        if create and not self._read(find_annotator, name):
            with self._locked() as connection:
                self._numbers_of(connection, [name])
        if not (found := self._read(read_annotators, AnnotatorRow.name == name)):
            known = ", ".join(a.name for a in self.annotators()[:10]) or "none yet"
            raise StoreError(f"collection {self.name!r} has no annotator {name!r}; known: {known}")
        return found[0]

    def annotators(self) -> list[Annotator]:
        """All annotators, in the order of creation."""
        return self._read(read_annotators)

    def forget(self, name: str) -> None:
        """Remove an annotator who said nothing, also of the criteria; others stay."""
        with self._locked() as connection:
            these = select(AnnotatorRow.number).where(
                AnnotatorRow.collection.in_(with_criteria(self.number)),
                AnnotatorRow.name == name,
            )
            keys = list(connection.execute(these).scalars())
            used = (
                JudgementRow.annotator.in_(keys),
                DecisionRow.annotator.in_(keys),
                LeaseRow.annotator.in_(keys) & LeaseRow.open,  # perhaps of another process
            )
            if any(connection.execute(select(exists().where(one))).scalar() for one in used):
                return
            connection.execute(delete(LeaseRow).where(LeaseRow.annotator.in_(keys)))
            connection.execute(delete(AnnotatorRow).where(AnnotatorRow.number.in_(keys)))

    def judgements(self, after: int = 0) -> Judgements:
        """All judgements with a higher number, in order, including undos.

        Cost: about 5 us and 90 bytes each.
        """
        found = Judgements()
        for block in self.blocks(after):
            found.extend(block)
        return found

    def blocks(self, after: int = 0) -> Iterator[Judgements]:
        """The judgements with a higher number that are there now, some at a time, in order."""
        upto = self.n_judgements
        starts = range(after, upto, BLOCK)
        return (self._read(read_later, start, min(start + BLOCK, upto)) for start in starts)

    @property
    def n_judgements(self) -> int:
        """The number of judgements, including undos."""
        return self._read(last_number)

    def decisions(self, after: int = 0) -> list[Decision]:
        """All decisions with a higher number, in order."""
        return self._read(read_decisions, after)

    def study(self) -> Study:
        """The present state: who is excluded or paused, what is retired, the gold pairs."""
        return study_of(self.decisions())

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
        with self._locked() as connection:
            keys = self._numbers_of(connection, (d.annotator for d in decisions if d.annotator))
            at = self.clock()
            timed = [replace(decision, at=at) for decision in decisions]
            return insert_decisions(connection, self.number, timed, keys, items_of=self.items_of)

    def _decide_for(
        self, criteria: Sequence[Collection], decisions: Sequence[Decision]
    ) -> list[Decision]:
        """Decide for each criterion; one of which it holds already is no obstacle for others."""
        if {d.kind for d in decisions} & ABOUT_ONE:
            self.check_one_question()
        who = {d.annotator for d in decisions if d.annotator is not None}
        made: list[Decision] = []
        faults: list[StudyError] = []
        known = {one.name for each in (self, *criteria) for one in each.annotators()}
        for name in who - known:
            self.annotator(name, create=False)
        for each in criteria:
            for name in who:
                each.annotator(name)
            try:
                made += each.decide(*decisions)
            except StudyError as fault:
                faults.append(fault)
        if len(faults) == len(criteria):
            raise faults[0]
        return made

    def counted_judgements(self) -> Judgements:
        """All judgements, including undos, but those of excluded annotators."""
        return self.judgements().without(self.study().excluded)

    def changes(self, after: int, decided: int = 0) -> Changes:
        """What is new, in one snapshot: judgements and decisions with higher numbers."""
        with self.database.transaction() as connection:
            return Changes(
                read_later(connection, self.number, after),
                next_item(connection, self.items_of),
                lease_rows.read_leases(connection, self.number, self.clock()),
                read_decisions(connection, self.number, decided),
            )

    def judgement_ids(self) -> list[str]:
        """The ids by which an import recognises judgements, in the order of their numbers."""
        return self._read(read_ids)

    def judgements_frame(self) -> pd.DataFrame:
        """One row per judgement: annotator, both items, answer, whether it was undone later.

        Also whether its annotator is excluded, and the items' group if they have groups. Undos
        are rows too, with the two items of the judgement that they undo.
        """
        from store.frames import judgements_frame

        with self.database.transaction() as connection:
            judgements = read_later(connection, self.number, 0)
            items = item_groups(connection, self.items_of)
            excluded = study_of(read_decisions(connection, self.number)).excluded
        return judgements_frame(judgements, items, excluded)

    def lease(
        self,
        annotator: str,
        questions: Sequence[Question],
        seconds: float,
        *,
        renew: Sequence[str] = (),
        after: int | None = None,
    ) -> list[Lease]:
        """Lease to an annotator the questions whose pair is under no live lease, for some seconds.

        Those of their live leases whose ids are in `renew` are renewed and come first, but for
        those that another process may still ask about. None are leased if the annotator is
        excluded or paused. `after` is the number of the last judgement known to the caller: a pair
        that the annotator has answered since is not leased.
        """
        # Leases lost in a power cut are simply leased again: no need to wait for the disk.
        with self._locked(durable=False) as connection:
            now = self.clock()
            key = self._numbers_of(connection, [annotator])[annotator]
            if is_closed(connection, self.number, key):
                return []
            if questions and after is not None:
                since = read_later(connection, self.number, after)
                pairs = {answer.pair for answer in since if answer.annotator == annotator}
                questions = [question for question in questions if question.pair not in pairs]
            return lease_rows.take(
                connection,
                self.number,
                annotator,
                key,
                questions,
                renew,
                now=now,
                expires=now + seconds,
            )

    def leases(self, annotator: str | None = None) -> list[Lease]:
        """Live leases of an annotator or of all, in the order of creation."""
        live = self._read(lease_rows.read_leases, self.clock())
        return [lease for lease in live if annotator in (None, lease.annotator)]

    def question(self, lease: str) -> Question:
        """The question of a lease, live or not; a LeaseError if there is none."""
        return self._read(lease_rows.find, lease)[0].question

    def release(self, annotator: str, leases: Sequence[str] | None = None) -> None:
        """Release an annotator's leases: all, or those of `leases`."""
        with self._locked() as connection:
            these = [LeaseRow.annotator == find_annotator(connection, self.number, annotator)]
            if leases is not None:
                these.append(LeaseRow.id.in_(leases))
            lease_rows.close(connection, self.number, *these)

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
        with self._locked() as connection:
            now = self.clock()
            stored = None
            if lease_rows.plausible(lease) and is_name(annotator):
                stored = find_answer(connection, self.number, lease, annotator)
            new = stored is None
            if stored is None:
                leased = lease_rows.find_live(connection, self.number, lease, annotator, now)
                answer = replace(judgement, **vars(leased.question), at=now)
                key = self._numbers_of(connection, [annotator])
                connection.execute(lease_rows.ANSWERED, {"of": self.number, "lease": lease})
                (stored,) = insert_judgements(connection, self.number, [answer], key, lease=lease)
            if after is None or stored.number == after + 1:
                return Stored(stored, new, Judgements.of([stored]))
            return Stored(stored, new, read_later(connection, self.number, after))

    def undo(self, annotator: str, number: int) -> Judgement:
        """Undo a judgement of that annotator; returns the undo, which is a judgement too.

        A JudgementError if it does not exist, or is another's, an undo, or undone.
        """
        with self._locked() as connection:
            judgement = judgement_to_undo(connection, self.number, number)
            undo = replace(judgement.undo(), annotator=annotator, at=self.clock())
            key = self._numbers_of(connection, [annotator])
            return insert_judgements(connection, self.number, [undo], key)[0]

    def append(
        self, judgements: Sequence[Judgement], *, ids: Sequence[str] | None = None
    ) -> list[Judgement]:
        """Append judgements, all or none; they get new numbers.

        An undo refers to the number that the judgement has among them, else to a stored number. By
        `ids` a later import recognises them; known ones are left out. A JudgementError on an
        unknown item, or an undo of an unknown judgement.
        """
        with self._locked() as connection:
            n_items = next_item(connection, self.items_of)
            refuse_several(connection, self.number, self.name)
            for judgement in judgements:
                if not 0 <= judgement.pair[0] < judgement.pair[1] < n_items:
                    raise JudgementError(
                        f"collection {self.name!r} has no item {judgement.pair[1]}: "
                        f"there are {n_items}, numbered from 0"
                    )
            key = self._numbers_of(connection, (j.annotator for j in judgements))
            return insert_judgements(connection, self.number, judgements, key, ids=ids)

    def setting(self, name: str, default: Any) -> Any:
        """Get a setting, storing `default` if it is unset.

        The first process to ask sets it: all others get the same.
        """
        with self._locked() as connection:
            row = find_collection(connection, self.database.name, self.name)
            own = {name: default, **row.settings}
            if name not in row.settings:
                this = CollectionRow.number == self.number
                connection.execute(update(CollectionRow).where(this).values(settings=own))
        self.settings |= own
        return own[name]

    def serving(self, *, beat: float | None = BEAT) -> ServerClaim:
        """Claim to serve the collection as the only process, a StoreError if another one does."""
        return ServerClaim(self.database, self.number, self.name, self.clock, beat)

    def is_served(self) -> bool:
        """Whether a live process serves it."""
        return self._read(live_server, self.clock()) is not None

    def _read(self, work: Callable[..., T], *args: Any) -> T:
        """What a function of the collection's rows returns, in one transaction."""
        with self.database.transaction() as connection:
            return work(connection, self.number, *args)

    def _locked(self, *, durable: bool = True) -> AbstractContextManager[Connection]:
        return locked(self.database, self.number, self.name, durable=durable)

    def _numbers_of(self, connection: Connection, annotators: Iterable[str]) -> dict[str, int]:
        """The keys of annotators, who are created if they do not exist."""
        where = connection, self.number
        return {
            name: find_annotator(*where, name) or make_annotator(*where, name)
            for name in dict.fromkeys(annotators)
        }
