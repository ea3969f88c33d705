"""State of the admin page: ranking, answer rate, agreement."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from textwrap import shorten
from typing import Any

import numpy as np

from cli.web.page_service import PageService, People
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import agreement
from store.database.engine import plain
from store.service.labelling import LabellingService

SHOWN = 100  # rows of the ranking
SNIPPET = 100  # characters of a text
HOUR = 3600.0
PACE_AGE = 30.0  # seconds


class AdminState:
    """State for the admin page; slow statistics are recomputed only at intervals."""

    def __init__(self, pages: PageService, people: People) -> None:
        self._service, self._people = pages.services[0], people
        self._lock = threading.Lock()
        self._counted: tuple[tuple[int, ...], dict[str, Any]] = ((), {})
        self._again = 0.0

    def state(self, find: str = "") -> dict[str, Any]:
        """The state to draw, with the first rows of the ranking, or those that match `find`."""
        service, session = self._service, self._service.session
        rows, found = _rows(service, find.strip().casefold())
        counted, tokens = self._counts(), self._people.tokens
        study = service.study
        return {
            "items": len(service.items),
            "answers": sum(session.answered(name) for name in tokens),
            "ranking": rows,
            "found": found,
            "per_hour": counted["per_hour"],
            "agreement": counted["agreement"],
            "remaining": _remaining(service) if service.known else None,
            "groups": _groups(service) if service.known else [],
            "people": [
                {"name": name, "path": f"/a/{token}", "standing": session.answered(name)}
                | {"report": counted["reports"].get(name)}
                | {"state": study.state(name), "quota": study.quotas.get(name)}
                | {kind: name in getattr(study, kind) for kind in ("excluded", "paused", "revoked")}
                for name, token in tokens.items()
            ],
            "paused": None in study.paused,
            "gold_rate": study.gold_rate,
            "gold": [
                {"item": pair.item, "other": pair.other}
                | {"better": self._called(pair.item), "worse": self._called(pair.other)}
                for pair in list(study.gold.values())[:SHOWN]
            ],
        }

    def _called(self, item: int | None) -> str:
        """The start of an item's text, or its id."""
        items = self._service.items
        if item is None or item >= len(items):
            return ""
        return _snippet(items.texts[item]) or items.ids[item]

    def _counts(self) -> dict[str, Any]:
        """Agreement and answer rate; some seconds old for large collections."""
        with self._lock:
            service = self._service
            start, upto = time.monotonic(), service.moment
            known, counted = self._counted
            # The rate also falls while nobody answers.
            if not counted or start >= self._again + (0 if upto != known else PACE_AGE):
                events = service.session.judgements()
                reports = service.reports(list(self._people.tokens))
                counted = {
                    "agreement": plain(asdict(agreement(events))),
                    "per_hour": _per_hour(events, time.time()),
                    "reports": {report.name: plain(asdict(report)) for report in reports},
                }
                self._counted = upto, counted
                self._again = time.monotonic() + 10 * (time.monotonic() - start)
            return counted


def _remaining(service: LabellingService) -> dict[str, Any]:
    """How close it is; of the groups only their number and that of those at the goal."""
    remaining = service.remaining
    counts = {"groups": len(remaining.groups), "done": sum(g.stop for g in remaining.groups)}
    return dict(plain(asdict(replace(remaining, groups=())))) | counts


def _groups(service: LabellingService) -> list[dict[str, Any]]:
    """The groups that are furthest from the goal."""
    names = list(dict.fromkeys(service.items.groups or ()))
    worst = sorted(service.remaining.groups, key=lambda group: -group.wrong_pairs)[:SHOWN]
    return [plain(asdict(group)) | {"group": names[group.group]} for group in worst]


def _rows(service: LabellingService, find: str) -> tuple[list[dict[str, Any]], int]:
    """Rows of the ranking, best first, and the total number of matches."""
    ranking, items = service.ranking, service.items
    if not service.known:
        return [], 0
    order = [int(n) for n in ranking.order if n < len(items)]
    groups = items.groups
    sizes = Counter(groups) if groups else {}
    folded = [group.casefold() for group in groups or ()]
    if find in folded:
        order = [n for n in order if folded[n] == find]
    elif find:
        order = [n for n in order if _has(items.ids[n], find) or _has(items.texts[n], find)]
    columns = ("rank", "low", "high", "score", "judgements")
    return [
        {"item": n, "id": items.ids[n], "text": _snippet(items.texts[n])}
        | {"group": groups and groups[n], "of": sizes[groups[n]] if groups else len(items)}
        | {"image": None if items.images[n] is None else f"/image/{n}"}
        | {name: plain(getattr(ranking, name)[n]) for name in columns}
        for n in order[:SHOWN]
    ], len(order)


def _has(text: str | None, find: str) -> bool:
    return text is not None and find in text.casefold()


def _snippet(text: str | None) -> str | None:
    return text and shorten(text[: 2 * SNIPPET], SNIPPET, placeholder=" …")


def _per_hour(events: Sequence[Judgement], now: float) -> dict[str, int]:
    """Answers in the last hour, and the hourly rate of the last ten minutes."""
    at = np.array([e.at for e in events if e.at is not None and e.answer != "undo"], np.float64)
    recent = int((at > now - HOUR / 6).sum())
    return {"last_hour": int((at > now - HOUR).sum()), "pace": 6 * recent}
