"""State of the admin page: ranking, convergence, annotators, disputed pairs, comments."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import numpy as np

from cli.web.curve import draw_curve
from cli.web.pages import People
from cli.web.ranking_rows import View, item_cell, ranking_rows
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

SHOWN = 100  # most rows of groups, and of gold pairs
TALKED = 50  # most rows of disputed pairs, and of comments
_PAGE_TITLES = {"gold": "Gold pairs"}  # titles that differ from the titles of the command
# Titles and CSS classes of the columns in the table of annotators.
PEOPLE_HEADS = (
    ("Name", "text"),
    ("Link", "text"),
    ("Answers", ""),
    ("Answers a minute", ""),
    *((_PAGE_TITLES.get(title, title.capitalize()), "") for title in TITLES),
    ("State, verdict", "text"),
    ("Actions", "text"),
)
HOUR = 3600.0
LATEST = 30  # latest answers, from which an annotator's pace is measured
BREAK = 120.0  # a longer time without an answer, in seconds, is a break
PACE_AGE = 30.0  # seconds for which the rates of answers are kept if nobody answers


class AdminState:
    """State of the admin page; slow statistics are recomputed only at intervals."""

    def __init__(self, service: LabellingService, people: People) -> None:
        self.service = service
        self._people = people
        self._lock = threading.Lock()
        self._statistics: dict[str, Any] = {}
        self._statistics_moment: tuple[int, ...] = ()  # service.moment when they were computed
        self._next_update = 0.0  # earliest time.monotonic() of the next computation

    def state(self, view: View) -> dict[str, Any]:
        """The facts that the page draws, with the rows of the ranking that are in view."""
        service = self.service
        session = service.session
        statistics = self._current_statistics()
        study = service.study
        is_fitted = service.is_fitted
        state = ranking_rows(service, view)
        state["items"] = len(service.items)
        state["answers"] = session.n_votes
        for name in ("per_hour", "agreement", "sizes", "disputed", "comments"):
            state[name] = statistics[name]
        state["enough"] = ENOUGH_SHARED
        state["remaining"] = _remaining(service) if is_fitted else None
        state["curve"] = _curve(statistics["recorded"], service) if is_fitted else []
        state["goal"] = session.goal.wrong
        state["top"] = session.goal.top
        state["wanted"] = str(session.goal)
        state["groups"] = _groups(service) if is_fitted else []
        state["people"] = [
            self._annotator_state(name, token, statistics)
            for name, token in self._people.tokens.items()
        ]
        state["paused"] = None in study.paused
        state["gold_rate"] = study.gold_rate
        state["gold"] = self._gold_pairs()
        return state

    def template_variables(self, view: View) -> dict[str, Any]:
        """Variables for the template of the tables.

        The variable `study` has the question and instructions that annotators see, and the goal.
        """
        state = self.state(view)
        study = self.service.study
        return {
            "state": state,
            "curve": draw_curve(state),
            "view": view,
            "study": {
                "question": study.question,
                "instructions": study.instructions,
                "top": study.top,
                "goal": study.goal,
                "deadline": study.deadline,
            },
        }

    def _annotator_state(self, name: str, token: str, statistics: dict[str, Any]) -> dict[str, Any]:
        """An annotator's link, progress, figures and restrictions."""
        study = self.service.study
        report = statistics["reports"].get(name)
        return {
            "name": name,
            "path": f"/a/{token}",
            "standing": self.service.session.answered(name),
            "report": report,
            "figures": _figures(report),
            **statistics["paces"].get(name, {"pace": None, "last": None}),
            "state": study.state(name),
            "quota": study.quotas.get(name),
            "excluded": name in study.excluded,
            "paused": name in study.paused,
            "revoked": name in study.revoked,
        }

    def _gold_pairs(self) -> list[dict[str, Any]]:
        """The first gold pairs, each with the numbers and the names of its items."""
        return [
            {
                "item": pair.item,
                "other": pair.other,
                "better": self._item_name(pair.item),
                "worse": self._item_name(pair.other),
            }
            for pair in list(self.service.study.gold.values())[:SHOWN]
        ]

    def _item_name(self, item: int | None) -> str:
        """The start of an item's text, or the item's id if it has no text."""
        items = self.service.items
        if item is None or item >= len(items):
            return ""
        cell = item_cell(items, item)
        return str(cell["text"] or cell["id"])

    def _current_statistics(self) -> dict[str, Any]:
        """The statistics that need a pass over all judgements.

        They are recomputed after new judgements, decisions and fits, but for at most a tenth of the
        time. So the statistics of a large collection may be some seconds old.
        """
        with self._lock:
            start = time.monotonic()
            moment = self.service.moment
            # Without new judgements they are recomputed, too, though more rarely: the rate of
            # answers falls while nobody answers.
            age = PACE_AGE if moment == self._statistics_moment else 0
            if not self._statistics or start >= self._next_update + age:
                self._statistics = self._compute_statistics()
                self._statistics_moment = moment
                self._next_update = time.monotonic() + 10 * (time.monotonic() - start)
            return self._statistics

    def _compute_statistics(self) -> dict[str, Any]:
        """Compute the statistics; judgements of excluded annotators count only in some of them."""
        service = self.service
        counted = service.session.judgements()
        all_judgements = service.judgements()
        reports = service.reports(list(self._people.tokens))
        return {
            "agreement": plain(asdict(agreement(counted))),
            "per_hour": _per_hour(counted, time.time()),
            "reports": {report.name: plain(asdict(report)) for report in reports},
            "paces": _paces(all_judgements),
            "sizes": facts_of_sizes(all_judgements, service.study),
            "disputed": self._disputed(counted),
            "comments": self._comments(all_judgements),
            "recorded": recorded(service.collection, service.session.goal),
        }

    def _disputed(self, judgements: Judgements) -> dict[str, Any]:
        """The most disputed pairs with all answers, and the number of disputed pairs."""
        n_disputed, most_disputed = disputed(judgements, TALKED)
        pairs = [
            {
                "items": [item_cell(self.service.items, item) for item in answers[0].pair],
                "said": [[answer.annotator, first_better(answer)] for answer in answers],
            }
            for answers in most_disputed
        ]
        return {"found": n_disputed, "pairs": pairs}

    def _comments(self, judgements: Judgements) -> dict[str, Any]:
        """The newest answers that have a comment or a flag, and the number of such answers.

        Answers that were undone are left out.
        """
        comments = judgements.texts["comment"]
        commented = np.array([row for row, text in comments.items() if text], np.int64)
        rows = np.union1d(commented, np.flatnonzero(judgements.flagged == 1))
        rows = rows[judgements.live[rows]]
        newest = [judgements[row] for row in rows[::-1][:TALKED].tolist()]
        return {"found": len(rows), "newest": [self._remark(judgement) for judgement in newest]}

    def _remark(self, judgement: Judgement) -> dict[str, Any]:
        """An answer with its comment, its flag and its items."""
        return {
            "annotator": judgement.annotator,
            "answer": judgement.answer,
            "comment": judgement.comment,
            "flagged": judgement.flagged,
            "at": judgement.at,
            "items": [self._item_with_choice(judgement, item) for item in judgement.items],
        }

    def _item_with_choice(self, judgement: Judgement, item: int) -> dict[str, Any]:
        """An item of an answer; `choice` is `best` or `worst` if the item was chosen, or empty."""
        choices = {judgement.best: "best", judgement.worst: "worst"}
        return {**item_cell(self.service.items, item), "choice": choices.get(item, "")}


