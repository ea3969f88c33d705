"""The ranking and the answers as files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

from cli.web.room import Room
from store.engine import plain
from store.judgement_files import ExportForm, export_judgements

RANKED = ("rank", "id", "score", "low", "high", "judgements")


def _ranked(room: Room) -> list[dict[str, Any]]:
    """One row an item, best first; none before the first ranking is made."""
    ranking, ids = room.ranking, room.items.ids
    order = [] if ranking is None else ranking.order.tolist()
    return [
        {name: ids[n] if name == "id" else plain(getattr(ranking, name)[n]) for name in RANKED}
        for n in order
    ]


def _ranking_csv(room: Room) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, RANKED, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_ranked(room))
    return text.getvalue()


def _ranking_json(room: Room) -> str:
    return json.dumps(_ranked(room), indent=2, ensure_ascii=False) + "\n"


def _judged(form: ExportForm) -> Callable[[Room], str]:
    def write(room: Room) -> str:
        text = io.StringIO(newline="")
        export_judgements(room.collection, text, form)
        return text.getvalue()

    return write


# {file: (content type, what it says)}
EXPORTS: dict[str, tuple[str, Callable[[Room], str]]] = {
    "ranking.csv": ("text/csv", _ranking_csv),
    "ranking.json": ("application/json", _ranking_json),
    "judgements.csv": ("text/csv", _judged("csv")),
    "judgements.jsonl": ("application/x-ndjson", _judged("jsonl")),
}
