"""State of the admin page: ranking, curve, annotators, links, disputed pairs, comments."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import lru_cache
from textwrap import shorten

import numpy as np

from sortnet.core import I64
from sortnet.files import Record, plain
from sortnet.items import Items
from sortnet.preference import Judgement
from sortnet.preference.annotator_agreement import (
    ENOUGH_SHARED,
    agreement,
    most_disputed,
)
from sortnet.preference.intervals import Ranking
from sortnet.preference.judgement_table import UNDO, Judgements
from store import Annotator, Collection
from store.report.columns import TITLES, figures_of
from store.report.growth import growth_of, growth_picture
from store.service.collection_items import TOP
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
    ("Seconds each", ""),
    *((_PAGE_TITLES.get(title, title.capitalize()), "") for title in TITLES),
    ("State, verdict", "text"),
    ("Actions", "text"),
)
ROWS = 50  # most rows on a page of the ranking
COLUMNS = ("rank", "low", "high", "score", "judgements")
SORTS = (*COLUMNS, TOP, "item")
SNIPPET = 100  # most characters of an item's text in a table
HOUR = 3600.0  # seconds
_UPDATE_INTERVAL = 10  # statistics are kept for this multiple of the time that they took


class AdminState:
    """State of the admin page; slow statistics are recomputed only at intervals.

    Args:
        service: the labelling service of the collection, or of one of its criteria.
        collection: the collection, which has the links of the annotators.
    """

    def __init__(self, service: LabellingService, collection: Collection) -> None:
        """Start without statistics: the first request computes them."""
        self.service = service
        self._collection = collection
        self._lock = threading.Lock()
        self._statistics: Record = {}
        # Time by the clock `time.monotonic` before which the statistics are not computed again.
        self._next_computation = 0.0

    def state(self, view: View) -> Record:
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
            "curve": growth_of(service) if is_fitted else [],
            "groups": groups if is_fitted else [],
            "goal": goal.wrong,  # share of pairs
            "top": goal.top,  # number of items
            "wanted": goal_in_words(goal),
            "people": [
                self._annotator_state(annotator, statistics)
                for annotator in self._collection.annotators()
            ],
            "paused": None in study.paused,  # None stands for everybody
            "gold_rate": study.gold_rate,
            "gold": [
                {
                    "item": pair.item,
                    "other": pair.other,
                    "better": item_cell(service.items, pair.item or 0),
                    "worse": item_cell(service.items, pair.other or 0),
                }
                for pair in list(study.gold.values())[:SHOWN]
            ],
        }

    def template_variables(self, view: View) -> Record:
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

    def _annotator_state(self, annotator: Annotator, statistics: Record) -> Record:
        """Return an annotator's link, progress, figures and restrictions."""
        name = annotator.name
        study = self.service.study
        report = statistics["reports"].get(name)
        return {
            "name": name,
            "path": f"/a/{annotator.token}",
            "standing": self.service.session.answered(name),
            "report": report,
            "figures": figures_of(report),
            "last": statistics["last"].get(name),
            "state": study.state(name),
            "quota": study.quotas.get(name),
            "excluded": name in study.excluded,
            "paused": name in study.paused,
            "revoked": name in study.revoked,
            "model": name in study.models,  # which is asked without a link
        }

    def _current_statistics(self) -> Record:
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

    def _compute_statistics(self) -> Record:
        """Compute the statistics of all judgements.

        Judgements of excluded annotators count, but not for agreement, disputes and the last hour.
        """
        service = self.service
        counted = service.session.judgements()
        all_judgements = service.judgements()
        names = [annotator.name for annotator in self._collection.annotators()]
        return {
            "reports": {report.name: plain(asdict(report)) for report in service.reports(names)},
            "last": _last_answers(all_judgements),
            "facts": {
                "agreement": plain(asdict(agreement(counted))),
                "last_hour": int((counted.at[counted.is_answer] > time.time() - HOUR).sum()),
                "disputed": self._disputed(counted),
                "comments": self._comments(all_judgements),
            },
        }

    def _disputed(self, judgements: Judgements) -> Record:
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

    def _comments(self, judgements: Judgements) -> Record:
        """Return the newest answers with a comment or a flag, and the number of such answers.

        Answers that were undone are left out.
        """
        is_noted = judgements.comment.astype(np.bool_) | judgements.flagged.astype(np.bool_)
        rows = np.flatnonzero(is_noted & judgements.live)
        newest_rows = rows[::-1][:TALKED]
        newest = [self._commented_answer(judgements[row]) for row in newest_rows.tolist()]
        return {"found": len(rows), "newest": newest}

    def _commented_answer(self, judgement: Judgement) -> Record:
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