def _figures(report: dict[str, Any] | None) -> list[dict[str, Any] | None]:
    """The figures of an annotator's report, as plain values."""
    return [None if figure is None else asdict(figure) for figure in figures_of(report)]


def _remaining(service: LabellingService) -> dict[str, Any]:
    """The distance from the goal, the number of groups, and the number of groups at the goal."""
    remaining = service.remaining
    facts: dict[str, Any] = plain(asdict(replace(remaining, groups=())))
    return {
        **facts,
        "groups": len(remaining.groups),
        "done": sum(group.stop for group in remaining.groups),
        "range_left": remaining.range_left,
    }


def _curve(points: Sequence[dict[str, Any]], service: LabellingService) -> list[dict[str, Any]]:
    """The points of the curve: the recorded fits and the last fit, by number of answers.

    The number of answers falls when answers are undone or annotators are excluded. Recorded fits to
    as many answers as count today, or more, are left out.
    """
    remaining = service.remaining
    n_answers = service.session.n_votes
    holdout = remaining.holdout_right if remaining.holdout_n >= FEW else None
    last_fit: dict[str, Any] = plain(
        {"answers": n_answers, "expected": 1 - remaining.wrong, "holdout": holdout}
    )
    return [*(point for point in points if point["answers"] < n_answers), last_fit]


def _groups(service: LabellingService) -> list[dict[str, Any]]:
    """The groups that are furthest from the goal."""
    names = list(dict.fromkeys(service.items.groups or ()))
    worst = sorted(service.remaining.groups, key=lambda group: -group.wrong)[:SHOWN]
    return [{**plain(asdict(group)), "group": names[group.group]} for group in worst]


def _per_hour(judgements: Judgements, now: float) -> dict[str, int]:
    """The number of answers in the last hour, and the hourly rate in the last ten minutes."""
    times = judgements.at[judgements.is_answer]
    in_ten_minutes = int((times > now - HOUR / 6).sum())
    return {"last_hour": int((times > now - HOUR).sum()), "pace": 6 * in_ten_minutes}


def _paces(judgements: Judgements) -> dict[str, dict[str, float | None]]:
    """Each annotator's answers a minute, without breaks, and the time of the last answer."""
    rows = np.flatnonzero((judgements.answer != UNDO) & ~np.isnan(judgements.at))
    rows = rows[np.argsort(judgements.annotator[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(judgements.annotator[rows])) + 1
    paces = {}
    for annotator_rows in np.split(rows, starts):
        if len(annotator_rows):
            times = judgements.at[annotator_rows[-LATEST:]].tolist()
            annotator = judgements[int(annotator_rows[-1])].annotator
            paces[annotator] = {"pace": pace(times), "last": times[-1]}
    return paces


def pace(times: Sequence[float]) -> float | None:
    """Answers a minute in the last 30 answers, without breaks; None if they are too few.

    >>> pace([0, 10, 20, 1000, 1010])
    6.0
    """
    gaps = [after - before for before, after in pairwise(times[-LATEST:])]
    worked = [gap for gap in gaps if gap <= BREAK]
    return 60 * len(worked) / sum(worked) if sum(worked) > 0 else None
