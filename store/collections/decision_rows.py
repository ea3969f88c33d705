"""Read and append the decisions about a collection; this module alone numbers decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from sortnet.errors import StudyError
from sortnet.preference.study import (
    Decision,
    Study,
    check_decision,
    last_decisions,
    study_of,
)
from store.collections.annotator_rows import new_token
from store.collections.item_rows import ItemRows
from store.collections.leases import LeaseRows
from store.database.schema import AnnotatorRow, DecisionRow, LeaseRow, columns_of

_DECISIONS = (
    select(*columns_of(Decision, DecisionRow))
    .join(AnnotatorRow, AnnotatorRow.number == DecisionRow.annotator, isouter=True)
    .where(DecisionRow.collection == bindparam("of"), DecisionRow.number > bindparam("after"))
    .order_by(DecisionRow.number)
)
_END_LEASES = ("exclude", "pause", "revoke", "retire")  # kinds of decisions that take back leases


class DecisionRows(ItemRows, LeaseRows):
    """Operations on the decisions about a collection, which are numbered from 1."""

    def decisions(self, after: int = 0) -> list[Decision]:
        """List all decisions with a number above `after`, in the order of their numbers."""
        return [Decision(*row) for row in self.read(_DECISIONS, after=after)]

    def study(self) -> Study:
        """Return the state after all decisions, such as excluded annotators and retired items."""
        return study_of(self.decisions())

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
        rows: list[dict[str, Any]] = []
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