def _last_answers(judgements: Judgements) -> dict[str, float]:
    """Return {annotator: the time of the last answer}, without annotators of unknown times."""
    is_timed_answer = (judgements.answer != UNDO) & ~np.isnan(judgements.at)
    last = {}
    for annotator in judgements.annotators:
        times = judgements.at[is_timed_answer & judgements.by(annotator)]
        if len(times):
            last[annotator] = float(times[-1])
    return last


@dataclass(frozen=True)
class View:
    """The choice of the rows of the ranking that the admin page shows.

    Attributes:
        find: part of an item's id or text, or the whole name of a group; empty for all items.
        sort: the column by which the rows are sorted, a name of `SORTS`.
        down: whether the largest value is first.
        page: the number of the page, from 1; a number after the last page means the last page.
    """

    find: str = ""
    sort: str = "rank"
    down: bool = False
    page: int = 1


def ranking_rows(service: LabellingService, view: View) -> Record:
    """Return the rows of one page of the ranking, with the number of items and pages found.

    Cost: proportional to the rows of the page. The first page after a fit also takes a sort of all
    items, unless the rows are in the order of the ranking. The first page of a search takes a pass
    over all items.
    """
    if not service.is_fitted:
        return {"ranking": [], "found": 0, "page": 1, "pages": 1}
    items = service.items
    ranking = service.ranking
    find = view.find.strip().casefold()
    matching_items = _matching_items(items, ranking, view.sort, view.down, find)
    n_pages = max(math.ceil(len(matching_items) / ROWS), 1)
    page = min(view.page, n_pages)
    items_on_page = matching_items[(page - 1) * ROWS : page * ROWS]
    rows = [_row(items, ranking, item) for item in items_on_page.tolist()]
    return {"ranking": rows, "found": len(matching_items), "page": page, "pages": n_pages}


def _row(items: Items, ranking: Ranking, item: int) -> Record:
    """Return an item's row: its cell, its group, and its values.

    The value `of` is the number of items that the rank counts: all items, or the items of the
    group.
    """
    row = item_cell(items, item)
    row["group"] = None if items.groups is None else items.groups[item]
    row["of"] = len(items) if items.groups is None else _group_sizes(items)[items.groups[item]]
    for name in COLUMNS:
        row[name] = plain(getattr(ranking, name)[item])
    row[TOP] = None if ranking.among_top is None else plain(ranking.among_top[item])
    return row


def item_cell(items: Items, item: int) -> Record:
    """Return the facts that identify an item in a table: number, id, start of the text, image."""
    text = items.texts[item]
    if text:
        # Only the beginning is passed on: `shorten` would read the whole text.
        text = shorten(text[: 2 * SNIPPET], SNIPPET, placeholder=" …")
    image_address: str | None = None
    if items.images[item] is not None:
        image_address = f"/image/{item}"
    return {"item": item, "id": items.ids[item], "text": text, "image": image_address}


# The page asks every few seconds. With a million items, a search or a sort takes longer than
# everything else that a request does, so the last results are kept.
@lru_cache(maxsize=2)
def _matching_items(items: Items, ranking: Ranking, sort: str, down: bool, find: str) -> I64:
    """Return the numbers of the items that match a search, in the order of a column.

    Items with the same value stay in the order of the ranking: best first, group by group.

    Args:
        sort: a name of `SORTS`.
        down: whether the largest value is first.
        find: the search text without case; empty: all items match.
    """
    # The ranking may be newer than `items`, and have items that were added meanwhile.
    order = ranking.order[ranking.order < len(items)]
    texts = [text or "" for text in items.texts]
    if find:
        groups = [group.casefold() for group in items.groups or ()]
        if find in groups:
            is_match = np.array(groups) == find
        else:
            names = zip(items.ids, texts, strict=True)
            is_match = np.array([find in f"{id}\n{text}".casefold() for id, text in names])
        order = order[is_match[order]]
    if sort == "item":
        labels = [(texts[item] or items.ids[item]).casefold() for item in order.tolist()]
        return order[sorted(range(len(labels)), key=labels.__getitem__, reverse=down)]
    is_in_order_already = sort == "rank" and not down
    has_no_values = sort == TOP and ranking.among_top is None  # the goal has no top
    if is_in_order_already or has_no_values:
        return order
    values = getattr(ranking, sort)[order]
    return order[np.argsort(-values if down else values, kind="stable")]


@lru_cache(maxsize=1)
def _group_sizes(items: Items) -> Counter[str]:
    """Count the items of each group."""
    return Counter(items.groups or ())
