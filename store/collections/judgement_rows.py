"""Read and write judgements in the database; only here they get their numbers."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from sqlalchemy import Connection, bindparam, func, insert, select

from sortnet.errors import JudgementError
from sortnet.preference import Judgement
from sortnet.preference.base import check_undo
from sortnet.preference.judgement_table import Judgements
from store.database.schema import AnnotatorRow, JudgementRow, columns_of

_OF = JudgementRow.collection == bindparam("of")
# Statements of every answer are built once: that takes longer than to run them.
_JUDGEMENTS = (
    select(*columns_of(Judgement, JudgementRow))
    .join(AnnotatorRow, AnnotatorRow.number == JudgementRow.annotator)
    .where(_OF)
    .order_by(JudgementRow.number)
)
_BETWEEN = _JUDGEMENTS.where(
    JudgementRow.number > bindparam("after"), JudgementRow.number <= bindparam("upto")
)
BLOCK = 50_000  # judgements read at once
_MOST = 2**31 - 1  # of numbers in the table
_FEW = 500  # ids that are looked up by the index; for more all ids are read
_UNDER = _JUDGEMENTS.where(
    JudgementRow.lease == bindparam("lease"), AnnotatorRow.name == bindparam("annotator")
)
_LAST = select(func.max(JudgementRow.number)).where(_OF)


def read_later(
    connection: Connection, collection: int, after: int, upto: int = _MOST
) -> Judgements:
    """Judgements with a higher number, up to another one, in order.

    Cost: about 5 us per judgement.
    """
    rows = connection.execute(_BETWEEN, {"of": collection, "after": after, "upto": upto})
    return Judgements.of_rows(rows.all())


def find_answer(
    connection: Connection, collection: int, lease: str, annotator: str
) -> Judgement | None:
    """The answer stored under a lease, if it is this annotator's."""
    these = {"of": collection, "lease": lease, "annotator": annotator}
    row = connection.execute(_UNDER, these).first()
    return None if row is None else Judgement(*row)


def read_ids(connection: Connection, collection: int) -> list[str]:
    """The judgements' ids in the order of their numbers."""
    ids = select(JudgementRow.id).where(JudgementRow.collection == collection)
    return list(connection.execute(ids.order_by(JudgementRow.number)).scalars())


def last_number(connection: Connection, collection: int) -> int:
    """The number of the newest judgement; 0 if there is none."""
    return connection.execute(_LAST, {"of": collection}).scalar() or 0


def insert_judgements(
    connection: Connection,
    collection: int,
    judgements: Sequence[Judgement],
    annotators: Mapping[str, int],
    *,
    ids: Sequence[str] | None = None,
    lease: str | None = None,
) -> list[Judgement]:
    """Append judgements, with new numbers, but those whose ids are known; undos are checked.

    The caller must hold the collection's lock, so that numbers have no gaps, and no lower number is
    added after a higher one has been read.
    """
    first = last_number(connection, collection) + 1
    known = {} if ids is None else _numbers_of(connection, collection, ids)
    given = [secrets.token_hex(8) for _ in judgements] if ids is None else ids
    new = list(_renumbered(zip(given, judgements, strict=True), known, first))
    numbered = [judgement for _, judgement in new]
    _check_undoes(connection, collection, numbered, first)
    rows = [
        vars(judgement)
        | {"collection": collection, "annotator": annotators[judgement.annotator]}
        | {"id": id, "lease": lease}
        for id, judgement in new
    ]
    if rows:
        connection.execute(insert(JudgementRow), rows)
    return numbered


def _numbers_of(connection: Connection, collection: int, ids: Sequence[str]) -> dict[str, int]:
    """{id: number} of at least those of the ids that are stored."""
    if len(ids) > _FEW:
        return dict(zip(read_ids(connection, collection), count(1)))
    these = JudgementRow.collection == collection, JudgementRow.id.in_(ids)
    rows = connection.execute(select(JudgementRow.id, JudgementRow.number).where(*these))
    return {row.id: row.number for row in rows}


def _renumbered(
    judgements: Iterable[tuple[str, Judgement]], known: Mapping[str, int], first: int
) -> Iterator[tuple[str, Judgement]]:
    """The new judgements numbered from `first`, with undos adjusted to the stored numbers."""
    moved: dict[int, int] = {}
    numbers = count(first)
    for id, judgement in judgements:
        number = known[id] if id in known else next(numbers)
        if id not in known:
            undoes = judgement.undoes and moved.get(judgement.undoes, judgement.undoes)
            yield id, replace(judgement, number=number, undoes=undoes)
        if judgement.number:
            moved[judgement.number] = number


def _check_undoes(
    connection: Connection, collection: int, judgements: Sequence[Judgement], first: int
) -> None:
    if all(judgement.undoes is None for judgement in judgements):
        return
    earlier: dict[int, Judgement] = {}
    undos = select(JudgementRow.undoes).where(JudgementRow.collection == collection)
    taken = set(connection.execute(undos).scalars())
    for judgement in judgements:
        if (number := judgement.undoes) is not None:
            if number < first:
                earlier[number] = judgement_to_undo(connection, collection, number)
            check_undo(judgement, earlier.get(number), undone=number in taken)
            taken.add(number)
        earlier[judgement.number] = judgement


def judgement_to_undo(connection: Connection, collection: int, number: int) -> Judgement:
    """The judgement of that number, which must exist."""
    found = read_later(connection, collection, number - 1, number)
    if not len(found):
        raise JudgementError(f"an undo of judgement {number}, which is not there")
    return found[0]
