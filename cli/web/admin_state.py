"""State of the admin page: ranking, convergence, annotators, disputed pairs, comments."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np

from cli.web.pages import People
from cli.web.ranking_rows import View, item_cell, ranking_rows
from sortnet.core import I64
from sortnet.files import plain
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import (
    ENOUGH_SHARED,
    Dispute,
    agreement,
    most_disputed,
)
from sortnet.preference.judgement_table import UNDO, Judgements
from store.report.annotator_figures import TITLES, figures_of
from store.report.growth import growth_picture, growth_points
from store.report.question_sizes import facts_of_sizes
from store.service.convergence import recorded
from store.service.labelling import LabellingService
from store.service.sentences import goal_in_words, remaining_facts

SHOWN = 100  # most rows in the tables of groups and of gold pairs
TALKED = 50  # most rows in the tables of disputed pairs and of comments
# Titles that differ from the titles in the output of `sortnet annotators`.
_PAGE_TITLES = {"gold": "Gold pairs"}
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
HOUR = 3600.0  # seconds
LATEST = 30  # number of latest answers from which an annotator's pace is measured
BREAK = 120.0  # seconds; a longer time without an answer is a break
_UPDATE_INTERVAL = 10  # statistics are kept for this multiple of the time that they took
PACE_AGE = 30.0  # seconds for which the rates of answers are kept if nobody answers


class AdminState:
    """State of the admin page; slow statistics are recomputed only at intervals.

    Args:
        service: the labelling service of the collection, or of one of its criteria.
        people: the links of the collection.
    """

    def __init__(self, service: LabellingService, people: People) -> None:
        """Start without statistics: the first request computes them."""
        self.service = service
        self._people = people
        self._lock = threading.Lock()
        self._statistics: dict[str, Any] = {}
        # Value of `service.moment` when the statistics were computed. The value changes when a
        # judgement or a decision is read, or a fit is made.
        self._moment_of_statistics: tuple[int, ...] = ()
        # Time by the clock `time.monotonic` before which the statistics are not computed again.
        self._next_computation = 0.0

    def state(self, view: View) -> dict[str, Any]:
        """Collect all facts that the page draws, as JSON; the page's script reads them by key.

        Args:
            view: the rows of the ranking that the page shows, and their order.

        Returns:
            The rows of the ranking; counts and statistics of the answers; the goal, and how far it
            is; the annotators; and the gold pairs. Before the first fit there is no distance from
            the goal, no curve and no group.
        """
        service = self.service
        session = service.session
        statistics = self._current_statistics()
        study = service.study
        is_fitted = service.is_fitted
        facts = ranking_rows(service, view)

        facts["items"] = len(service.items)
        facts["answers"] = session.n_votes
        for name in ("per_hour", "agreement", "sizes", "disputed", "comments"):
            facts[name] = statistics[name]
        facts["enough"] = ENOUGH_SHARED  # agreement on fewer pairs says nothing

        facts["remaining"] = _remaining(service) if is_fitted else None
        facts["curve"] = []
        if is_fitted:
            facts["curve"] = growth_points(service, statistics["recorded"])
        facts["goal"] = session.goal.wrong  # share of pairs
        facts["top"] = session.goal.top  # number of items
        facts["wanted"] = goal_in_words(session.goal)  # the goal in words
        facts["groups"] = _groups(service) if is_fitted else []

        facts["people"] = [
            self._annotator_state(name, token, statistics)
            for name, token in self._people.tokens.items()
        ]
        everybody = None  # in the place of an annotator's name
        facts["paused"] = everybody in study.paused

        facts["gold_rate"] = study.gold_rate
        facts["gold"] = self._gold_pairs()
        return facts

    def template_variables(self, view: View) -> dict[str, Any]:
        """Return the variables for the template of the tables.

        The variable `study` has the question and instructions that annotators see, the goal and
        the deadline.
        """
        state = self.state(view)
        study = self.service.study
        return {
            "state": state,
            "curve": growth_picture(state["curve"], self.service.session.goal),
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
        """Return an annotator's link, progress, figures and restrictions."""
        study = self.service.study
        report = statistics["reports"].get(name)
        pace_facts = statistics["paces"].get(name, {"pace": None, "last": None})
        return {
            "name": name,
            "path": f"/a/{token}",
            "standing": self.service.session.answered(name),
            "report": report,
            "figures": _figures(report),
            **pace_facts,
            "state": study.state(name),
            "quota": study.quotas.get(name),
            "excluded": name in study.excluded,
            "paused": name in study.paused,
            "revoked": name in study.revoked,
        }

    def _gold_pairs(self) -> list[dict[str, Any]]:
        """Return the first gold pairs, each with the numbers and the names of its items."""
        first_pairs = list(self.service.study.gold.values())[:SHOWN]
        return [
            {
                "item": pair.item,
                "other": pair.other,
                "better": self._item_label(pair.item),
                "worse": self._item_label(pair.other),
            }
            for pair in first_pairs
        ]

    def _item_label(self, item: int | None) -> str:
        """Return the start of an item's text, or the item's id if the item has no text.

        The label is empty if there is no item, or if the service does not know the item yet: a gold
        pair may be about an item that was added after the service read the items.
        """
        items = self.service.items
        if item is None or item >= len(items):
            return ""
        cell = item_cell(items, item)
        return str(cell["text"] or cell["id"])

    def _current_statistics(self) -> dict[str, Any]:
        """Return the statistics that need a pass over all judgements, recomputed if they are old.

        They are recomputed after new judgements, decisions and fits. Computing them takes at most a
        tenth of the time, so the statistics of a large collection may be some seconds old.
        """
        with self._lock:
            start = time.monotonic()
            moment = self.service.moment
            if self._are_statistics_old(start, moment):
                self._statistics = self._compute_statistics()
                self._moment_of_statistics = moment
                seconds = time.monotonic() - start
                self._next_computation = time.monotonic() + _UPDATE_INTERVAL * seconds
            return self._statistics

    def _are_statistics_old(self, now: float, moment: tuple[int, ...]) -> bool:
        """Tell whether the statistics are missing or must be computed again.

        Args:
            now: the time by the clock `time.monotonic`.
            moment: the present value of `service.moment`.
        """
        if not self._statistics:
            return True
        if moment != self._moment_of_statistics:
            return now >= self._next_computation
        # Nothing was stored or fitted, but the rate of answers falls while nobody answers.
        return now >= self._next_computation + PACE_AGE

    def _compute_statistics(self) -> dict[str, Any]:
        """Compute the statistics of all judgements.

        Judgements of excluded annotators count for the paces, the question sizes and the comments.
        """
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
        """Return the most disputed pairs with all answers, and the number of disputed pairs."""
        n_disputed, disputes = most_disputed(judgements, self.service.session.posterior, TALKED)
        pairs = [self._disputed_pair(dispute) for dispute in disputes[:n_disputed]]
        return {"found": n_disputed, "pairs": pairs}

    def _disputed_pair(self, dispute: Dispute) -> dict[str, Any]:
        """Return the items of a disputed pair, and for each answer the annotator and the choice.

        The choice is 1 if the first item is better, 0 if the second item is better, 1/2 for a tie.
        """
        items = [item_cell(self.service.items, item) for item in dispute.pair]
        said = [[answer.annotator, for_first] for answer, for_first in dispute.answers]
        return {"items": items, "said": said}

    def _comments(self, judgements: Judgements) -> dict[str, Any]:
        """Return the newest answers with a comment or a flag, and the number of such answers.

        Answers that were undone are left out.
        """
        is_noted = judgements.comment.astype(np.bool_) | judgements.flagged.astype(np.bool_)
        rows = np.flatnonzero(is_noted & judgements.live)
        newest_rows = rows[::-1][:TALKED]
        newest = [self._commented_answer(judgements[row]) for row in newest_rows.tolist()]
        return {"found": len(rows), "newest": newest}

    def _commented_answer(self, judgement: Judgement) -> dict[str, Any]:
        """Return an answer with its comment, its flag and its items."""
        return {
            "annotator": judgement.annotator,
            "answer": judgement.word,
            "comment": judgement.comment,
            "flagged": judgement.flagged,
            "at": judgement.at,
            "items": [self._item_with_choice(judgement, item) for item in judgement.items],
        }

    def _item_with_choice(self, judgement: Judgement, item: int) -> dict[str, Any]:
        """Return an item of an answer; `choice` is `best`, `worst`, or empty for other items."""
        choices = {judgement.best: "best", judgement.worst: "worst"}
        return {**item_cell(self.service.items, item), "choice": choices.get(item, "")}


