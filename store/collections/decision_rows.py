"""The decisions about a collection in the database; only here they get their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import bindparam, insert, or_, select

from sortnet.errors import StudyError
from sortnet.preference.study import Decision, Study, check_decision, study_of
from store.collections.annotator_rows import AnnotatorRows
from store.collections.item_rows import ItemRows
from store.collections.leases import LeaseRows
from store.database.schema import AnnotatorRow, DecisionRow, LeaseRow, columns_of

# Statements of every answer are built once: that takes longer than to run them.
_DECISIONS = (
    select(*columns_of(Decision, DecisionRow))
    .join(AnnotatorRow, AnnotatorRow.number == DecisionRow.annotator, isouter=True)
    .where(DecisionRow.collection == bindparam("of"), DecisionRow.number > bindparam("after"))
    .order_by(DecisionRow.number)
)
_ABOUT_CLOSED = _DECISIONS.where(
    DecisionRow.kind.in_(("exclude", "include", "pause", "resume")),
    or_(DecisionRow.annotator == bindparam("annotator"), DecisionRow.annotator.is_(None)),
)
_CLOSES = ("exclude", "pause", "revoke", "retire")  # what ends leases


class DecisionRows(AnnotatorRows, ItemRows, LeaseRows):
    """The decisions about a collection, in the order of their numbers."""

    def decisions(self, after: int = 0) -> list[Decision]:
        """All decisions with a higher number, in order."""
        with self.transaction() as connection:
            rows = connection.execute(_DECISIONS, {"of": self.number, "after": after})
            return [Decision(*row) for row in rows]

    def study(self) -> Study:
        """The present state: who is excluded or paused, what is retired, the gold pairs."""
        return study_of(self.decisions())

    def _insert_decisions(
        self, decisions: Sequence[Decision], annotators: Mapping[str, int]
    ) -> list[Decision]:
        """Append decisions with new numbers, all or none, and do what follows from them.

        Leases end whose annotator or item is out; `renew` makes a new link. A gold pair that is
        known with the same answer is left out. A StudyError if one changes nothing, or contradicts
        a gold pair. `annotators` are the keys by name.
        """
        with self.locked() as connection:
            before = self.decisions()
            study, done = study_of(before), list(before)
            about_items = any(decision.item is not None for decision in decisions)
            ids = list(self._item_groups()) if about_items else []
            for decision in decisions:
                known = study.gold.get(decision.subject) if decision.kind == "gold" else None
                if known is not None and known.item == decision.item:
                    continue
                check_decision(study, decision, _called(decision, ids))
                if decision.kind == "retire" and len(ids) - len(study.retired) <= 2:
                    raise StudyError("two items must stay to compare: restore another one first")
                done.append(replace(decision, number=len(done) + 1))
                study = study_of(done[-1:], study)
                key = None if decision.annotator is None else annotators[decision.annotator]
                self._follow(decision, key)
            new = done[len(before) :]
            rows = [
                vars(decision)
                | {"collection": self.number, "annotator": annotators.get(decision.annotator or "")}
                for decision in new
            ]
            if rows:
                connection.execute(insert(DecisionRow), rows)
        return new

    def _is_closed(self, annotator: int) -> bool:
        """Whether an annotator may not be asked: excluded or paused, or all are paused."""
        these = {"of": self.number, "after": 0, "annotator": annotator}
        with self.transaction() as connection:
            rows = connection.execute(_ABOUT_CLOSED, these)
            study = study_of([Decision(*row) for row in rows])
        return bool(study.excluded or study.paused)

    def _follow(self, decision: Decision, annotator: int | None) -> None:
        """Do what follows from a decision: close leases, make a new link."""
        if decision.kind in _CLOSES:
            theirs = [] if annotator is None else [LeaseRow.annotator == annotator]
            if decision.item is not None:
                theirs = [or_(LeaseRow.low == decision.item, LeaseRow.high == decision.item)]
            self._close_leases(*theirs)
        if decision.kind == "renew":
            self._renew_token(annotator)


def _called(decision: Decision, ids: Sequence[str]) -> str:
    """The subject of a decision in a message."""
    if decision.item is None:
        who = decision.annotator
        return "the collection" if who is None else f"annotator {who[:60]!r}"
    numbers = [number for number in (decision.item, decision.other) if number is not None]
    for number in numbers:
        if not 0 <= number < len(ids):
            raise StudyError(f"the collection has no item {number}: there are {len(ids)}")
    named = " and ".join(repr(ids[number][:60]) for number in numbers)
    return named if len(numbers) > 1 else f"item {named}"
