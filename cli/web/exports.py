"""The ranking and the answers as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable
from typing import Any

from cli.web.room import Room
from store.engine import plain

RANKED = ("rank", "id", "score", "low", "high", "judgements")
JUDGED = (
    *("number", "annotator", "left", "right", "answer", "milliseconds", "strategy"),
    *("probability", "model", "undoes", "at"),
)


def _ranked(room: Room) -> list[dict[str, Any]]:
    """One row an item, best first; none before the first ranking is made."""
    ranking, ids = room.ranking, room.items.ids
    order = [] if ranking is None else ranking.order.tolist()
    return [
        {name: ids[n] if name == "id" else plain(getattr(ranking, name)[n]) for name in RANKED}
        for n in order
    ]


def _judged(room: Room) -> list[dict[str, Any]]:
    """One row a judgement, undoes too, in order; items by their ids."""
    ids = room.items.ids
    return [
        {name: getattr(event, name) for name in JUDGED}
        | {"left": ids[event.left], "right": ids[event.right]}
        for event in room.log.events()
    ]


def _csv(names: Iterable[str], rows: Iterable[dict[str, Any]]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


# {file: (content type, what it says)}
EXPORTS: dict[str, tuple[str, Callable[[Room], str]]] = {
    "ranking.csv": ("text/csv", lambda room: _csv(RANKED, _ranked(room))),
    "ranking.json": ("application/json", lambda room: json.dumps(_ranked(room), indent=2) + "\n"),
    "judgements.csv": ("text/csv", lambda room: _csv(JUDGED, _judged(room))),
    "judgements.jsonl": (
        "application/x-ndjson",
        lambda room: "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in _judged(room)),
    ),
}
