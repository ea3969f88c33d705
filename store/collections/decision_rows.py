"""Read and append the decisions about a collection; this module alone numbers decisions."""

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

# Statements that run at every answer are built once, here: building takes longer than running.
_DECISIONS = (
    select(*columns_of(Decision, DecisionRow))
    .join(AnnotatorRow, AnnotatorRow.number == DecisionRow.annotator, isouter=True)
    .where(DecisionRow.collection == bindparam("of"), DecisionRow.number > bindparam("after"))
    .order_by(DecisionRow.number)
)
# Kinds of decisions that stop or allow again the questions to one annotator, or to all.
_CLOSING = _DECISIONS.where(
    DecisionRow.kind.in_(("exclude", "include", "pause", "resume")),
    or_(DecisionRow.annotator == bindparam("annotator"), DecisionRow.annotator.is_(None)),
)
_ENDS_LEASES = ("exclude", "pause", "revoke", "retire")  # kinds of decisions


class DecisionRows(AnnotatorRows, ItemRows, LeaseRows):
    """The decisions about a collection, in the order of their numbers."""

    def decisions(self, after: int = 0) -> list[Decision]:
        """All decisions numbered above `after`, in order."""
        with self.transaction() as connection:
            rows = connection.execute(_DECISIONS, {"of": self.number, "after": after})
            return [Decision(*row) for row in rows]

    def study(self) -> Study:
        """The state after all decisions, such as excluded annotators and retired items."""
        return study_of(self.decisions())

    def _insert_decisions(
        self, decisions: Sequence[Decision], annotators: Mapping[str, int]
    ) -> list[Decision]:
        """Append all decisions with new numbers, or none after an error, and carry them out.

        A decision of the kinds `_ENDS_LEASES` ends the leases of its annotator or item; `renew`
        makes a new link. A gold pair that is known with the same answer is left out. `annotators`
        is {name: key}.

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
        """Whether an annotator may not be asked: this annotator, or all, are excluded or paused."""
        parameters = {"of": self.number, "after": 0, "annotator": annotator}
        with self.transaction() as connection:
            rows = connection.execute(_CLOSING, parameters)
            study = study_of([Decision(*row) for row in rows])
        return bool(study.excluded or study.paused)

    def _carry_out(self, decision: Decision, annotator: int | None) -> None:
        """Close the leases that a decision ends, or renew the token of an annotator's link."""
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
    """Whether a decision adds a gold pair that the study already has, with the same answer."""
    if decision.kind != "gold":
        return False
    known = study.gold.get(decision.subject)
    return known is not None and known.item == decision.item


def _subject(decision: Decision, ids: Sequence[str]) -> str:
    """The annotator, item or pair that a decision is about, as messages name it."""
    if decision.item is None:
        annotator = decision.annotator
        return "the collection" if annotator is None else f"annotator {annotator[:60]!r}"
    numbers = [number for number in (decision.item, decision.other) if number is not None]
    for number in numbers:
        if not 0 <= number < len(ids):
            raise StudyError(f"the collection has no item {number}: there are {len(ids)}")
    names = " and ".join(repr(ids[number][:60]) for number in numbers)
    return names if len(numbers) > 1 else f"item {names}"