def _figures(report: dict[str, Any] | None) -> list[dict[str, Any] | None]:
    """Return the figures of an annotator's report as plain values; None for an unknown figure."""
    return [None if figure is None else asdict(figure) for figure in figures_of(report)]


def _remaining(service: LabellingService) -> dict[str, Any]:
    """Return the distance from the goal, and how many of the groups have reached the goal."""
    remaining = service.remaining
    return {
        **remaining_facts(remaining),
        "groups": len(remaining.groups),
        "done": sum(group.stop for group in remaining.groups),
    }


def _groups(service: LabellingService) -> list[dict[str, Any]]:
    """Return the groups that are furthest from the goal, with their names, furthest first."""
    names = list(dict.fromkeys(service.items.groups or ()))
    worst_groups = sorted(service.remaining.groups, key=lambda group: -group.wrong)[:SHOWN]
    return [{**plain(asdict(group)), "group": names[group.group]} for group in worst_groups]


def _per_hour(judgements: Judgements, now: float) -> dict[str, int]:
    """Return the number of answers in the last hour, and the hourly rate of the last ten minutes.

    Args:
        now: the current time, in seconds since 1970.
    """
    times = judgements.at[judgements.is_answer]
    n_in_last_hour = int((times > now - HOUR).sum())
    n_in_ten_minutes = int((times > now - HOUR / 6).sum())
    return {"last_hour": n_in_last_hour, "pace": 6 * n_in_ten_minutes}


