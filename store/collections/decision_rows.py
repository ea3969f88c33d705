"""The decisions about a collection in the database; only here they get their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, insert, or_, select

from sortnet.errors import StudyError
from sortnet.preference.study import Decision, Study, check_decision, study_of
from store.collections.annotator_rows import AnnotatorRows
from store.collections.item_rows import ItemRows
from store.collections.leases import LeaseRows
from store.database.schema import AnnotatorRow, DecisionRow, LeaseRow, columns_of

# Statements of every answer are built once: building them takes longer than running them.
_DECISIONS = (
    select(*columns_of(Decision, DecisionRow))
    .join(AnnotatorRow, AnnotatorRow.number == DecisionRow.annotator, isouter=True)
    .where(DecisionRow.collection == bindparam("of"), DecisionRow.number > bindparam("after"))
    .order_by(DecisionRow.number)
)
# Decisions by which an annotator, or all annotators, may not be asked any more, or may again.
_CLOSING = _DECISIONS.where(
    DecisionRow.kind.in_(("exclude", "include", "pause", "resume")),
    or_(DecisionRow.annotator == bindparam("annotator"), DecisionRow.annotator.is_(None)),
)
_ENDS_LEASES = ("exclude", "pause", "revoke", "retire")  # kinds of decisions


class DecisionRows(AnnotatorRows, ItemRows, LeaseRows):
    """The decisions about a collection, in the order of their numbers."""

    def decisions(self, after: int = 0) -> list[Decision]:
        """All decisions with a higher number, in order."""
        with self.transaction() as connection:
            rows = connection.execute(_DECISIONS, {"of": self.number, "after": after})
            return [Decision(*row) for row in rows]

    def study(self) -> Study:
        """The present state: excluded and paused annotators, retired items, gold pairs."""
        return study_of(self.decisions())

    def _insert_decisions(
        self, decisions: Sequence[Decision], annotators: Mapping[str, int]
    ) -> list[Decision]:
        """Append decisions with new numbers, all or none, and carry them out.

        Leases of an annotator or item that is out end; `renew` makes a new link. A gold pair that
        is known with the same answer is left out. `annotators` are the keys by name.

        Raises:
            StudyError: if a decision changes nothing, or contradicts a gold pair.
        """
        with self.locked() as connection:
            earlier = self.decisions()
            study = study_of(earlier)
            is_about_items = any(decision.item is not None for decision in decisions)
            ids = list(self._item_groups()) if is_about_items else []
            numbered: list[Decision] = []
            rows: list[dict[str, Any]] = []
            for decision in decisions:
                if _is_known_gold(decision, study):
                    continue
                check_decision(study, decision, _subject(decision, ids))
                if decision.kind == "retire" and len(ids) - len(study.retired) <= 2:
                    raise StudyError("two items must stay to compare: restore another one first")
                decision = replace(decision, number=len(earlier) + len(numbered) + 1)
                key = None if decision.annotator is None else annotators[decision.annotator]
                numbered.append(decision)
                rows.append({**vars(decision), "collection": self.number, "annotator": key})
                study = study_of([decision], study)
                self._carry_out(decision, key)
            if rows:
                connection.execute(insert(DecisionRow), rows)
        return numbered

    def _is_closed(self, annotator: int) -> bool:
        """Whether an annotator may not be asked: excluded or paused, or all are paused."""
        parameters = {"of": self.number, "after": 0, "annotator": annotator}
        with self.transaction() as connection:
            rows = connection.execute(_CLOSING, parameters)
            study = study_of([Decision(*row) for row in rows])
        return bool(study.excluded or study.paused)

    def _carry_out(self, decision: Decision, annotator: int | None) -> None:
        """Close the leases that a decision ends, and make the new link that it asks for."""
        if decision.kind in _ENDS_LEASES:
            if decision.item is not None:
                item = decision.item
                self._close_leases(or_(LeaseRow.low == item, LeaseRow.high == item))
            elif annotator is not None:
                self._close_leases(LeaseRow.annotator == annotator)
            else:
                self._close_leases()
        if decision.kind == "renew":
            self._renew_token(annotator)


def _is_known_gold(decision: Decision, study: Study) -> bool:
    """Whether a decision adds a gold pair that the study has with the same answer."""
    if decision.kind != "gold":
        return False
    known = study.gold.get(decision.subject)
    return known is not None and known.item == decision.item


def _subject(decision: Decision, ids: Sequence[str]) -> str:
    """The subject of a decision in a message."""
    if decision.item is None:
        annotator = decision.annotator
        return "the collection" if annotator is None else f"annotator {annotator[:60]!r}"
    numbers = [number for number in (decision.item, decision.other) if number is not None]
    for number in numbers:
        if not 0 <= number < len(ids):
            raise StudyError(f"the collection has no item {number}: there are {len(ids)}")
    names = " and ".join(repr(ids[number][:60]) for number in numbers)
    return names if len(numbers) > 1 else f"item {names}"
