"""Rows of a store's tables as plain values: its collections, a collection's newest judgements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sortnet.files import rows_of
from sortnet.preference.base import ORDER_ANSWERS

if TYPE_CHECKING:
    from store import Collection, Store

_COUNTS = ("items", "features", "annotators", "judgements")


def collection_rows(store: Store) -> list[dict[str, Any]]:
    """A row for each collection with its counts, oldest first."""
    rows = rows_of(store.collections_frame()[["name", "created", *_COUNTS]])
    return [row | {"created": _iso_time(row["created"])} for row in rows]


@dataclass(frozen=True)
class NewestJudgements:
    """The newest judgements of a collection.

    Attributes:
        rows: a row for each judgement, oldest first.
        n_older: judgements that are not among the rows.
        n_answers: answers that count, of the rows and the older ones.
        n_annotators: annotators who gave these answers.
    """

    rows: list[dict[str, Any]]
    n_older: int
    n_answers: int
    n_annotators: int


def newest_judgements(collection: Collection, limit: int) -> NewestJudgements:
    """The newest judgements of a collection, at most `limit`."""
    frame = collection.judgements_frame()
    rows = [row | {"at": _iso_time(row["at"])} for row in rows_of(frame.tail(limit))]
    counted = frame[frame["answer"].isin(ORDER_ANSWERS) & ~frame["undone"] & ~frame["excluded"]]
    return NewestJudgements(
        rows=rows,
        n_older=len(frame) - len(rows),
        n_answers=len(counted),
        n_annotators=int(counted["annotator"].nunique()),
    )


def _iso_time(text: str | None) -> str | None:
    """A time in ISO 8601; None if a damaged store has no time."""
    return None if text is None else text.replace(" ", "T")
