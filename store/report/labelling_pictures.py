"""Pictures of a collection's report: intervals of ranks, growth of certainty, annotators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sortnet.errors import DataError
from sortnet.files import plain
from sortnet.messages import count
from sortnet.preference.stopping import Remaining
from store.plots.labelling import (
    NAMED,
    answers_by_annotator,
    certainty_growth,
    ranking_intervals,
)
from store.report.svg import Picture, picture
from store.service.convergence import FEW, recorded
from store.service.labelling import LabellingService, new_session

_REPLAYED_SHARES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85)  # of the judgements
_MOST_ITEMS, _MOST_ANSWERS = 500, 20_000  # in larger collections no fit is repeated
_ENOUGH_FITS = 3  # recorded fits that are drawn without more


def draw_pictures(service: LabellingService, judges: Sequence[dict[str, Any]]) -> list[Picture]:
    """Draw the pictures of a collection's report for which there are enough answers."""
    drawings: list[Callable[[], Picture]] = [
        partial(_intervals_picture, service),
        partial(_growth_picture, service),
        partial(_annotators_picture, judges),
    ]
    pictures = []
    for draw in drawings:
        with suppress(DataError):  # there are not enough answers for this picture yet
            pictures.append(draw())
    return pictures


def _intervals_picture(service: LabellingService) -> Picture:
    """Intervals of the ranks; with groups, only of the group with the most answers."""
    ranking, items = service.ranking, service.items
    order = ranking.order
    title = "Intervals of the ranks"
    if items.groups is not None:
        groups = np.array(items.groups, object)
        names = list(dict.fromkeys(items.groups))
        answers = [ranking.judgements[groups == name].sum() for name in names]
        largest = names[int(np.argmax(answers))]
        order = order[groups[order] == largest]
        title = f"Intervals of the ranks in the group {largest}"
    if not ranking.judgements[order].any():
        raise DataError("no answers yet")
    columns = {name: getattr(ranking, name)[order] for name in ("rank", "low", "high")}
    frame = pd.DataFrame({"id": [items.ids[k] for k in order.tolist()], **columns})
    width = frame["high"] - frame["low"] + 1
    form = "A band" if len(frame) > NAMED else "A line for each item"
    alt = (
        f"{title}. {form}; the 90 % interval of a rank has a median of {width.median():.0f} of "
        f"{len(frame)} ranks, {width.min()} at least and {width.max()} at most; see the ranking."
    )
    caption = (
        "The narrower an interval, the surer the rank; items whose intervals overlap may change."
    )
    return picture(title, caption, alt, ranking_intervals(frame))


def _growth_picture(service: LabellingService) -> Picture:
    goal = service.session.goal
    points = growth_of(service)
    figure = certainty_growth(pd.DataFrame(points), goal=None if goal.top else 1 - goal.wrong)
    first, last = points[0], points[-1]
    alt = (
        f"Growth of certainty. Lines; the expected share rises from {first['expected']:.0%} after "
        f"{first['answers']:.0f} answers to {last['expected']:.0%} after {last['answers']:.0f}."
    )
    subject = f"the top {goal.top} that belong there" if goal.top else "pairs in the right order"
    caption = (
        f"The share of {subject} that the model expects, and the share of the hold-out answers "
        "that it predicts. Answers of somebody who contradicts the others make it fall."
    )
    return picture("Growth of certainty", caption, alt, figure)


def growth_of(service: LabellingService) -> list[dict[str, Any]]:
    """The expected share, and the share right in the hold-out, after some numbers of answers.

    The shares are from the recorded fits. If fewer than three fits are recorded, as with imported
    answers, the first answers are fitted again.

    Cost: six fits, of at most 500 items and 20,000 answers, if they are fitted again.
    """
    session = service.session
    n_answers = session.n_votes
    if n_answers == 0:
        return []
    points = [
        point
        for point in recorded(service.collection, session.goal)
        if 0 < (point["answers"] or 0) < n_answers and point["expected"] is not None
    ]
    is_small = len(service.items) <= _MOST_ITEMS and n_answers <= _MOST_ANSWERS
    if len(points) < _ENOUGH_FITS and is_small:
        points = _replayed_points(service)
    return [*points, _point(n_answers, service.remaining)]


def _replayed_points(service: LabellingService) -> list[dict[str, Any]]:
    """The points of growth after fits to the first judgements."""
    session = service.session
    judgements = session.judgements()
    replay = new_session(service.collection, service.items, service.study, goal=session.goal)
    points = []
    n_replayed = 0
    for share in _REPLAYED_SHARES:
        upto = int(share * len(judgements))
        if upto <= n_replayed:
            continue
        replay.replay(judgements[n_replayed:upto])
        n_replayed = upto
        replay.refit()
        if 0 < replay.n_votes < session.n_votes:
            points.append(_point(replay.n_votes, replay.remaining(fresh=False)))
    return points


def _point(n_answers: int, remaining: Remaining) -> dict[str, Any]:
    """A point of growth; no share of the hold-out if it has few answers."""
    holdout = remaining.holdout_right if remaining.holdout_n >= FEW else None
    point = {"answers": n_answers, "expected": 1 - remaining.wrong, "holdout": holdout}
    return dict(plain(point))


def _annotators_picture(judges: Sequence[dict[str, Any]]) -> Picture:
    columns = {
        "annotator": [judge["name"] for judge in judges],
        "answers": [judge["answers"] for judge in judges],
    }
    figure: Figure = answers_by_annotator(pd.DataFrame(columns))
    busiest = max(judges, key=lambda judge: int(judge["answers"]))
    alt = (
        f"Who answered how many. Bars of {count(len(judges), 'annotator')}; {busiest['name']} "
        f"gave the most, {busiest['answers']}; see the judges."
    )
    return picture("Who answered how many", "Answers that were not undone.", alt, figure)