def _paces(judgements: Judgements) -> dict[str, dict[str, float | None]]:
    """Return each annotator's answers a minute, and the time of the last answer."""
    has_time = ~np.isnan(judgements.at)
    rows = np.flatnonzero((judgements.answer != UNDO) & has_time)
    paces = {}
    for rows_of_annotator in _by_annotator(judgements, rows):
        times = judgements.at[rows_of_annotator[-LATEST:]].tolist()
        annotator = judgements[int(rows_of_annotator[-1])].annotator
        paces[annotator] = {"pace": pace(times), "last": times[-1]}
    return paces


def _by_annotator(judgements: Judgements, rows: I64) -> list[I64]:
    """Split rows of judgements into one array for each annotator, in the order of time."""
    if not len(rows):
        return []
    # A stable sort keeps the order of time among the rows of an annotator.
    sorted_rows = rows[np.argsort(judgements.annotator[rows], kind="stable")]
    is_next_annotator = np.diff(judgements.annotator[sorted_rows]) != 0
    starts = np.flatnonzero(is_next_annotator) + 1
    return np.split(sorted_rows, starts)


def pace(times: Sequence[float]) -> float | None:
    """Compute how many answers a minute were given lately, by the times of the last 30 answers.

    Breaks of more than two minutes do not count as time. None if no two answers in a row are at
    most two minutes apart.

    >>> pace([0, 10, 20, 1000, 1010])
    6.0
    """
    gaps = [after - before for before, after in pairwise(times[-LATEST:])]
    gaps_without_breaks = [gap for gap in gaps if gap <= BREAK]
    seconds = sum(gaps_without_breaks)
    if seconds <= 0:
        return None
    return 60 * len(gaps_without_breaks) / seconds
