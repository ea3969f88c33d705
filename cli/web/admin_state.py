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
from sortnet.files import plain
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import (
    ENOUGH_SHARED,
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
        # `is_fitted` is read first: in the other order, a first fit that ends in between would make
        # the distance from before the fit look valid.
        is_fitted = service.is_fitted
        remaining = service.remaining
        study = service.study
        goal = service.session.goal
        statistics = self._current_statistics()
        group_names = list(dict.fromkeys(service.items.groups or ()))
        furthest_groups = sorted(remaining.groups, key=lambda group: -group.wrong)[:SHOWN]
        distance = {
            **remaining_facts(remaining),
            "groups": len(remaining.groups),
            "done": sum(group.stop for group in remaining.groups),
        }
        groups = [
            {**plain(group._asdict()), "group": group_names[group.group]}
            for group in furthest_groups
        ]
        return {
            **ranking_rows(service, view),
            **statistics["facts"],
            "items": len(service.items),
            "answers": service.session.n_votes,
            "enough": ENOUGH_SHARED,  # agreement on fewer pairs says nothing
            "remaining": distance if is_fitted else None,
            "curve": growth_points(service, statistics["recorded"]) if is_fitted else [],
            "groups": groups if is_fitted else [],
            "goal": goal.wrong,  # share of pairs
            "top": goal.top,  # number of items
            "wanted": goal_in_words(goal),
            "people": [
                self._annotator_state(name, token, statistics)
                for name, token in self._people.tokens.items()
            ],
            "paused": None in study.paused,  # None stands for everybody
            "gold_rate": study.gold_rate,
            "gold": [
                {
                    "item": pair.item,
                    "other": pair.other,
                    "better": self._item_label(pair.item),
                    "worse": self._item_label(pair.other),
                }
                for pair in list(study.gold.values())[:SHOWN]
            ],
        }

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
                name: getattr(study, name)
                for name in ("question", "instructions", "top", "goal", "deadline")
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
            "figures": [figure and asdict(figure) for figure in figures_of(report)],
            **pace_facts,
            "state": study.state(name),
            "quota": study.quotas.get(name),
            "excluded": name in study.excluded,
            "paused": name in study.paused,
            "revoked": name in study.revoked,
        }

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
        """Return the statistics that need a pass over all judgements.

        Computing them takes at most a tenth of the time, so the statistics of a large collection
        may be some seconds old.
        """
        with self._lock:
            start = time.monotonic()
            if start >= self._next_computation:
                self._statistics = self._compute_statistics()
                end = time.monotonic()
                self._next_computation = end + _UPDATE_INTERVAL * (end - start)
            return self._statistics

    def _compute_statistics(self) -> dict[str, Any]:
        """Compute the statistics of all judgements.

        Judgements of excluded annotators count for the paces, the question sizes and the comments.
        """
        service = self.service
        counted = service.session.judgements()
        all_judgements = service.judgements()
        reports = service.reports(list(self._people.tokens))
        return {
            "reports": {report.name: plain(asdict(report)) for report in reports},
            "paces": _paces(all_judgements),
            "recorded": recorded(service.collection, service.session.goal),
            "facts": {
                "agreement": plain(asdict(agreement(counted))),
                "per_hour": _per_hour(counted, time.time()),
                "sizes": facts_of_sizes(all_judgements, service.study),
                "disputed": self._disputed(counted),
                "comments": self._comments(all_judgements),
            },
        }

    def _disputed(self, judgements: Judgements) -> dict[str, Any]:
        """Return the most disputed pairs with all answers, and the number of disputed pairs.

        An answer has the annotator and the choice: 1 if the first item is better, 0 if the second
        item is better, 1/2 for a tie.
        """
        n_disputed, disputes = most_disputed(judgements, self.service.session.posterior, TALKED)
        pairs = [
            {
                "items": [item_cell(self.service.items, item) for item in dispute.pair],
                "said": [[answer.annotator, for_first] for answer, for_first in dispute.answers],
            }
            for dispute in disputes[:n_disputed]
        ]
        return {"found": n_disputed, "pairs": pairs}

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
        """Return an answer with its comment, its flag and its items.

        The `choice` of an item is `best`, `worst`, or empty for other items.
        """
        choices = {judgement.best: "best", judgement.worst: "worst"}
        return {
            "annotator": judgement.annotator,
            "answer": judgement.word,
            "comment": judgement.comment,
            "flagged": judgement.flagged,
            "at": judgement.at,
            "items": [
                {**item_cell(self.service.items, item), "choice": choices.get(item, "")}
                for item in judgement.items
            ],
        }


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
    is_timed_answer = (judgements.answer != UNDO) & ~np.isnan(judgements.at)
    paces = {}
    for annotator in judgements.annotators:
        times = judgements.at[is_timed_answer & judgements.by(annotator)].tolist()
        if times:
            paces[annotator] = {"pace": pace(times), "last": times[-1]}
    return paces


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
