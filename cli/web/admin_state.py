"""State of the admin page: ranking, convergence, annotators, disputed pairs, comments."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import numpy as np

from cli.web.curve import drawn_curve
from cli.web.pages import People
from cli.web.ranking_rows import View, item_shown, ranking_rows
from sortnet.files import plain
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import (
    ENOUGH_SHARED,
    agreement,
    disputed,
    first_better,
)
from sortnet.preference.judgement_table import UNDO, Judgements
from store.report.annotator_figures import TITLES, figures_of
from store.report.question_sizes import facts_of_sizes
from store.service.convergence import FEW, recorded
from store.service.labelling import LabellingService

SHOWN = 100  # rows of groups and gold pairs
TALKED = 50  # rows of disputed pairs and comments
_PAGE_TITLES = {"gold": "Gold pairs"}  # where the page has another one than the command
# Titles of the columns of annotators, and the class of each.
PEOPLE_HEADS = (
    *(("Name", "text"), ("Link", "text"), ("Answers", ""), ("Answers a minute", "")),
    *((_PAGE_TITLES.get(title, title.capitalize()), "") for title in TITLES),
    *(("State, verdict", "text"), ("Actions", "text")),
)
HOUR = 3600.0
LATEST = 30  # answers by which an annotator's pace is measured
BREAK = 120.0  # seconds without an answer after which an annotator was away
PACE_AGE = 30.0  # seconds
_COUNTED = ("per_hour", "agreement", "sizes", "disputed", "comments")


class AdminState:
    """State for the admin page; slow statistics are recomputed only at intervals."""

    def __init__(self, service: LabellingService, people: People) -> None:
        self.service, self._people = service, people
        self._lock = threading.Lock()
        self._counted: tuple[tuple[int, ...], dict[str, Any]] = ((), {})
        self._again = 0.0

    def state(self, view: View) -> dict[str, Any]:
        """The state to draw, with the rows of the ranking that are viewed."""
        service, session = self.service, self.service.session
        counted, tokens = self._counts(), self._people.tokens
        study = service.study
        known = service.is_fitted
        return ranking_rows(service, view) | {
            "items": len(service.items),
            "answers": session.n_votes,
            **{name: counted[name] for name in _COUNTED},
            "enough": ENOUGH_SHARED,
            "remaining": _remaining(service) if known else None,
            "curve": _curve(counted["recorded"], service) if known else [],
            "goal": session.goal.wrong,
            "top": session.goal.top,
            "wanted": str(session.goal),
            "groups": _groups(service) if known else [],
            "people": [
                {"name": name, "path": f"/a/{token}", "standing": session.answered(name)}
                | {"report": counted["reports"].get(name)}
                | {"figures": _figures(counted["reports"].get(name))}
                | counted["paces"].get(name, {"pace": None, "last": None})
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

    def shown(self, view: View) -> dict[str, Any]:
        """What the tables are made of; `study` is what is asked, and until when."""
        names = ("question", "instructions", "top", "goal", "deadline")
        state, study = self.state(view), self.service.study
        drawn = {"state": state, "curve": drawn_curve(state), "view": view}
        return drawn | {"study": {name: getattr(study, name) for name in names}}

    def _called(self, item: int | None) -> str:
        """The start of an item's text, or its id."""
        items = self.service.items
        if item is None or item >= len(items):
            return ""
        shown = item_shown(items, item)
        return str(shown["text"] or shown["id"])

    def _counts(self) -> dict[str, Any]:
        """What takes a pass over the judgements; some seconds old for large collections."""
        with self._lock:
            service = self.service
            start, upto = time.monotonic(), service.moment
            known, counted = self._counted
            # The rate also falls while nobody answers.
            if not counted or start >= self._again + (0 if upto != known else PACE_AGE):
                events, everything = service.session.judgements(), service.judgements()
                reports = service.reports(list(self._people.tokens))
                counted = {
                    "agreement": plain(asdict(agreement(events))),
                    "per_hour": _per_hour(events, time.time()),
                    "reports": {report.name: plain(asdict(report)) for report in reports},
                    "paces": _paces(everything),
                    "sizes": facts_of_sizes(everything, service.study),
                    "disputed": self._disputed(events),
                    "comments": self._comments(everything),
                    "recorded": recorded(service.collection, service.session.goal),
                }
                self._counted = upto, counted
                self._again = time.monotonic() + 10 * (time.monotonic() - start)
            return counted

    def _disputed(self, events: Judgements) -> dict[str, Any]:
        """The pairs that are disputed most, and who said what."""
        (found, most), items = disputed(events, TALKED), self.service.items
        pairs = [
            {"items": [item_shown(items, n) for n in answers[0].pair]}
            | {"said": [[one.annotator, first_better(one)] for one in answers]}
            for answers in most
        ]
        return {"found": found, "pairs": pairs}

    def _comments(self, events: Judgements) -> dict[str, Any]:
        """The newest comments and flags, of answers that are not undone."""
        commented = np.array(
            [row for row, text in events.texts["comment"].items() if text], np.int64
        )
        rows = np.union1d(commented, np.flatnonzero(events.flagged == 1))
        rows = rows[events.live[rows]]
        kept = ("annotator", "answer", "comment", "flagged", "at")
        newest = [events[row] for row in rows[::-1][:TALKED].tolist()]
        return {
            "found": len(rows),
            "newest": [
                {name: getattr(event, name) for name in kept}
                | {"items": [self._commented(event, item) for item in event.items]}
                for event in newest
            ],
        }

    def _commented(self, event: Judgement, item: int) -> dict[str, Any]:
        """An item of an answer, with its `choice`: `best`, `worst`, or empty."""
        choices = {event.best: "best", event.worst: "worst"}
        return {**item_shown(self.service.items, item), "choice": choices.get(item, "")}


