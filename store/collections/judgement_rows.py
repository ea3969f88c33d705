"""Judgements into the database and out again; numbers are given here, and nowhere else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select

from sortnet.errors import JudgementError
from sortnet.preference import Judgement
from store.database.tables import AnnotatorRow, JudgementRow

_COLUMNS = (
    JudgementRow.number, AnnotatorRow.name, JudgementRow.left_item, JudgementRow.right_item,
    JudgementRow.answer, JudgementRow.milliseconds, JudgementRow.strategy,
    JudgementRow.probability, JudgementRow.model, JudgementRow.undoes, JudgementRow.at,
)  # fmt: skip
_JUDGEMENTS = select(*_COLUMNS).join(AnnotatorRow, AnnotatorRow.number == JudgementRow.annotator)


def read_judgements(
    connection: Connection, collection: int, *only: ColumnElement[bool]
) -> list[Judgement]:
    """Judgements in the order of their numbers; `only` are further conditions.

    Cost: some 5 us each.
    """
    these = _JUDGEMENTS.where(JudgementRow.collection == collection, *only)
    rows: Any = connection.execute(these.order_by(JudgementRow.number))
    return [
        Judgement(who, left, right, answer, ms, strategy, probability, model, number, undoes, at)
        for number, who, left, right, answer, ms, strategy, probability, model, undoes, at in rows
    ]


def read_ids(connection: Connection, collection: int) -> list[str]:
    """The judgements' ids in the order of their numbers."""
    ids = select(JudgementRow.id).where(JudgementRow.collection == collection)
    return list(connection.execute(ids.order_by(JudgementRow.number)).scalars())


def last_number(connection: Connection, collection: int) -> int:
    """The number of the newest judgement; 0 where there is none."""
    last = select(func.max(JudgementRow.number)).where(JudgementRow.collection == collection)
    return connection.execute(last).scalar() or 0


def insert_judgements(
    connection: Connection,
    collection: int,
    judgements: Sequence[Judgement],
    annotators: Mapping[str, int],
    *,
    ids: Sequence[str] | None = None,
    lease: str | None = None,
    moved: Mapping[int, int] | None = None,
) -> list[Judgement]:
    """Add judgements behind those that are there, with their new numbers; undoes are checked.

    `moved` says where judgements stand that undoes call by another number.

    Whoever calls holds the collection's lock: only so numbers have no gaps, and whoever has seen
    a number will never see a lower one come later.

    Raises:
        JudgementError: on an undo of what is not there, is undone already, or is another's.
    """
    first = last_number(connection, collection) + 1
    numbered = list(_renumbered(judgements, first, dict(moved or {})))
    _check_undoes(connection, collection, numbered, first)
    given = ids or [secrets.token_hex(8) for _ in numbered]
    rows = [
        _row(judgement, id) | {"collection": collection, "annotator": annotators[j.annotator]}
        for judgement, id, j in zip(numbered, given, judgements, strict=True)
    ]
    if lease is not None:
        rows[0]["lease"] = lease
    if rows:
        connection.execute(insert(JudgementRow), rows)
    return numbered


def undone(connection: Connection, collection: int) -> set[int]:
    """The numbers of all judgements that were taken back."""
    taken = select(JudgementRow.undoes).where(
        JudgementRow.collection == collection, JudgementRow.undoes.is_not(None)
    )
    return {number for number in connection.execute(taken).scalars() if number is not None}


def _row(judgement: Judgement, id: str) -> dict[str, Any]:
    row = dict(vars(judgement), id=id)
    del row["annotator"]
    return row | {"left_item": row.pop("left"), "right_item": row.pop("right"), "lease": None}


def _renumbered(
    judgements: Sequence[Judgement], first: int, moved: dict[int, int]
) -> Iterator[Judgement]:
    """The judgements numbered from `first`; undoes of what has moved follow, others stay."""
    for number, judgement in enumerate(judgements, start=first):
        facts = dict(vars(judgement))
        undoes = facts.pop("undoes")
        yield Judgement(**{**facts, "number": number}, undoes=undoes and moved.get(undoes, undoes))
        if judgement.number:
            moved[judgement.number] = number


def _check_undoes(
    connection: Connection, collection: int, judgements: Sequence[Judgement], first: int
) -> None:
    undoes = [judgement for judgement in judgements if judgement.undoes is not None]
    if not undoes:
        return
    new = {judgement.number: judgement for judgement in judgements}
    taken: set[int] = set()
    for undo in undoes:
        number = undo.undoes or 0
        found = new.get(number) if number >= first else _stored(connection, collection, number)
        if found is None or number >= undo.number:
            raise JudgementError(f"an undo of judgement {number}, which is not there")
        if found.annotator != undo.annotator:
            raise JudgementError(f"judgement {number} is not {undo.annotator!r}'s to undo")
        if found.answer == "undo":
            raise JudgementError(f"judgement {number} is an undo, which cannot be undone")
        if number in taken or (number < first and _is_undone(connection, collection, number)):
            raise JudgementError(f"judgement {number} is undone already")
        taken.add(number)


def _stored(connection: Connection, collection: int, number: int) -> Judgement | None:
    found = read_judgements(connection, collection, JudgementRow.number == number)
    return found[0] if found else None


def _is_undone(connection: Connection, collection: int, number: int) -> bool:
    these = (JudgementRow.collection == collection, JudgementRow.undoes == number)
    return connection.execute(select(JudgementRow.number).where(*these)).first() is not None
