"""Read and write decisions in the database; only here they get their numbers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import Connection, bindparam, insert, or_, select, update

from sortnet.errors import StudyError
from sortnet.preference.study import Decision, check_decision, study_of
from store.collections import leases
from store.collections.collection_rows import item_groups
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


def read_decisions(connection: Connection, collection: int, after: int = 0) -> list[Decision]:
    """Decisions with a higher number, in order."""
    rows = connection.execute(_DECISIONS, {"of": collection, "after": after})
    return [Decision(*row) for row in rows]


def insert_decisions(
    connection: Connection,
    collection: int,
    decisions: Sequence[Decision],
    annotators: dict[str, int],
    *,
    items_of: int,
) -> list[Decision]:
    """Append decisions with new numbers, all or none, and do what follows from them.

    Leases end whose annotator or item is out; `renew` makes a new link. A gold pair that is known
    with the same answer is left out. A StudyError if one changes nothing, or contradicts a gold
    pair. The caller must hold the collection's lock.
    """
    before = read_decisions(connection, collection)
    study, done = study_of(before), list(before)
    about_items = any(decision.item is not None for decision in decisions)
    ids = list(item_groups(connection, items_of)) if about_items else []
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
        _follow(connection, collection, decision, key)
    new = done[len(before) :]
    rows = [
        vars(decision)
        | {"collection": collection, "annotator": annotators.get(decision.annotator or "")}
        for decision in new
    ]
    if rows:
        connection.execute(insert(DecisionRow), rows)
    return new


def is_closed(connection: Connection, collection: int, annotator: int) -> bool:
    """Whether an annotator may not be asked: excluded or paused, or all are paused."""
    these = {"of": collection, "after": 0, "annotator": annotator}
    study = study_of([Decision(*row) for row in connection.execute(_ABOUT_CLOSED, these)])
    return bool(study.excluded or study.paused)


def _follow(
    connection: Connection, collection: int, decision: Decision, annotator: int | None
) -> None:
    if decision.kind in _CLOSES:
        theirs = [] if annotator is None else [LeaseRow.annotator == annotator]
        if decision.item is not None:
            theirs = [or_(LeaseRow.low == decision.item, LeaseRow.high == decision.item)]
        leases.close(connection, collection, *theirs)
    if decision.kind == "renew":
        this = update(AnnotatorRow).where(AnnotatorRow.number == annotator)
        connection.execute(this.values(token=secrets.token_urlsafe(16)))


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
