"""What who watches sees: the ranking, the pace, and how people agree."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from textwrap import shorten
from typing import Any

import numpy as np

from cli.web.people import People
from cli.web.room import Room
from sortnet.preference import Judgement
from store.engine import plain

SHOWN = 100  # of the ranking
SNIPPET = 120  # characters of a text
HOUR = 3600.0


def state(room: Room, people: People, find: str = "") -> dict[str, Any]:
    """All that the page draws; of the ranking the head, or the head of what `find` finds."""
    from sortnet.preference.agreement import agreement

    events = room.log.events()
    rows, found = _rows(room, find.strip().casefold())
    return {
        "items": len(room.items),
        "answers": sum(room.log.answered(name) for name in people.tokens),
        "ranking": rows,
        "found": found,
        "per_hour": _per_hour(events, time.time()),
        "agreement": plain(asdict(agreement(events))),
        "remaining": None if room.remaining is None else plain(asdict(room.remaining)),
        "people": [
            {"name": name, "path": f"/a/{token}", "answers": room.log.answered(name)}
            for name, token in people.tokens.items()
        ],
    }


def _rows(room: Room, find: str) -> tuple[list[dict[str, Any]], int]:
    """Rows of the ranking, best first, and how many were found in all."""
    ranking, items = room.ranking, room.items
    if ranking is None:
        return [], 0
    order = [int(n) for n in ranking.order if n < len(items)]
    if find:
        order = [n for n in order if _has(items.ids[n], find) or _has(items.texts[n], find)]
    columns = ("rank", "low", "high", "score", "judgements")
    return [
        {"item": n, "id": items.ids[n], "text": _snippet(items.texts[n])}
        | {"image": None if items.images[n] is None else f"/image/{n}"}
        | {name: plain(getattr(ranking, name)[n]) for name in columns}
        for n in order[:SHOWN]
    ], len(order)


def _has(text: str | None, find: str) -> bool:
    return text is not None and find in text.casefold()


def _snippet(text: str | None) -> str | None:
    return None if text is None else shorten(text[: 2 * SNIPPET], SNIPPET, placeholder=" …")


def _per_hour(events: Sequence[Judgement], now: float) -> dict[str, int]:
    """Answers of the last hour, and at the pace of the last ten minutes."""
    at = np.array([e.at for e in events if e.at is not None and e.answer != "undo"], np.float64)
    recent = int((at > now - HOUR / 6).sum())
    return {"last_hour": int((at > now - HOUR).sum()), "pace": 6 * recent}