def _figures(report: dict[str, Any] | None) -> list[dict[str, Any] | None]:
    """The figures of an annotator's report, as plain values."""
    return [None if figure is None else asdict(figure) for figure in figures_of(report)]


def _remaining(service: LabellingService) -> dict[str, Any]:
    """How close it is; of the groups only their number and that of those at the goal."""
    remaining = service.remaining
    counts = {"groups": len(remaining.groups), "done": sum(g.stop for g in remaining.groups)}
    facts = dict(plain(asdict(replace(remaining, groups=()))))
    facts.update(counts)
    facts["range_left"] = remaining.range_left
    return facts


def _curve(points: Sequence[dict[str, Any]], service: LabellingService) -> list[dict[str, Any]]:
    """The recorded fits and the last one; without those to answers that do not count any more."""
    remaining, answers = service.remaining, service.session.n_votes
    holdout = remaining.holdout_right if remaining.holdout_n >= FEW else None
    now = {"answers": answers, "expected": 1 - remaining.wrong, "holdout": holdout}
    return [point for point in points if point["answers"] < answers] + [dict(plain(now))]


def _groups(service: LabellingService) -> list[dict[str, Any]]:
    """The groups that are furthest from the goal."""
    names = list(dict.fromkeys(service.items.groups or ()))
    worst = sorted(service.remaining.groups, key=lambda group: -group.wrong)[:SHOWN]
    return [plain(asdict(group)) | {"group": names[group.group]} for group in worst]


def _per_hour(events: Judgements, now: float) -> dict[str, int]:
    """Answers in the last hour, and the hourly rate of the last ten minutes."""
    at = events.at[events.is_answer]
    recent = int((at > now - HOUR / 6).sum())
    return {"last_hour": int((at > now - HOUR).sum()), "pace": 6 * recent}


def _paces(events: Judgements) -> dict[str, dict[str, float | None]]:
    """Each annotator's answers a minute, breaks aside, and the time of the last."""
    rows = np.flatnonzero((events.answer != UNDO) & ~np.isnan(events.at))
    rows = rows[np.argsort(events.annotator[rows], kind="stable")]
    new = np.flatnonzero(np.diff(events.annotator[rows])) + 1
    times = {
        each[-1]: events.at[each[-LATEST:]].tolist() for each in np.split(rows, new) if len(each)
    }
    return {events[row].annotator: {"pace": pace(at), "last": at[-1]} for row, at in times.items()}


def pace(at: Sequence[float]) -> float | None:
    """Answers a minute among the last ones, without breaks; None if there are too few.

    >>> pace([0, 10, 20, 1000, 1010])
    6.0
    """
    gaps = (after - before for before, after in pairwise(at[-LATEST:]))
    worked = [gap for gap in gaps if gap <= BREAK]
    return 60 * len(worked) / sum(worked) if sum(worked) > 0 else None
