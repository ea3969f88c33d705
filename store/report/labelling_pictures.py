"""Draw the pictures of a collection's report: intervals, growth of certainty, annotators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sortnet.core import I64
from sortnet.errors import DataError
from sortnet.files import plain
from sortnet.messages import count
from sortnet.preference.stopping import Remaining
from store.plots.labelling import (
    NAMED,
    answers_by_annotator,
    calibration_curves,
    certainty_growth,
    ranking_intervals,
)
from store.report.svg import Picture, picture
from store.service.convergence import FEW, recorded
from store.service.labelling import LabellingService, new_session

# If too few fits were recorded, the model is fitted again to these shares of the judgements, the
# first judgements in each case. Large collections are not fitted again, which would take too long.
_REPLAYED_SHARES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85)
_MOST_ITEMS = 500
_MOST_ANSWERS = 20_000
_ENOUGH_FITS = 3  # with fewer recorded fits, the model is fitted again


def draw_pictures(service: LabellingService, judges: Sequence[dict[str, Any]]) -> list[Picture]:
    """Draw the pictures of a collection's report for which there are enough answers."""
    drawings: list[Callable[[], Picture]] = [
        partial(_intervals_picture, service),
        partial(_growth_picture, service),
        partial(_annotators_picture, judges),
        partial(_calibration_picture, judges),
    ]
    pictures = []
    for draw in drawings:
        with suppress(DataError):  # there are not enough answers for this picture yet
            pictures.append(draw())
    return pictures


def _intervals_picture(service: LabellingService) -> Picture:
    """Draw the intervals of the ranks; with groups, only of the group with the most answers.

    Raises:
        DataError: if there are no answers about these items.
    """
    ranking = service.ranking
    items = service.items
    order = ranking.order
    title = "Intervals of the ranks"
    if items.groups is not None:
        busiest_group = _busiest_group(items.groups, ranking.judgements)
        order = np.array([item for item in order if items.groups[item] == busiest_group], np.int64)
        title = f"Intervals of the ranks in the group {busiest_group}"
    if not ranking.judgements[order].any():
        raise DataError("no answers yet")
    frame = pd.DataFrame(
        {
            "id": [items.ids[item] for item in order.tolist()],
            "rank": ranking.rank[order],
            "low": ranking.low[order],
            "high": ranking.high[order],
        }
    )
    width = frame["high"] - frame["low"] + 1
    drawn_as = "A band" if len(frame) > NAMED else "A line for each item"
    alt = (
        f"{title}. {drawn_as}; the 90 % interval of a rank has a median of {width.median():.0f} of "
        f"{len(frame)} ranks, {width.min()} at least and {width.max()} at most; see the ranking."
    )
    caption = (
        "The narrower an interval, the surer the rank; items whose intervals overlap may change."
    )
    return picture(title, caption, alt, ranking_intervals(frame))


def _busiest_group(groups: Sequence[str], n_answers: I64) -> str:
    """Return the group whose items have the most answers; of equal groups, the first.

    Args:
        groups: the group of each item.
        n_answers: the number of answers about each item.
    """
    answers_of_group: dict[str, int] = dict.fromkeys(groups, 0)
    for group, n_answers_of_item in zip(groups, n_answers.tolist(), strict=True):
        answers_of_group[group] += n_answers_of_item
    return max(answers_of_group, key=answers_of_group.__getitem__)


def _growth_picture(service: LabellingService) -> Picture:
    """Draw how certainty has grown with the number of answers.

    Raises:
        DataError: if there are too few points to draw.
    """
    goal = service.session.goal
    points = growth_of(service)
    expected_share_at_goal = None if goal.top else 1 - goal.wrong
    figure = certainty_growth(pd.DataFrame(points), goal=expected_share_at_goal)
    first = points[0]
    last = points[-1]
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
    """Return the certainty after different numbers of answers, as points of a picture.

    A point has the number of answers, the share of pairs that the model expects to be in the right
    order, and the share of the hold-out answers that the model predicts. The points are from the
    recorded fits. If fewer than three fits are recorded, as with imported answers, the model is
    fitted again to the first answers.

    Cost: six fits, of at most 500 items and 20,000 answers, if they are fitted again.
    """
    session = service.session
    n_answers = session.n_votes
    if n_answers == 0:
        return []
    points = []
    for point in recorded(service.collection, session.goal):
        n_answers_then = point["answers"] or 0  # the number may be unknown
        is_known = n_answers_then > 0 and point["expected"] is not None
        if is_known and n_answers_then < n_answers:  # the last point is computed below
            points.append(point)
    is_small = len(service.items) <= _MOST_ITEMS and n_answers <= _MOST_ANSWERS
    if len(points) < _ENOUGH_FITS and is_small:
        points = _replayed_points(service)
    return [*points, _point(n_answers, service.remaining)]


def _replayed_points(service: LabellingService) -> list[dict[str, Any]]:
    """Fit a new session to growing numbers of the first judgements; return a point for each fit.

    The point of all answers, and points without any answer, are left out.
    """
    session = service.session
    judgements = session.judgements()
    replay = new_session(service.collection, service.items, service.study, goal=session.goal)
    points = []
    n_replayed = 0
    for share in _REPLAYED_SHARES:
        n_judgements = int(share * len(judgements))
        if n_judgements <= n_replayed:  # no further judgement: there are only a few
            continue
        replay.replay(judgements[n_replayed:n_judgements])
        n_replayed = n_judgements
        replay.refit()
        if 0 < replay.n_votes < session.n_votes:
            points.append(_point(replay.n_votes, replay.remaining(fresh=False)))
    return points


def _point(n_answers: int, remaining: Remaining) -> dict[str, Any]:
    """Make a point of the picture of growing certainty.

    The share of the hold-out is None if the hold-out has few answers.
    """
    holdout = remaining.check.right if remaining.check.n >= FEW else None
    point = {"answers": n_answers, "expected": 1 - remaining.wrong, "holdout": holdout}
    return dict(plain(point))


def _annotators_picture(judges: Sequence[dict[str, Any]]) -> Picture:
    """Draw how many answers each annotator has given.

    Raises:
        DataError: if there are no annotators.
    """
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


def _calibration_picture(judges: Sequence[dict[str, Any]]) -> Picture:
    """Draw how often judges are right who are as sure as that.

    Raises:
        DataError: if nothing is known about stated probabilities.
    """
    points = [
        {"judge": judge["name"], "said": said, "right": right}
        for judge in judges
        if judge["calibration"]
        for said, right, _ in judge["calibration"]["curve"]
    ]
    figure = calibration_curves(pd.DataFrame(points, columns=["judge", "said", "right"]))
    title = "Stated probabilities"
    n_judges = len({point["judge"] for point in points})
    alt = f"{title}. Lines of {count(n_judges, 'judge')}; their mean is told at the judges."
    caption = "On the dotted line a judge is right as often as stated; below it, too sure."
    return picture(title, caption, alt, figure)
